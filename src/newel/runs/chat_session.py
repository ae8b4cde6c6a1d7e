"""``ChatSession``: the agent of one tab's conversation, the run that it works on, and that run's questions to the user."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError, SessionError
from newel.agent.events import AgentEvent, AgentStart, MessageEnd, ToolExecutionStart
from newel.agent.messages import AppMessage, AssistantMessage, UserMessage, add_costs, new_id
from newel.agent.ports import AgentMode, Emit, Model, Provider, ThinkingLevel
from newel.context.prompt_templates import Template
from newel.hooks.hooked_run import BLOCKED_PROMPT
from newel.permissions.approval import Approval, ApprovalMode, ApprovalRequest
from newel.runs.event_hub import JournalWriter
from newel.runs.models import Contract, ModelStatus, TabQuestion
from newel.runs.run_events import Evaluation, Notice, RunEvent
from newel.session.coding_agent import CodingAgent
from newel.session.history import History
from newel.session.listing import SessionEntry
from newel.session.manager import SessionManager
from newel.session.message_tree import BranchPoint
from newel.session.reader import read_session
from newel.session.totals import NOTHING_USED, SessionTotals
from newel.workspace.git_worktree import Worktree

if TYPE_CHECKING:
    from newel.providers.listed_models import ModelDetails

ChatChange = Literal["questions", "message", "branch"]
"""A question was asked or answered, a message or verdict was recorded, or the history became another one."""

AskUser = Callable[[TabQuestion], Awaitable[dict[str, Any]]]
"""Shows a question and waits for its answer, whose shape ``TabQuestion`` describes."""


class NoSuchQuestion(NewelError):
    """The question was already answered, or its run has ended."""


class _AskedQuestion:
    def __init__(self, question: TabQuestion) -> None:
        self.question = question
        self.answered = anyio.Event()
        self.answer: dict[str, Any] = {}


class PendingQuestions:
    """The unanswered questions of one conversation. ``on_change`` is called when one is asked or goes away."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._pending: dict[str, _AskedQuestion] = {}

    @property
    def pending(self) -> list[TabQuestion]:
        return [prompt.question for prompt in self._pending.values()]

    async def ask(self, question: TabQuestion) -> dict[str, Any]:
        """Show a question and wait for the answer; cancelled, it withdraws the question."""
        asked = _AskedQuestion(msgspec.structs.replace(question, id=new_id()))
        self._pending[asked.question.id] = asked
        self._on_change()
        try:
            await asked.answered.wait()
        finally:
            self._remove(asked)
        return asked.answer

    def withdraw(self) -> None:
        """Take back all questions: from now on nobody can answer them."""
        for asked in [*self._pending.values()]:
            if not asked.answered.is_set():
                asked.answer = nobody_answers(asked.question)
                asked.answered.set()
            self._remove(asked)

    def _remove(self, asked: _AskedQuestion) -> None:
        if self._pending.pop(asked.question.id, None) is not None:
            self._on_change()

    def answer(self, question_id: str, answer: dict[str, Any]) -> None:
        """Raises ``NoSuchQuestion``; the first answer counts."""
        asked = self._pending.get(question_id)
        if asked is None or asked.answered.is_set():
            raise NoSuchQuestion("This question was already answered, or its run has ended.")
        asked.answer = answer
        asked.answered.set()


def nobody_answers(question: TabQuestion) -> dict[str, Any]:
    """The answer to a question that nobody can answer."""
    return {"action": "decline"} if question.kind in {"form", "link"} else {"decision": "nobody"}


def approval_handler(ask: AskUser) -> Callable[[ApprovalRequest], Awaitable[Approval]]:
    """Asks the user to approve a call, or a server. Anything but a clear yes is a no."""

    async def approve(request: ApprovalRequest) -> Approval:
        answer = await ask(
            TabQuestion(
                id="",
                kind="server" if request.kind == "server" else "approval",
                title=request.server or request.label,
                preview=request.preview,
                folder=request.folder,
                subagent=request.subagent,
                rule=request.offer,
            )
        )
        try:
            return msgspec.convert(answer, Approval)
        except msgspec.ValidationError:
            return Approval("no")

    return approve


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments to create an agent; without a model or mode it has the configured one. ``record`` is awaited with each of its events,
    ``ask`` asks the user.
    """

    session: str
    folder: str
    model: str | None
    agent_mode: AgentMode | None = None
    record: Emit
    ask: AskUser


class AgentFactory(Protocol):
    """Creates the agents of a workbench, all on one model server. Methods that are not async return at once."""

    @property
    def provider(self) -> Provider: ...

    @property
    def model(self) -> ModelStatus:
        """The model of tabs that have not chosen one. ``problem`` is empty if it is available, as far as is known."""
        ...

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        """Use the model server at an address from now on. Returns the names of its models if one of them has to be chosen
        first: then nothing has changed. Raises ``ConfigError`` and ``ProviderError``.
        """
        ...

    @property
    def approve(self) -> ApprovalMode:
        """The mode of tabs that have not chosen one."""
        ...

    @property
    def sandbox_problem(self) -> str:
        """Why commands run in no sandbox although nobody has chosen that; else empty."""
        ...

    @property
    def secrets(self) -> Sequence[str]:
        """Strings that must not appear in any log."""
        ...

    async def create(self, spec: AgentSpec) -> CodingAgent:
        """An agent with its session open. Raises ``NewelError``, and then the session's file is free."""
        ...

    async def release(self, session: str) -> None:
        """End what the commands of a session have left running: its conversation is over."""
        ...

    def refresh_tools(self, agent: CodingAgent, spec: AgentSpec) -> None:
        """Give an agent the tools that exist by now; called before each run."""
        ...

    def apply_limits(self, contract: Contract) -> Contract:
        """A contract with the user's configured limits and mode where it sets none."""
        ...

    async def create_worktree(self, agent: str) -> Worktree:
        """A git worktree of the project for an agent of that name. Raises ``WorktreeError``, and ``WorkspaceError`` if the
        project's host cannot be reached in time for a user who waits.
        """
        ...

    def judge_model(self, agent: CodingAgent, *, small: bool) -> Model:
        """The model that judges whether a contract is fulfilled."""
        ...

    async def find_model(self, mode: AgentMode) -> Model:
        """The model of a mode. Raises ``ConfigError`` and ``ProviderError`` if it is not available."""
        ...

    async def list_models(self, mode: AgentMode | None = None) -> list[str]:
        """The names of the models of a mode's server, by default the configured mode's. Raises ``ProviderError``, and ``HostUnreachable``
        if it runs on a host that does not answer.
        """
        ...

    async def list_details(self, mode: AgentMode | None = None) -> list[ModelDetails]:
        """The same models with sizes, prices and abilities, which may take the server longer. Raises as ``list_models``."""
        ...

    async def list_templates(self) -> dict[str, Template]:
        """The prompt templates and skills of the user and of the workbench's folder, by the names that call them. Raises
        ``HostUnavailable``.
        """
        ...

    async def complete_path(self, part: str) -> list[str]:
        """The entries of a folder that the path of a mention may become. Raises ``HostUnavailable``."""
        ...

    def list_sessions(self, query: str = "") -> list[SessionEntry]:
        """The latest sessions of the workbench's folder, or of those that match a query; see ``newel.session.listing``."""
        ...

    def session_file(self, session: str, folder: str) -> Path | None:
        """The file of a session; None until it has one."""
        ...


class BranchedHistory(NamedTuple):
    """The active branch, and where the conversation has others."""

    messages: History
    branches: Sequence[BranchPoint]


class ChatSession:
    """One conversation. Its agent is created by the first run and kept; its session's file is free between runs."""

    def __init__(
        self,
        *,
        session: str,
        folder: str,
        model: str | None,
        agent_mode: AgentMode | None,
        approve: ApprovalMode | None = None,
        thinking: ThinkingLevel | None = None,
        factory: AgentFactory,
        on_change: Callable[[ChatChange], None],
    ) -> None:
        self.session, self.folder, self.model = session, folder, model
        self.agent_mode: AgentMode | None = agent_mode
        self.approve: ApprovalMode | None = approve
        self.lost_approve: ApprovalMode | None = None
        """The mode that was picked and is not possible any more; the next run says so."""
        self.thinking: ThinkingLevel | None = thinking
        self.factory = factory
        self.questions = PendingQuestions(lambda: on_change("questions"))
        self.journal: JournalWriter | None = None
        """That of the run in progress."""
        self.agent: CodingAgent | None = None
        self.delivered: set[str] = set()
        """Ids of the messages in the conversation, as of the latest run."""
        self.stop_requested = False
        """Whether the run in progress, or the one about to start, is to end."""
        self._is_over = False
        self._is_outdated = False
        """Whether the next run is to create its agent anew."""
        self.judge_totals = NOTHING_USED
        self._reading = anyio.Lock()
        self._on_change = on_change

    @property
    def active_agent(self) -> CodingAgent | None:
        """The agent while a run is in progress."""
        return self.agent if self.journal is not None else None

    @asynccontextmanager
    async def run(
        self,
        journal: JournalWriter,
        earlier: Sequence[RunEvent] = (),
        unsaved: Sequence[AppMessage] = (),
    ) -> AsyncGenerator[CodingAgent]:
        """The agent for a run whose events go to ``journal``. ``earlier`` are the events of an interrupted run, ``unsaved``
        messages of failed runs: those that the session lacks are added to it.
        """
        spec = AgentSpec(
            session=self.session,
            folder=self.folder,
            model=self.model,
            agent_mode=self.agent_mode,
            record=self._record_agent_event,
            ask=self._ask,
        )
        try:
            if self._is_outdated:
                self._is_outdated = False
                self.discard_agent()
            agent = self.agent or await self.factory.create(spec)
            if self.agent_mode:
                await agent.set_agent_mode(self.agent_mode)
            if self.approve:
                agent.set_approve(self.approve)
            if self.lost_approve:
                said = f"The approval mode of this chat was {self.lost_approve}. It is {agent.approve} now, as Newel was started with it."
                self.lost_approve = None
                await journal(Notice(level="warning", message=said))
            if self.thinking and agent.state.thinking_level != self.thinking:
                agent.set_thinking_level(self.thinking)
            if self.model and agent.state.model.id != self.model:
                agent.set_model(self.model)
            try:
                recorded = [event.message for event in earlier if isinstance(event, MessageEnd)]
                agent.reopen([*unsaved, *recorded], never_begun=_never_started(earlier))
                self.factory.refresh_tools(agent, spec)
                self.agent, self.journal = agent, journal
                self.delivered = {entry.id for entry in agent.session.get_tree()}
                yield agent
            finally:
                agent.clear_queue()
                agent.release()
        finally:
            self.journal, self.stop_requested = None, False
            self.questions.withdraw()  # what is left in the background has no run to ask in
            if self._is_over:
                await self._release()

    async def _ask(self, question: TabQuestion) -> dict[str, Any]:
        """Ask the user during a run: later, nobody waits for questions."""
        return nobody_answers(question) if self.journal is None else await self.questions.ask(question)

    async def end(self) -> None:
        """End the run and the conversation, with all that its commands have left running."""
        self._is_over = True
        self.stop(now=True)
        if self.active_agent is None:
            await self._release()

    async def _release(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.factory.release(self.session)

    def stop(self, *, now: bool) -> None:
        """End the run before its next request, or at once; one that has no agent yet does not start."""
        self.stop_requested = True
        if agent := self.active_agent:
            (agent.abort if now else agent.stop)()

    async def record(self, event: RunEvent) -> None:
        """Record an event of the run in progress that is not its agent's."""
        if self.journal is not None:
            await self.journal(event)
            self.count_verdict(event)

    def count_verdict(self, event: RunEvent) -> None:
        """Add the usage of a contract's judge, which is in no message."""
        if isinstance(event, Evaluation):
            before = self.judge_totals
            self.judge_totals = SessionTotals(
                before.usage + event.usage, add_costs(before.cost, event.cost), 0
            )
            self._on_change("message")

    def discard_agent(self) -> None:
        """Let the next run create the agent, from the session's file if there is one."""
        if self.factory.session_file(self.session, self.folder) is not None:
            self.agent = None

    def renew_agent(self) -> None:
        """Let the next run create the agent, as ``discard_agent`` does, but also during a run or while its agent is created."""
        self._is_outdated = True

    def branch(self, message_id: str | None) -> None:
        """Go back to just after a message, with the agent of the run in progress."""
        if self.agent is not None:
            self.agent.branch(message_id)
            self._on_change("branch")

    async def _record_agent_event(self, event: AgentEvent) -> None:
        if self.journal is None:
            return  # between runs only setters emit events, and those are not journalled
        await self.journal(event)
        if isinstance(event, AgentStart) and self.stop_requested:
            self.stop(now=False)  # it came while the run began, and a run forgets what came before it
        if isinstance(event, MessageEnd):
            if isinstance(event.message, UserMessage):
                self.delivered.add(event.message.id)
            self._on_change("message")

    async def switch_branch(self, message_id: str, *, before: bool) -> None:
        """Continue at the end of the branch with a message, or before it. Only between runs. Raises ``SessionError``, and then changes
        nothing.
        """
        path = self.factory.session_file(self.session, self.folder)

        def switch(path: Path) -> None:
            with SessionManager(directory=path.parent, cwd=self.folder, session=str(path)) as session:
                session.switch_branch(message_id, before=before)

        if path is not None:
            async with self._reading:
                await anyio.to_thread.run_sync(switch, path)
        elif self.agent is not None:
            self.agent.session.switch_branch(message_id, before=before)
            self.agent.reopen()
        else:
            raise SessionError("This conversation has no messages yet.")

    async def messages(self, unsaved: Sequence[AppMessage] = ()) -> History:
        """The active branch so far, then those of the ``unsaved`` messages that the session lacks."""
        return (await self.conversation(unsaved)).messages

    async def conversation(self, unsaved: Sequence[AppMessage] = ()) -> BranchedHistory:
        """The same, with its branches."""
        if (agent := self.active_agent) is not None:
            return BranchedHistory(agent.history(), agent.session.get_branch_points())
        path = self.factory.session_file(self.session, self.folder)
        if path is not None:
            async with self._reading:  # many windows at once must not each hold a long conversation in memory
                stored = await anyio.to_thread.run_sync(read_session, path)
            history, known = stored.history.history(), stored.history
            branches = stored.history.branch_points()
        else:
            history = self.agent.history() if self.agent is not None else History()
            known = {entry.id for entry in self.agent.session.get_tree()} if self.agent is not None else ()
            branches = self.agent.session.get_branch_points() if self.agent is not None else []
        more = {message.id: message for message in unsaved if message.id not in known}
        return BranchedHistory(history.followed_by([*more.values()]), branches)

    async def subagent_messages(self, session: str) -> list[AppMessage]:
        """The conversation of a subagent of this one. Raises ``SessionError`` if it has none with this session."""
        path = self.factory.session_file(session, self.folder)
        if path is not None:
            async with self._reading:
                stored = await anyio.to_thread.run_sync(read_session, path)
            if stored.metadata.parent == self.session:
                return stored.history.active()
        raise SessionError("The session of this subagent no longer exists.")


def _never_started(earlier: Sequence[RunEvent]) -> set[str]:
    """The calls that an interrupted run did not start: they waited for approval, say."""
    requested: set[str] = set()
    for event in earlier:
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                requested |= {call.id for call in message.tool_calls}
            case ToolExecutionStart(tool_call_id=call):
                requested.discard(call)
            case _:
                pass
    return requested


def is_settled(messages: Sequence[AppMessage]) -> bool:
    """Whether the model has nothing left to answer: the last message is its own, complete and without tool calls, or a prompt
    that a hook has blocked.
    """
    match messages[-1] if messages else None:
        case AssistantMessage() as answer:
            return answer.stop_reason in {"stop", "length"} and not answer.tool_calls
        case UserMessage() as prompt:
            return is_blocked(prompt)
        case last:
            return last is None


def is_blocked(message: AppMessage) -> bool:
    """Whether this stands for a prompt that a hook has blocked."""
    return isinstance(message, UserMessage) and message.content == BLOCKED_PROMPT
