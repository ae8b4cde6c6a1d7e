"""Readers of a tab: each gets a snapshot, then every event, across the tab's runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from newel.agent.events import AgentEnd, ErrorEvent, MessageEnd, ModelRouted, Retry, ToolExecutionUpdate
from newel.agent.messages import AppMessage, ToolResultMessage
from newel.jobs.engine import FINAL, Engine, Job
from newel.runs.chat_turn import read_events
from newel.runs.models import RunReport, SequencedEvent, Snapshot
from newel.runs.run_events import Notice, RunEvent, decode, is_nested
from newel.tools.todo import NAME as TODO
from newel.tools.todo import current_items
from newel.workbench.tab_session import TabSession

PAGE_MESSAGES = 100
"""Messages in a snapshot."""
REPORTS = (Retry, ModelRouted, Notice, ErrorEvent, AgentEnd)
"""Events of a chat's run that a snapshot has besides its messages."""

Frame = Snapshot | SequencedEvent


async def follow(tab: TabSession, run: str | None = None, after: int = 0) -> AsyncGenerator[Frame]:
    """Everything that happens in a tab until it is closed. A reader that has event ``after`` of the tab's latest ``run`` gets
    the events since; any other one a snapshot first, and another one whenever the conversation it has read was replaced.
    """
    is_current = run is not None and run == tab.state.run
    while not tab.is_closed:
        epoch = tab.epoch  # before the snapshot: a change while the reader receives it must start another one
        if not is_current:
            snapshot = await take_snapshot(tab)
            yield snapshot
            run, after = snapshot.run, snapshot.seq
        if run is not None:
            async with aclosing(tab.services.hub.follow(run, after)) as items:
                async for item in items:
                    if tab.epoch != epoch or tab.is_closed:
                        break
                    yield item
        while tab.epoch == epoch and tab.state.run == run and not tab.is_closed:
            await tab.wait_for_change()
        is_current = tab.epoch == epoch
        run, after = tab.state.run, 0


async def take_snapshot(tab: TabSession) -> Snapshot:
    """The state from which a reader follows a tab."""
    if tab.state.kind == "agent":
        # Only the run's journal has verdicts and checks, so the reader gets all of that.
        return Snapshot(messages=[], run=tab.state.run, questions=tab.chat.questions.pending)
    engine = tab.services.engine
    while True:
        switches = tab.switches  # before the conversation, which may go further meanwhile
        run, activity, was_active = tab.state.run, tab.state.activity, tab.chat.active_agent is not None
        job = await engine.get(run) if run else None
        queue = await tab.queue.messages()
        messages, branches = await tab.conversation(await _recorded(engine, job))
        chat = tab.chat
        journal, agent = chat.journal, chat.active_agent
        if journal is not None and agent is not None:  # nothing may be awaited from here on
            run, messages, branches = journal.run, agent.history(), agent.session.get_branch_points()
            break
        if not was_active and (run, activity) == (tab.state.run, tab.state.activity):
            break  # otherwise the parts were read at different moments
    snapshot = Snapshot(
        messages=list(messages[-PAGE_MESSAGES:]),
        run=run,
        seq=journal.seq if journal else job.seq if job else 0,
        queue=[message for message in queue if message.message.id not in chat.delivered],
        more=len(messages) > PAGE_MESSAGES,
        working=sorted(agent.state.pending_tool_calls) if agent else [],
        questions=chat.questions.pending,
        totals=tab.totals_of(messages),
        todo=[*current_items(messages.results(TODO))],
        branches=[*branches],
        switches=switches,
    )
    return msgspec.structs.replace(snapshot, told=await _reports(engine, snapshot)) if run else snapshot


async def _recorded(engine: Engine, job: Job | None) -> list[AppMessage]:
    """The messages of a run that has not ended, but may have no agent: one that could not start is about to fail, and its message is
    in no session. Its events up to the snapshot's ``seq`` are not sent again, so the snapshot must have them.
    """
    if job is None or job.state in FINAL or job.seq == 0:
        return []
    events = await read_events(engine, job.id)
    return [event.message for event in events if isinstance(event, MessageEnd)]


async def _reports(engine: Engine, snapshot: Snapshot) -> list[RunReport]:
    """What the run of a snapshot reports up to its ``seq``, each after the message that it followed."""
    ids = ["", *(message.id for message in snapshot.messages)]
    with_session = {
        message.tool_call_id
        for message in snapshot.messages
        if isinstance(message, ToolResultMessage) and "session" in message.details
    }

    def is_told(event: RunEvent) -> bool:
        # The session of a subagent that has ended is read when it is to be shown.
        if isinstance(event, ToolExecutionUpdate):
            return is_nested(event) and event.tool_call_id not in with_session
        return isinstance(event, REPORTS)

    reports: list[RunReport] = []
    after: str | None = None  # the run has added no message yet
    seq = 0
    while page := await engine.read(snapshot.run or "", seq):
        for entry in page:
            event = decode(entry.data)
            if isinstance(event, MessageEnd):
                # what is no longer in the conversation, or too early for the snapshot, has no place
                if after is None:
                    is_here = event.message.id in ids
                    before = ids[ids.index(event.message.id) - 1] if is_here else ""
                    reports = [msgspec.structs.replace(report, after=before) for report in reports if is_here]
                after = event.message.id
            elif is_told(event) and entry.seq <= snapshot.seq:
                reports.append(RunReport(after=ids[-1] if after is None else after, event=event))
        seq = page[-1].seq
    return [report for report in reports if report.after in ids]
