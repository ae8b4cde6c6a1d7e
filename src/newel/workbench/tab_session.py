"""``TabSession``: one tab of the workbench. It owns all of the tab's state; others read ``state`` and call its methods.

    Workbench ──command──► TabSession ──► ChatQueue, ChatSession ──► CodingAgent
    readers   ◄──────────── notify ◄────────── ChatChange ◄───────────── events

Commands go down, changes go up, and no object reaches into the one above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import AppMessage, UserMessage, add_costs, new_id, now
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.contracts import contract_job
from newel.contracts.contract_job import CONTRACT, ContractParams, run_contract_job
from newel.jobs.engine import FINAL, Engine, JobOutcome, Lease
from newel.permissions.approval import ApprovalMode
from newel.providers.routing import read_agent_mode
from newel.runs.chat_session import (
    AgentFactory,
    BranchedHistory,
    ChatChange,
    ChatSession,
    is_blocked,
    is_settled,
)
from newel.runs.chat_turn import TURN, ChatQueue, TurnParams, find_unsaved, is_held, run_turn
from newel.runs.event_hub import EventHub
from newel.runs.models import Contract, Tab, TabTotals
from newel.session.coding_agent import check_approval_change
from newel.session.history import History
from newel.text.json import to_json
from newel.text.sanitize import plain_line
from newel.workbench.latest_run import milliseconds, restore
from newel.workbench.tab_log import RunStopped, TabClosed, TabLog, TabSaved, lasting

NEW_CHAT = "Chat"
"""The title of a chat before its first message."""
CLOSED = "This tab was closed."
CLEARED = "The conversation was cleared."
NOT_QUEUED = "This message is no longer queued: it was sent or withdrawn."

ChangeKind = Literal["tabs", "questions", "totals", "queue", "servers", "host", "model", "permissions"]
Notify = Callable[[ChangeKind, str], None]
"""Reports a change: of the list of tabs, or of the tab with this id."""


class TabServiceError(NewelError, code="board_error"):
    """The tab cannot do this now."""


class TabServices(NamedTuple):
    """What all tabs of a workbench share. ``project`` is the folder of the agents; logs are written to ``home``."""

    engine: Engine
    hub: EventHub
    factory: AgentFactory
    log: TabLog
    notify: Notify
    project: str
    home: Path


def _title_of(prompt: UserMessage) -> str:
    return plain_line(prompt.text, 40)


class TabSession:
    """``state`` is what readers are shown now; ``stopped_run`` the last run that the user has stopped.

    An acknowledged change is durable: a message that ``send`` accepted is answered, if need be by the next process.
    """

    def __init__(self, tab: Tab, services: TabServices, stopped_run: str | None = None) -> None:
        self.state = tab
        self.services = services
        self._stopped_run = stopped_run
        self.switches = tab.switches
        """Those of ``state`` that are done."""
        self.epoch = 0
        """Grows when the conversation went back or was replaced: its readers need another snapshot."""
        self._is_closing = self.is_closed = False
        self._changed = anyio.Event()
        """Set, and replaced, when the latest run or the epoch is another one, or the tab was closed."""
        self._start_conversation()

    def _start_conversation(self) -> None:
        def on_change(change: ChatChange) -> None:
            # A run of the conversation before may still be ending.
            if chat is self.chat and not self.is_closed:
                self._on_chat_change(change)

        tab = self.state
        self.chat = chat = ChatSession(
            session=tab.session,
            folder=tab.folder,
            model=tab.model,
            agent_mode=tab.agent_mode,
            approve=tab.approve,
            thinking=tab.thinking,
            factory=self.services.factory,
            on_change=on_change,
        )
        self.queue = ChatQueue(self.services.engine, tab.id, chat)

    async def load(self) -> None:
        """Restore the state from the latest run."""
        self.state = await restore(self.state, self.services.engine)

    # -- state ------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.state.status in {"running", "waiting"}

    def _update(self, **fields: object) -> None:
        self.state = msgspec.structs.replace(self.state, **fields)
        self.services.notify("tabs", "")

    async def _save(self, **fields: object) -> None:
        """Make a change durable, then show it."""
        after = lasting(msgspec.structs.replace(self.state, **fields))
        if not self._is_closing and after != lasting(self.state):
            await self.services.log.append(TabSaved(after))
        self._update(**fields)

    def _start_run(self, run: str) -> None:
        self.queue.run = run
        self._update(status="running", run=run, reason="", queued=len(self.queue.forwarded))
        self._wake()

    def _replace_conversation(self, **fields: object) -> None:
        """Start another conversation; a run of the one before ends unseen."""
        self._update(run=None, **fields)
        self._start_conversation()
        self._start_epoch()

    def _on_chat_change(self, change: ChatChange) -> None:
        notify, tab = self.services.notify, self.state.id
        match change:
            case "questions":
                self._update(status="waiting" if self.chat.questions.pending else "running")
                notify("questions", tab)
            case "message":
                self._update(activity=max(self.state.activity + 1, milliseconds(now())))
                notify("totals", tab)
                if self.queue.forwarded:
                    notify("queue", tab)
            case "branch":
                self._start_epoch()

    def _on_queue_change(self) -> None:
        self._update(queued=len(self.queue.forwarded))
        self.services.notify("queue", self.state.id)

    def _start_epoch(self) -> None:
        self.epoch += 1
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    # -- commands ---------------------------------------------------------------------------------

    async def rename(self, title: str) -> None:
        await self._save(title=title)

    async def set_model(self, model: str) -> None:
        await self._save(model=model)
        self.chat.model = model

    async def set_agent_mode(self, mode: AgentMode) -> None:
        """Work in another mode from the next request on. The modes with the remote model share it; any other change takes the
        configured model. Raises ``NewelError`` if the model is not available, and then changes nothing.
        """
        if self.state.kind != "chat":
            raise TabServiceError("An agent's mode is part of its contract.")
        factory = self.services.factory
        found = await factory.find_model(mode)
        before = self.state.agent_mode or factory.model.agent_mode
        model = self.state.model if (mode == "local") == (before == "local") else found.id
        await self._save(agent_mode=mode, model=model)
        self.chat.agent_mode, self.chat.model = mode, model
        if agent := self.chat.active_agent:
            await agent.set_agent_mode(mode)

    async def set_approve(self, mode: ApprovalMode) -> None:
        """Approve calls by another mode from the next one on. Raises ``CannotChangeMode``, and then changes nothing."""
        if self.state.kind != "chat":
            raise TabServiceError("An agent works in the mode that Newel was started with.")
        factory = self.services.factory
        if mode != (before := self.state.approve or factory.approve):
            check_approval_change(before, mode, sandbox_problem=factory.sandbox_problem)
            await self._save(approve=mode)
            self.chat.approve = mode
            if agent := self.chat.active_agent:
                agent.set_approve(mode)

    async def set_thinking(self, level: ThinkingLevel) -> None:
        """Use another reasoning effort from the next request on."""
        if self.state.kind != "chat":
            raise TabServiceError("An agent thinks as much as Newel was started with.")
        await self._save(thinking=level)
        self.chat.thinking = level
        if agent := self.chat.active_agent:
            agent.set_thinking_level(level)

    async def send(self, message: UserMessage, *, before: str | None = None, typed: bool = False) -> str:
        """Add a message to a chat, or with ``before`` replace that message and all after it. Returns the run that will
        answer; sending a message (by its id) again changes nothing. A run in progress takes the message, or leaves it to the next.
        One that was ``typed`` may name files and templates.
        """
        if self.state.kind != "chat":
            raise TabServiceError("An agent works on its contract; open a chat to talk.")
        if before is not None:
            if self.is_running:
                raise TabServiceError(
                    "Stop the run first: it is still adding to the conversation that you want to change."
                )
            existing = {entry.id for entry in (await self.messages()).entries}
            if before not in existing and message.id not in existing:
                raise TabServiceError("The message to replace is no longer part of the conversation.")
        async with self.queue.lock:
            tab = self.state
            params = TurnParams(tab=tab.id, session=tab.session, message=message, before=before, typed=typed)
            run = await self._track(await self.queue.submit(params))
            await self.queue.forward()
        if self.state.title == NEW_CHAT and (title := _title_of(message)):
            await self._save(title=title)
        self._on_queue_change()
        return run

    async def switch_branch(self, message: str, *, before: bool = False) -> None:
        """Go to the end of the branch with a message of the conversation, or to just ``before`` it. All branches are kept."""
        if self.state.kind != "chat":
            raise TabServiceError("An agent's conversation is its work on the contract.")
        async with self.queue.lock:  # no run starts meanwhile
            if self.is_running:
                raise TabServiceError("Stop the run first: it is still adding to the conversation.")
            await self._save(switches=self.state.switches + 1)
            await self.chat.switch_branch(message, before=before)
            self.switches = self.state.switches
        self._start_epoch()
        self.services.notify("totals", self.state.id)

    async def withdraw(self, message: str) -> None:
        """Remove a message that no run has taken yet."""
        async with self.queue.lock:
            is_withdrawn = await self.queue.withdraw(message)
        self._on_queue_change()
        if not is_withdrawn:
            raise TabServiceError(NOT_QUEUED)

    async def send_now(self, message: str) -> None:
        """Send a held message; or end the run in progress at once, so that the queue is answered, in its order."""
        async with self.queue.lock:
            job = await self.queue.find(message)
            if job is None:
                raise TabServiceError(NOT_QUEUED)
            was_held = is_held(job)
            await self.queue.release(message)
            if self.is_running and was_held:
                await self.queue.forward()
            elif self.is_running:
                self.chat.stop(now=True)
        self._on_queue_change()

    async def retry(self) -> str:
        """Continue the conversation after a failure or a stop, or else send the held messages. Returns the run."""
        if self.is_running:
            raise TabServiceError("A run is already in progress.")
        after = self.state.run
        if is_settled(await self.messages()):
            released = await self.queue.release()
            self._on_queue_change()
            if not released:
                raise TabServiceError("There is nothing left to answer.")
            return released[0]
        # Requested twice at once, it is the same run: both follow the same one.
        tab = self.state
        params, key = TurnParams(tab=tab.id, session=tab.session), f"{tab.id}/after/{after}"
        return await self._track(
            await self.services.engine.submit(TURN, to_json(params), queue=tab.id, key=key)
        )

    async def _track(self, run: str) -> str:
        """Show a run that was submitted as the latest one, unless it has ended or another one is in progress."""
        job = await self.services.engine.get(run)
        if not self.is_running and job is not None and job.state not in FINAL:
            self._start_run(run)
        return run

    async def start(self, contract: Contract) -> str:
        """Start an agent on a contract, in a conversation of its own. Returns the run."""
        if self.state.kind != "agent":
            raise TabServiceError("This is a chat. Open an agent to give it a contract.")
        if self.is_running:
            raise TabServiceError("The agent is working. Stop it first.")
        factory, before = self.services.factory, self.state
        contract = factory.apply_limits(contract)
        mode = read_agent_mode(contract.agent_mode) if contract.agent_mode else None
        self._update(status="running", reason="")  # from here on a second start is refused
        try:
            model = None
            if mode is not None and mode != factory.model.agent_mode:
                model = (await factory.find_model(mode)).id
            params = await contract_job.prepare(
                contract,
                factory,
                tab=before.id,
                project=self.services.project,
                home=self.services.home,
                name=before.title,
            )
            await self._save(
                agent_mode=mode,
                model=model,
                contract=contract,
                session=params.session,
                folder=params.folder,
                log=params.log,
            )
            await self.chat.end()
            self._replace_conversation()
            run = await self.services.engine.submit(CONTRACT, to_json(params), queue=before.id)
        except BaseException:
            self._update(status=before.status, reason=before.reason)
            raise
        self._start_run(run)
        return run

    async def stop(self, *, now: bool = False) -> None:
        """End the run, if there is one, before its next request or at once, and hold the messages in the queue. A process that
        resumes the run ends it, too.
        """
        if not self.is_running:
            return
        async with self.queue.lock:
            try:
                await self.queue.hold()
                if self.state.run is not None:
                    await self.services.log.append(RunStopped(self.state.id, self.state.run))
                    self._stopped_run = self.state.run
            finally:  # also if the disk is full
                if agent := self.chat.active_agent:
                    agent.clear_queue()
                self.chat.stop(now=now)
        self.services.notify("queue", self.state.id)

    def answer(self, question: str, answer: dict[str, Any]) -> None:
        """Answer a question of a run. Raises ``NoSuchQuestion``."""
        self.chat.questions.answer(question, answer)

    async def clear(self) -> None:
        """Start another conversation; the session of the one before is kept."""
        await self._cancel_queued(CLEARED)
        await self.chat.end()
        await self._save(session=new_id(), title=NEW_CHAT)
        self._replace_conversation(status="idle")

    async def close(self) -> None:
        """Abort the run, cancel the queue and end all readers. The session is kept."""
        self._is_closing = True  # a change that is saved from here on would open the tab again
        try:
            await self.services.log.append(TabClosed(self.state.id))
        except BaseException:
            self._is_closing = False
            raise
        self.is_closed = True
        await self._cancel_queued(CLOSED)
        for job in await self.services.engine.find(queue=self.state.id, states=["running"]):
            await self.services.engine.cancel(job.id, CLOSED)
        await self.chat.end()
        self._wake()

    async def _cancel_queued(self, reason: str) -> None:
        while jobs := await self.services.engine.find(queue=self.state.id, states=["queued", "waiting"]):
            for job in jobs:
                await self.services.engine.cancel(job.id, reason)

    # -- runs -------------------------------------------------------------------------------------

    async def run_turn(self, lease: Lease, params: TurnParams) -> JobOutcome:
        """Run a job of the kind ``turn``."""
        if params.session != self.state.session:
            return JobOutcome(state="done", reason=CLEARED)
        self._start_run(lease.job)
        if params.message is not None:
            self.queue.forwarded.pop(params.message.id, None)
        self.services.notify("queue", self.state.id)
        chat, queue = self.chat, self.queue
        try:
            outcome = await run_turn(
                lease,
                params,
                chat,
                self.services.engine,
                self.services.hub,
                unsaved=await self._find_unsaved(),
                on_start=partial(self._forward_queue, lease.job, releases=params.message is None),
            )
            await self._forget_title(params.message)
            return outcome
        finally:
            if chat is self.chat:
                with anyio.CancelScope(shield=True):
                    if not await queue.finish_run():
                        self._update(status="idle", queued=0)
                self.services.notify("queue", self.state.id)

    async def _forget_title(self, prompt: UserMessage | None) -> None:
        """Drop the title that a prompt gave if a hook has blocked it: its words are nowhere else."""
        if prompt is None or self.state.title != _title_of(prompt):
            return
        if any(each.id == prompt.id and is_blocked(each) for each in await self.messages()):
            await self._save(title=NEW_CHAT)

    async def _forward_queue(self, run: str, *, releases: bool) -> None:
        """Give a run that starts the messages that an earlier process left pending, and if it ``releases`` them, the held
        ones. A run that the user stopped before that process died takes none.
        """
        if self._stopped_run == run:
            self.chat.stop_requested = True
            return
        async with self.queue.lock:
            if releases:
                await self.queue.release()
            await self.queue.forward()
        self._on_queue_change()

    async def run_contract(self, lease: Lease, params: ContractParams) -> JobOutcome:
        """Run a job of the kind ``contract``."""
        self._start_run(lease.job)
        self.chat.stop_requested = self._stopped_run == lease.job
        try:
            state = await run_contract_job(lease, params, self.chat, self.services.engine, self.services.hub)
        finally:
            self.chat.discard_agent()
        self._update(status=state.state, reason=state.reason)
        return contract_job.outcome(state)

    def fail_run(self, run: str, reason: str) -> None:
        """Show that a run ended before its handler could report how, if it was called at all."""
        if self.state.run == run:
            is_agent = self.state.kind == "agent"
            self._update(status="failed" if is_agent else "idle", reason=reason if is_agent else "", queued=0)

    # -- reading ----------------------------------------------------------------------------------

    async def messages(self) -> History:
        """The conversation, with the messages that were accepted but not saved because their run failed."""
        return (await self.conversation()).messages

    async def conversation(self, more: Sequence[AppMessage] = ()) -> BranchedHistory:
        """The conversation with its branches, and with the messages ``more`` at its end that its session lacks."""
        return await self.chat.conversation([*await self._find_unsaved(), *more])

    async def _find_unsaved(self) -> list[AppMessage]:
        return await find_unsaved(self.services.engine, self.state.id, self.state.session)

    async def history(self, before: str, limit: int) -> tuple[list[AppMessage], bool]:
        """Up to ``limit`` messages before message ``before``, and whether there are earlier ones."""
        messages = await self.messages()
        ids = [entry.id for entry in messages.entries]
        end = ids.index(before) if before in ids else len(ids)
        start = max(0, end - limit)
        return list(messages[start:end]), start > 0

    async def totals(self) -> TabTotals:
        return self.totals_of(await self.chat.messages())

    def totals_of(self, messages: History) -> TabTotals:
        used, judged, agent = messages.totals, self.chat.judge_totals, self.chat.agent
        usage = used.usage + judged.usage
        return TabTotals(
            input=usage.input,
            output=usage.output,
            cached=usage.cache_read,
            context=used.context,
            window=agent.window() if agent else None,
            cost=add_costs(used.cost, judged.cost),
        )

    async def wait_for_change(self) -> None:
        """Wait until the latest run or the epoch is another one, or the tab was closed."""
        await self._changed.wait()
