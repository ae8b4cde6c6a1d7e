"""``CodingAgent``: an agent with tools, a working folder and a session that keeps what was said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec

from newel.agent.agent import Agent, AgentTransport
from newel.agent.events import AgentEnd, AgentEvent, MessageEnd
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    Usage,
    UserMessage,
)
from newel.agent.ports import Emit, Model, RunConfig
from newel.context.attachments import Attachable
from newel.context.compaction import Compactor
from newel.context.prompt_templates import Template
from newel.session.manager import SessionManager
from newel.workspace.port import Workspace


class SessionTotals(msgspec.Struct, frozen=True):
    """What a conversation has used: ``cost`` in US dollars, None if no price is known;
    ``context`` is the size of the last request in tokens.
    """

    usage: Usage
    cost: float | None
    context: int


def totals(messages: Sequence[AppMessage]) -> SessionTotals:
    """What a conversation has used, its compactions included."""
    usage, cost, context = Usage(), None, 0
    for message in messages:
        match message:
            case AssistantMessage():
                used, price = message.usage, message.cost
                context = used.total or context
            case CustomMessage(name="compaction", data={"usage": counted, **rest}):
                used, price = msgspec.convert(counted, Usage), rest.get("cost")
            case _:
                continue
        usage += used
        if price is not None:
            cost = (cost or 0.0) + price
    return SessionTotals(usage, cost, context)


class CodingAgent(Agent):
    """An ``Agent`` whose conversation is kept in a session; it can move between sessions.

    ``workspace`` is the user's; the tools work in ``works_in``, which differs where changes are decided afterwards.
    ``attachable`` bounds which files a prompt may attach. ``open_session`` opens a session by its id, or a new one for None.
    Screens show ``approve`` (the preset), ``instructions`` (the AGENTS.md files in force) and ``where`` (the model's
    location, where its name does not say it). ``journal`` is awaited with each event before the session gets it.
    """

    def __init__(
        self,
        *,
        transport: AgentTransport,
        config: RunConfig,
        workspace: Workspace,
        session: SessionManager,
        open_session: Callable[[str | None], SessionManager],
        list_models: Callable[[], Awaitable[list[str]]],
        describe_model: Callable[[str], Model],
        templates: dict[str, Template],
        compactor: Compactor | None = None,
        journal: Emit | None = None,
        approve: str = "auto",
        instructions: str = "",
        where: str = "",
        works_in: Workspace | None = None,
        attachable: Attachable | None = None,
    ) -> None:
        self.workspace = workspace
        self.attachable = attachable or Attachable(workspace)
        self.works_in = works_in or workspace
        self.session = session
        self.list_models = list_models
        self.describe_model = describe_model
        self.templates = templates
        self.compactor = compactor
        self.approve = approve
        self.instructions = instructions
        self.where = where
        self.run_id = ""
        """The run that answers belong to, where several are one: a contract that is resumed. Otherwise each is its own."""
        self.secrets: Callable[[], Sequence[str]] = tuple
        """What an export of the conversation must not hold."""
        self.news: Callable[[], Awaitable[UserMessage | None]] | None = None
        """What the model should know before the next prompt, if anything."""
        self._open_session = open_session
        self._journal = journal
        super().__init__(transport, config, messages=session.get_messages(), record=self._save_event)

    # -- the conversation -------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The agent itself: recording works with any agent that has a session."""
        return self

    def get_messages(self) -> list[AppMessage]:
        return list(self.state.messages)

    async def answer(
        self, prompts: Sequence[AppMessage], *, transport: AgentTransport | None = None
    ) -> AgentEnd:
        if prompts and self.news is not None and (message := await self.news()):
            await self.append_message(message)
        return await super().answer(prompts, transport=transport)

    def set_model(self, model: Model | str) -> None:
        """Use another model of the same server from the next prompt on; a name is enough."""
        before = self.state.model
        if isinstance(model, str):
            model = self.describe_model(model)
        super().set_model(model)
        if self.compactor is not None:
            self.compactor.follow(model, before=before)

    def window(self) -> int | None:
        """The size of the model's context in tokens, as far as it is known by now."""
        return self.compactor.context_window if self.compactor else self.state.model.context_window

    def totals(self) -> SessionTotals:
        """What the conversation has used so far."""
        return totals(self.state.messages)

    async def compact(self, instructions: str = "") -> bool:
        """Sum up what lies behind, now; False if there is nothing to sum up."""
        if self.compactor is None:
            return False
        message = await self.compactor.compact_now(self.state.messages, instructions)
        if message is not None:
            await self.append_message(message)
        return message is not None

    # -- sessions ---------------------------------------------------------------------------------

    def new_session(self) -> None:
        """Begin again with nothing said; the session so far stays in its file."""
        self._switch(self._open_session(None))

    def resume(self, session_id: str) -> None:
        """Go on with another session. Raises ``SessionError`` and changes nothing if that fails."""
        if self.session.get_id().startswith(session_id):
            return
        self._switch(self._open_session(session_id))

    def reopen(self, said: Sequence[AppMessage] = (), *, never_begun: Collection[str] = ()) -> None:
        """Take up the session again, with what others have added to its file meanwhile, and with the messages ``said``
        that a journal has and the file may lack: those it knows by their id are left out. ``never_begun`` are the calls
        of which the journal knows that they did not begin.
        """
        if self.session.get_file_path() is not None:
            self.session.close()
            self.session = self._open_session(self.session.get_id())
        for message in said:
            self._keep(message)
        self.replace_messages(self.session.get_messages(), never_begun=never_begun)

    def release(self) -> None:
        """Let other programs write to the session, until ``reopen``."""
        if self.session.get_file_path() is not None:
            self.session.close()

    def branch(self, message_id: str | None) -> None:
        """Go back to just after a message (None: to the beginning); what followed stays in the file."""
        self.replace_messages(self.session.branch(message_id))

    def _switch(self, session: SessionManager) -> None:
        try:
            self.replace_messages(session.get_messages())
        except BaseException:
            session.close()  # it is locked by us, and nothing else would unlock it
            raise
        self.session.close()
        self.session = session

    async def _save_event(self, event: AgentEvent) -> None:
        if self._journal is not None:
            await self._journal(event)
        if isinstance(event, MessageEnd):
            self._keep(event.message)

    def _keep(self, message: AppMessage) -> None:
        if not self.session.is_started():
            self.session.start_session(self._describe())
        self.session.append_message(message)

    def _describe(self) -> dict[str, Any]:
        state = self.state
        return {"model": state.model.id, "provider": state.model.provider, "thinking": state.thinking_level}
