"""One tab's conversation at work: its agent, and what goes between it and the run that is under way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

import anyio
import msgspec

from newel.agent.events import AgentEvent, MessageEnd, ToolExecutionStart
from newel.agent.messages import AppMessage, AssistantMessage, Usage, UserMessage
from newel.agent.ports import Emit, Model, Provider
from newel.runs.event_hub import JournalWriter
from newel.runs.models import Contract
from newel.runs.pending_questions import PendingQuestions, PutQuestion
from newel.runs.run_events import Evaluation, RunEvent
from newel.session.coding_agent import CodingAgent, SessionTotals
from newel.session.listing import SessionSummary
from newel.session.reader import read_session
from newel.workspace.git_worktree import Worktree

Heard = Literal["questions", "said", "branched"]
"""What a conversation tells its board: a question came or went, a message was said, the history is another one."""


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is made for. ``journal`` is awaited with each of its events, ``put`` asks a person."""

    session: str
    folder: str
    model: str | None
    journal: Emit
    put: PutQuestion


class AgentFactory(Protocol):
    """Makes the agents of a workbench, all on one model server. What is not awaited is quick."""

    @property
    def provider(self) -> Provider: ...

    @property
    def model(self) -> str:
        """The name of the model that answers where a tab has chosen none."""
        ...

    @property
    def where(self) -> str:
        """Where the models are, in words, if they are those of a host; else empty."""
        ...

    @property
    def problem(self) -> str:
        """Why there is no model to ask; empty where there is one, as far as is known."""
        ...

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        """Ask the model server at an address from now on. Returns the names of its models where one of them has to be chosen
        first: then nothing has changed. Raises ``ConfigError`` and ``ProviderError``.
        """
        ...

    @property
    def secrets(self) -> Sequence[str]:
        """What must not appear in any log."""
        ...

    async def make(self, seat: AgentSpec) -> CodingAgent:
        """An agent with its session open. Raises ``NewelError``, and then the session's file is free."""
        ...

    def prepare(self, agent: CodingAgent, seat: AgentSpec) -> None:
        """Give it the tools that there are by now; called before each run."""
        ...

    def capped(self, contract: Contract) -> Contract:
        """A contract with the user's own caps where it sets none."""
        ...

    async def worktree(self, agent: str) -> Worktree:
        """A git worktree of the project for an agent of that name. Raises ``WorktreeError``, and ``WorkspaceError`` where the
        project's host cannot be reached: a person waits for it.
        """
        ...

    def judge(self, agent: CodingAgent, *, small: bool) -> Model:
        """The model that judges whether a contract is fulfilled."""
        ...

    async def models(self) -> list[str]:
        """The names of the models that the server has. Raises ``ProviderError``, and ``HostUnreachable`` where they are those
        of a host that does not answer.
        """
        ...

    def sessions(self) -> list[SessionSummary]:
        """The sessions of the workbench's folder, the latest first."""
        ...

    def session_file(self, session: str, folder: str) -> Path | None:
        """The file of a session; None as long as there is none."""
        ...


class ChatSession:
    """The agent of a tab is made with its first run and kept; its session's file is free between runs."""

    def __init__(
        self,
        *,
        session: str,
        folder: str,
        model: str | None,
        crew: AgentFactory,
        changed: Callable[[Heard], None],
    ) -> None:
        self.session, self.folder, self.model = session, folder, model
        self.questions = PendingQuestions(lambda: changed("questions"))
        self.recorder: JournalWriter | None = None
        self.agent: CodingAgent | None = None
        self.handing_over = anyio.Lock()
        """Held by who gives messages to the run under way: they are said in the order in which they were taken."""
        self.taken: set[str] = set()
        """Ids of the messages that were said, by the run under way or before it."""
        self._reading = anyio.Lock()
        self.stop_asked = False
        """Whether the run under way, or the one that is just about to be, is to end."""
        self.judged = SessionTotals(Usage(), None, 0)
        self.crew = crew
        self._changed = changed

    @property
    def working(self) -> CodingAgent | None:
        """The agent while a run is under way."""
        return self.agent if self.recorder is not None else None

    @asynccontextmanager
    async def run(
        self,
        recorder: JournalWriter,
        earlier: Sequence[RunEvent] = (),
        unsaid: Sequence[AppMessage] = (),
    ) -> AsyncGenerator[CodingAgent]:
        """The agent for a run whose events go to ``recorder``. ``earlier`` is what the journal of an interrupted run
        says, ``unsaid`` are messages of runs before: the session gets what it lacks of them.
        """
        seat = AgentSpec(
            session=self.session,
            folder=self.folder,
            model=self.model,
            journal=self.journal,
            put=self.questions.put,
        )
        try:
            agent = self.agent or await self.crew.make(seat)
            if self.model and agent.state.model.id != self.model:
                agent.set_model(self.model)
            try:
                said = [event.message for event in earlier if isinstance(event, MessageEnd)]
                agent.reopen([*unsaid, *said], never_begun=_never_begun(earlier))
                self.crew.prepare(agent, seat)
                self.agent, self.recorder = agent, recorder
                self.taken = {entry.message.id for entry in agent.session.get_tree()}
                yield agent
            finally:
                agent.clear_queue()
                agent.release()
        finally:
            self.recorder, self.stop_asked = None, False

    def stop(self, *, now: bool) -> None:
        """End the run before its next request, or at once; one that has its agent not yet does not begin."""
        self.stop_asked = True
        if self.working is not None:
            (self.working.abort if now else self.working.stop)()

    async def record(self, event: RunEvent) -> None:
        """Record what belongs to the run under way and is no event of its agent."""
        if self.recorder is not None:
            await self.recorder(event)
            self.count(event)

    def count(self, event: RunEvent) -> None:
        """What the judges of a contract have used stands in no message."""
        if isinstance(event, Evaluation):
            cost = self.judged.cost if event.cost is None else (self.judged.cost or 0.0) + event.cost
            self.judged = SessionTotals(self.judged.usage + event.usage, cost, 0)
            self._changed("said")

    def forget(self) -> None:
        """Let the agent go, whose session's file has all that was said."""
        if self.crew.session_file(self.session, self.folder) is not None:
            self.agent = None

    def branch(self, message_id: str | None) -> None:
        """Go back to just after a message, with the agent of the run under way."""
        if self.agent is not None:
            self.agent.branch(message_id)
            self._changed("branched")

    async def journal(self, event: AgentEvent) -> None:
        """Record an event of the run that is under way."""
        if self.recorder is None:
            return  # a setter between runs changes nothing that a journal tells
        await self.recorder(event)
        if isinstance(event, MessageEnd):
            if isinstance(event.message, UserMessage):
                self.taken.add(event.message.id)
            self._changed("said")

    async def messages(self, unsaid: Sequence[AppMessage] = ()) -> list[AppMessage]:
        """What was said so far, on the active branch, and then those of the ``unsaid`` that the session does not know."""
        path = self.crew.session_file(self.session, self.folder)
        if self.working is not None:
            return self.working.get_messages()
        if path is not None:
            async with self._reading:  # many windows at once must not each hold a long conversation in memory
                stored = await anyio.to_thread.run_sync(read_session, path)
            said, known = stored.history.active(), stored.history.get
        else:
            said = self.agent.get_messages() if self.agent is not None else []
            known = {message.id: message for message in said}.get
        return [*said, *(message for message in unsaid if known(message.id) is None)]


def _never_begun(earlier: Sequence[RunEvent]) -> set[str]:
    """The calls that an interrupted run was asked for and did not begin: they waited for a person, say."""
    asked: set[str] = set()
    for event in earlier:
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                asked |= {call.id for call in message.tool_calls}
            case ToolExecutionStart(tool_call_id=call):
                asked.discard(call)
            case _:
                pass
    return asked


def is_settled(messages: Sequence[AppMessage]) -> bool:
    """Whether the model has nothing left to answer: it spoke last, to the end, and called nothing."""
    last = messages[-1] if messages else None
    return last is None or (
        isinstance(last, AssistantMessage) and last.stop_reason in {"stop", "length"} and not last.tool_calls
    )
