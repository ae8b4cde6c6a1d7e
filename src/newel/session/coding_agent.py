"""``CodingAgent``: an agent with tools, a working folder and a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol

import anyio
import msgspec

from newel.agent.agent import Agent, AgentTransport
from newel.agent.errors import NewelError, SessionError
from newel.agent.events import AgentEnd, AgentEvent, MessageEnd, ToolExecutionStart
from newel.agent.messages import AppMessage, AssistantMessage, Attachment, UserMessage
from newel.agent.ports import AgentMode, Emit, Model, Policy, RunConfig
from newel.context.attachments import AttachableFiles, check_message, check_prompt
from newel.session.file_format import QueuedLine
from newel.session.history import History
from newel.session.manager import SessionManager
from newel.session.totals import SessionTotals, totals

if TYPE_CHECKING:
    from newel.context.compaction import Compactor
    from newel.context.prompt_templates import Template
    from newel.context.skill_book import SkillBook
    from newel.hooks.hook_listing import HookRow
    from newel.permissions.approval import ApprovalMode
    from newel.permissions.rule_book import RuleBook
    from newel.providers.listed_models import ModelDetails
    from newel.workspace.background import BackgroundCommands
    from newel.workspace.port import Workspace
    from newel.workspace.sandbox.policy import SandboxMode


END_S: Final = 30.0
"""For a run to end once it is aborted; a host that cannot be reached may hold it up."""


class ModelAccess(Protocol):
    """The model of a mode, and its server's models. ``small`` writes the summaries, ``where`` is the model's location, where its name does
    not say it.
    """

    @property
    def model(self) -> Model: ...

    @property
    def small(self) -> Model: ...

    @property
    def where(self) -> str: ...

    def describe(self, name: str, /) -> Model:
        """One of the server's models, listed or not."""
        ...

    async def list_models(self) -> list[str]:
        """The names of the server's models. Raises ``ProviderError``."""
        ...

    async def list_details(self) -> list[ModelDetails]:
        """The server's models with sizes, prices and abilities. Raises ``ProviderError``."""
        ...

    async def find_window(self, name: str, /) -> int | None: ...

    async def check_cost(self, model: Model, /) -> None: ...


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What screens show of an agent: its ``sandbox``, why there is none or a partial one although nobody has chosen that
    (``sandbox_problem``), the AGENTS.md files in force (``instructions``), and what the user should know at the start, such as a skill
    that is left out (``start_notices``).
    """

    sandbox: SandboxMode = "off"
    sandbox_problem: str = ""
    instructions: str = ""
    start_notices: Sequence[str] = ()


class CannotChangeMode(NewelError):
    """The agent has no other mode, or cannot leave its own while the session is open."""


class CodingAgent(Agent):
    """An ``Agent`` whose conversation is kept in a session; it can move between sessions. What a compaction has summarized when a session
    is opened is ``earlier`` and stays in its file; ``state.messages`` are those after it.

    ``workspace`` is the user's; the tools work in ``works_in``, which differs where changes are decided afterwards.
    ``attachable`` bounds which files a prompt may attach, ``attachable_by_prompts`` which the text of a prompt template may.
    ``open_session`` opens a session by its id, or a new one for None. ``models`` are those of the server in use, ``find_model`` finds the
    model of a mode, ``find_policy`` the policy of the approval mode ``approve``. ``rules`` are the permission rules and ``background`` the
    commands in the background, if there can be any. ``hooks`` returns the hooks that there are, with the results of their last runs, and
    ``secrets`` the values that an export must mask. ``journal`` is awaited with each event before the session gets it.
    """

    earlier: History
    run_id: str = ""
    """The run of all answers, for a contract that is resumed. If empty, each answer is a run of its own."""

    def __init__(
        self,
        *,
        transport: AgentTransport,
        config: RunConfig,
        workspace: Workspace,
        session: SessionManager,
        open_session: Callable[[str | None], SessionManager],
        models: ModelAccess,
        templates: dict[str, Template],
        find_model: Callable[[AgentMode], Awaitable[ModelAccess]] | None = None,
        find_policy: Callable[[ApprovalMode], Policy] | None = None,
        compactor: Compactor | None = None,
        journal: Emit | None = None,
        approve: ApprovalMode = "auto",
        info: AgentInfo | None = None,
        works_in: Workspace | None = None,
        attachable: AttachableFiles | None = None,
        attachable_by_prompts: AttachableFiles | None = None,
        skills: SkillBook | None = None,
        rules: RuleBook | None = None,
        background: BackgroundCommands | None = None,
        hooks: Callable[[], Sequence[HookRow]] = tuple,
        secrets: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.workspace = workspace
        self.attachable: AttachableFiles = attachable or AttachableFiles(workspace)
        self.attachable_by_prompts: AttachableFiles = attachable_by_prompts or self.attachable
        self.works_in: Workspace = works_in or workspace
        self.session: SessionManager = session
        self.models: ModelAccess = models
        self._find_model = find_model
        self._find_policy = find_policy
        self.templates = templates
        self.compactor = compactor
        self.approve: ApprovalMode = approve
        self.info: AgentInfo = info or AgentInfo()
        self.skills = skills
        self.rules = rules
        self.background = background
        self.hooks = hooks
        self.secrets = secrets
        self.tool_servers: Callable[[], Sequence[tuple[str, str]]] = tuple
        """Returns the name and the state of each MCP server."""
        self.before_prompt: list[Callable[[], Awaitable[UserMessage | None]]] = []
        """Each returns a message to insert before the next prompt, or None: what has happened since the last one."""
        self.before_closing: list[Callable[[], Awaitable[None]]] = []
        """Each is awaited when the agent is closed. Must not raise."""
        self._open_session = open_session
        self._queued_here: set[str] = set()
        self._typed: dict[str, tuple[str, str]] = {}
        self._not_started: list[str] = []
        """The calls of the last answer that have not started."""
        self._run_ended: anyio.Event | None = None
        self._journal = journal
        self.earlier, messages = session.get_parts()
        super().__init__(transport, config, messages=messages, record=self._save_event)
        if compactor is not None:
            compactor.earlier = self._outline_earlier

    # -- the conversation -------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The agent itself: recording works with any agent that has a session."""
        return self

    def get_messages(self) -> list[AppMessage]:
        """The conversation so far, as a new list."""
        return [*self.earlier, *self.state.messages]

    @property
    def message_count(self) -> int:
        """The messages of the conversation so far."""
        return len(self.earlier) + len(self.state.messages)

    def history(self) -> History:
        """The conversation so far, whose messages are read when they are asked for."""
        return self.earlier.followed_by(self.state.messages)

    def replace_messages(self, messages: Sequence[AppMessage], *, never_begun: Collection[str] = ()) -> None:
        self._replace(History(), messages, never_begun)

    def _replace(
        self, earlier: History, messages: Sequence[AppMessage], never_begun: Collection[str] = ()
    ) -> None:
        self._require_idle()
        self.earlier = earlier
        super().replace_messages(messages, never_begun=never_begun)

    async def _before_run(self, prompts: Sequence[AppMessage]) -> None:
        for notice in self.before_prompt if prompts else ():
            if message := await notice():
                await self.append_message(message)

    async def prompt(self, text: str, attachments: Sequence[Attachment] = ()) -> AgentEnd:
        """``Agent.prompt``. Raises ``UsageError`` for a prompt that would spoil the session."""
        check_prompt(text, attachments)
        return await super().prompt(text, attachments)

    async def queue_message(self, message: AppMessage, mode: Literal["steer", "follow_up"] = "steer") -> None:
        """``Agent.queue_message``. Raises ``UsageError`` for a text: the run that takes it would fail."""
        check_message(message)
        await super().queue_message(message, mode)

    async def answer(
        self, prompts: Sequence[AppMessage], *, transport: AgentTransport | None = None
    ) -> AgentEnd:
        self._require_idle()
        ended = self._run_ended = anyio.Event()
        try:
            return await super().answer(prompts, transport=transport)
        finally:
            ended.set()

    async def end_run(self) -> None:
        """Abort the run of another task, if there is one, and wait for its end, also if this task is cancelled with it: the results of its
        calls go to the session first.
        """
        self.abort()
        if self._run_ended is not None:
            with anyio.move_on_after(END_S, shield=True):
                await self._run_ended.wait()

    async def close(self) -> None:
        """The conversation is over: its session is closed."""
        try:
            for end in self.before_closing:
                await end()
        finally:
            self.session.close()

    def set_model(self, model: Model | str) -> None:
        """Use another model of the same server from the next request on; a name is enough."""
        before = self.state.model
        if isinstance(model, str):
            model = self.models.describe(model)
        super().set_model(model)
        if self.compactor is not None:
            self.compactor.follow(model, before=before)

    async def set_agent_mode(self, mode: AgentMode) -> None:
        """Work in another mode from the next request on. The modes with the remote model share it; any other change takes the
        configured model. Raises ``NewelError`` if the model is not available, and then changes nothing.
        """
        before = self.state.agent_mode
        if mode == before:
            return
        if self._find_model is None:
            raise CannotChangeMode("This agent has only one model.")
        found = await self._find_model(mode)
        keeps_model = "local" not in {mode, before}
        model = self.state.model if keeps_model else found.model
        self.models = found
        if self.compactor is not None:
            self.compactor.agent_mode = mode
            if not keeps_model:
                self.compactor.change_writer(found.small, found.find_window)
                self.compactor.follow(model)
        self._change("agentMode", agent_mode=mode, model=model, check_cost=found.check_cost)

    def set_approve(self, mode: ApprovalMode) -> None:
        """Approve calls by another mode from the next one on. Raises ``CannotChangeMode`` from and to ``review``, whose tools work in
        another folder: open the session again for that. It also raises it for a mode that runs commands unasked where a sandbox is missing.
        """
        if mode == self.approve:
            return
        check_approval_change(self.approve, mode, sandbox_problem=self.info.sandbox_problem)
        if self._find_policy is None:
            raise CannotChangeMode("This agent has only one approval mode.")
        self._change("approve", policy=self._find_policy(mode))
        self.approve = mode

    def window(self) -> int | None:
        """The size of the model's context in tokens, None if unknown."""
        return self.compactor.context_window if self.compactor else self.state.model.context_window

    def totals(self) -> SessionTotals:
        """The usage of the conversation so far."""
        return totals(self.state.messages, self.earlier.totals)

    def _outline_earlier(self) -> list[AppMessage]:
        try:
            return self.earlier.outlines()
        except SessionError:  # a summary of what is in memory is better than an end of the run
            return []

    async def compact(self, instructions: str = "") -> bool:
        """Summarize the conversation now; False if there is nothing to summarize."""
        if self.compactor is None:
            return False
        message = await self.compactor.compact_now(self.state.messages, instructions)
        if message is not None:
            await self.append_message(message)
        return message is not None

    # -- sessions ---------------------------------------------------------------------------------

    def new_session(self) -> None:
        """Start a new session. The current one stays in its file."""
        self._switch_session(self._open_session(None))

    def resume(self, session_id: str) -> None:
        """Resume another session. Raises ``SessionError``, and then changes nothing."""
        if self.session.get_id().startswith(session_id):
            return
        self._switch_session(self._open_session(session_id))

    def reopen(self, journaled: Sequence[AppMessage] = (), *, never_begun: Collection[str] = ()) -> None:
        """Reload the session from its file, to which others may have written, and add the messages of a journal that it lacks.
        ``never_begun`` are the calls that did not start, according to the journal.
        """
        if self.session.get_file_path() is not None:
            self.session.close()
            self.session = self._open_session(self.session.get_id())
        for message in journaled:
            self._append(message)
        self._replace(*self.session.get_parts(), never_begun)

    def release(self) -> None:
        """Unlock the session for other programs, until ``reopen``."""
        if self.session.get_file_path() is not None:
            self.session.close()

    def branch(self, message_id: str | None) -> None:
        """Continue after an earlier message, or from the start for None. Later messages stay in the file. The branch is
        written at once; one from the start only with the next message, since a session without messages would not be listed.
        """
        self._require_idle()
        self.session.branch(message_id)
        if message_id is not None:
            self.session.write_branch()
        self._replace(*self.session.get_parts())

    def fork(self, message_id: str | None = None, *, before: bool = False) -> None:
        """Continue in a new session that begins as a copy of this one: up to a message and the results of its tool calls, or to the
        end for None. With ``before``, the message itself is left out. Raises ``SessionError``, and then changes nothing.
        """
        self._require_idle()
        if message_id is None:
            messages = self.get_messages()
        else:
            messages = self.session.messages_up_to(message_id, before=before)
        session = self._open_session(None)
        try:
            if messages:
                session.start_session(self._session_config())
                session.extend(messages)
        except BaseException:
            session.close()
            raise
        self._switch_session(session)

    def keep_queued(self, *lines: QueuedLine, instead_of: Collection[str] = ()) -> None:
        """``SessionManager.queue`` in the session of the moment. What is kept by this agent moves along to another session. Raises
        ``SessionError``.
        """
        self._keep_queued(self.session, lines, instead_of)

    def keep_typed(self, message: UserMessage, typed: str) -> None:
        """Store how a prompt was typed together with it. One that reaches the conversation with another text, as a hook has refused it, is
        stored without.
        """
        self._typed[message.id] = (message.text, typed)

    def keep_not_started(self) -> None:
        """The user is about to be asked: until they answer, the process may be killed. Raises ``SessionError``."""
        if self._not_started:
            self.session.keep_not_started(self._not_started)

    def _keep_queued(
        self, session: SessionManager, lines: Sequence[QueuedLine], instead_of: Collection[str] = ()
    ) -> None:
        if lines and not session.is_started():
            session.start_session(self._session_config())
        session.queue(*lines, instead_of=instead_of)
        self._queued_here |= {line.id for line in lines}

    def _switch_session(self, session: SessionManager) -> None:
        moving = [line for line in self.session.queued() if line.id in self._queued_here]
        try:
            self._keep_queued(session, moving)
            self._replace(*session.get_parts())
        except BaseException:
            session.close()  # else it stays locked
            raise
        try:
            self.session.queue(instead_of=[line.id for line in moving])
        finally:
            self.session.close()
        self.session = session

    async def _save_event(self, event: AgentEvent) -> None:
        if self._journal is not None:
            await self._journal(event)
        match event:
            case MessageEnd(message=message):
                if isinstance(message, AssistantMessage):
                    self._not_started = [call.id for call in message.tool_calls]
                self._append(message)
            case ToolExecutionStart(tool_call_id=call) if call in self._not_started:
                self._not_started.remove(call)
                self.session.keep_start(call)
            case _:
                pass

    def _append(self, message: AppMessage) -> None:
        if not self.session.is_started():
            self.session.start_session(self._session_config())
        text, typed = self._typed.pop(message.id, ("", ""))
        is_same = isinstance(message, UserMessage) and message.text == text
        self.session.append_message(message, typed=typed if is_same else "")

    def _session_config(self) -> dict[str, str]:
        """The configuration that a session's file begins with."""
        state = self.state
        return {
            "model": state.model.id,
            "provider": state.model.provider,
            "thinking": state.thinking_level,
            "agentMode": state.agent_mode,
        }


def check_approval_change(before: ApprovalMode, mode: ApprovalMode, *, sandbox_problem: str) -> None:
    """Raises ``CannotChangeMode`` as ``CodingAgent.set_approve`` does; ``sandbox_problem`` is that of the agent."""
    if sandbox_problem and mode in {"auto", "review"}:
        raise CannotChangeMode(sandbox_problem)
    if "review" in {mode, before}:
        raise CannotChangeMode(
            f"A session cannot change from --approve {before} to {mode} while it is open. Leave it, and resume it with --approve {mode}."
        )
