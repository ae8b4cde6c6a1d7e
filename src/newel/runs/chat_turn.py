"""A chat's turn as a job: a message is answered, also by a process that began after the one that took it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from newel.agent.errors import NewelError
from newel.agent.events import AgentEnd, AgentEvent, ErrorEvent, MessageEnd
from newel.agent.messages import AppMessage, UserMessage, Wire
from newel.jobs.engine import Engine, EngineError, JobCancelled, JobOutcome, Lease, LeaseLost
from newel.runs.chat_session import ChatSession, is_settled
from newel.runs.event_hub import EventHub, JournalWriter
from newel.runs.run_events import RunEvent, decode
from newel.session.coding_agent import CodingAgent

TURN = "turn"
STOPPED = "Stopped before the first request."
STOPPED_MIDWAY = "Stopped before the next request."


class TurnParams(Wire, frozen=True, kw_only=True):
    """``message`` is None where the conversation goes on without a new one. With ``before`` it first goes back to just
    before that message. ``session`` is the conversation that it was said in: a tab may have begun another since.
    """

    tab: str
    session: str
    message: UserMessage | None = None
    before: str | None = None


async def read_events(engine: Engine, job: str) -> list[RunEvent]:
    """All that a journal says so far."""
    events: list[RunEvent] = []
    seq = 0
    while page := await engine.read(job, seq):
        events += [decode(entry.data) for entry in page]
        seq = page[-1].seq
    return events


async def answer_turn(
    lease: Lease,
    params: TurnParams,
    conversation: ChatSession,
    engine: Engine,
    feed: EventHub,
    *,
    unsaid: Sequence[AppMessage] = (),
    begun: Callable[[], Awaitable[None]],
) -> JobOutcome:
    """Carry out a turn, or what an earlier process left of it. Each of its messages is said once, by its id. What was
    ``unsaid`` comes first; ``begun`` is awaited when the conversation has its agent.
    """
    earlier = await read_events(engine, lease.job) if lease.seq else []
    # A run that this process's predecessor broke off on its way out goes on; any other end was the end.
    if ended := [event for event in earlier if isinstance(event, AgentEnd) and event.reason != "aborted"]:
        return outcome(ended[-1])
    recorder = JournalWriter(engine, lease, feed)
    try:
        async with conversation.run(recorder, earlier, unsaid) as agent:
            await begun()
            return outcome(await _answer(agent, conversation, params, recorder))
    except (LeaseLost, JobCancelled, EngineError):
        raise
    except NewelError as error:
        if not recorder.ended:  # the session is another program's, say: the run could not begin
            said = {
                event.message.id for event in earlier if isinstance(event, MessageEnd)
            } | conversation.taken
            if params.message is not None and params.message.id not in said:
                await recorder(MessageEnd(message=params.message))
            await recorder(ErrorEvent(code=error.code, message=str(error)))
            await recorder(AgentEnd(reason="error", message=str(error)))
        return JobOutcome(state="failed", reason=str(error))


def outcome(end: AgentEnd) -> JobOutcome:
    """How a run's last event leaves its job."""
    return JobOutcome(state="failed" if end.reason == "error" else "done", reason=end.message)


async def _answer(
    agent: CodingAgent,
    conversation: ChatSession,
    params: TurnParams,
    record: Callable[[AgentEvent], Awaitable[None]],
) -> AgentEnd:
    message = params.message
    tree = {entry.message.id: entry for entry in agent.session.get_tree()}
    if conversation.stop_asked:
        is_new = message is not None and message.id not in tree
        if is_new and message is not None:
            await agent.append_message(message)
        end = AgentEnd(reason="stopped", message=STOPPED if is_new else STOPPED_MIDWAY)
        await record(end)
        return end
    if message is None or message.id in tree:
        if not is_settled(agent.get_messages()):
            return await agent.answer([])
        end = AgentEnd(reason="done")
        await record(end)
        return end
    if params.before in tree:
        conversation.branch(tree[params.before].parent_id)
    end = await agent.answer([message])
    if message.id not in conversation.taken:  # it was stopped sooner
        await agent.append_message(message)
    return end
