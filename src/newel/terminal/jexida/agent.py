"""The agent behind the panels: what it is told, what it may do, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from anyio import to_thread

from newel.agent.agent import Agent, ProviderTransport
from newel.agent.errors import NewelError
from newel.agent.events import AgentEnd, AgentEvent, MessageEnd
from newel.agent.messages import AppMessage, Message
from newel.agent.ports import Limits, Model, RunConfig
from newel.agent.transform import Transformer
from newel.session.manager import SessionManager
from newel.terminal.jexida.history_window import window
from newel.terminal.jexida.ports import CommandHost, ModelBackend
from newel.terminal.jexida.reply_provider import AnswerOrShell
from newel.terminal.jexida.routines import Routines
from newel.terminal.jexida.shell_tool import Confirmation, ShellTool
from newel.terminal.jexida.system_prompt import system_prompt
from newel.workspace.port import Completed

MAX_REQUESTS = 12
"""Of one prompt: a model that proposes one command after the other comes to an end."""


class JexidaAgent:
    """One conversation about one host. ``turns`` is how many of its turns the model is shown; see ``window``.

    ``models`` are those that can be chosen, as far as somebody has asked for them. ``commands_run`` counts the commands that ran
    on the host, whoever wanted them; ``exit_code`` is that of the last.
    """

    def __init__(
        self,
        host: CommandHost,
        path: ModelBackend,
        *,
        model: str,
        user: str,
        routines: Routines,
        turns: int,
        session: SessionManager,
    ) -> None:
        self.host = host
        self.path = path
        self.routines = routines
        self.session = session
        self.run_id = ""
        self.models: list[str] = []
        self.exit_code: int | None = None
        self.commands_run = 0
        self.confirmation = Confirmation(self._stop)
        self._user = user
        self._turns = turns
        self._transform = Transformer()
        self.agent = Agent(
            ProviderTransport(AnswerOrShell(path.provider)),
            RunConfig(
                model=Model(model, "ollama"),
                transform=self._seen,
                tools=[ShellTool(host, self.note)],
                policy=self.confirmation,
                limits=Limits(max_turns=MAX_REQUESTS),
            ),
            messages=session.get_messages(),
            record=self._record,
        )

    def _stop(self) -> None:
        self.agent.stop()

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return self.agent.state.model.id

    def set_model(self, name: str) -> None:
        """Have another model answer, from the next prompt on."""
        self.agent.set_model(Model(name, self.agent.state.model.provider))

    async def list_models(self) -> list[str]:
        """Raises what ``ModelBackend.models`` does."""
        self.models[:] = await self.path.models()
        return self.models

    async def settle(self) -> None:
        """Know which project this belongs to, before anything is said in it. Raises ``WorkspaceError``."""
        if not self.session.has_data():
            self.session.set_project(await self.host.project_name())

    async def prompt(self, text: str) -> AgentEnd:
        """Say something to the model, see its commands through, and return how it ended. Raises what ``Agent.prompt`` does."""
        self.agent.set_system_prompt(system_prompt(self.host, self._user, self.routines))
        await self._tell_news()
        return await self.agent.prompt(text)

    async def _tell_news(self) -> None:
        """Let the model know what was decided about its changes since it last heard of them. A host that is not there keeps nobody
        from being answered.
        """
        from newel.review.undo_notices import may_have_changed, undo_notice

        messages = self.agent.state.messages
        if self.host.state != "up" or not may_have_changed(messages):
            return
        with suppress(NewelError):
            if project := await self.host.project():
                told = await to_thread.run_sync(undo_notice, project.ledger, self.session.get_id(), messages)
                if told:
                    await self.agent.append_message(told)

    async def go_on(self) -> AgentEnd:
        """Ask the model again, after what kept it from answering has been mended."""
        return await self.agent.answer([])

    def note(self, done: Completed) -> None:
        """A command has ended."""
        self.exit_code = done.exit_code
        self.commands_run += 1

    def _seen(self, messages: Sequence[AppMessage]) -> list[Message]:
        return self._transform(window(messages, self._turns))

    async def _record(self, event: AgentEvent) -> None:
        if isinstance(event, MessageEnd):
            if not self.session.is_started():
                self.session.start_session({"model": self.model, "host": self.host.name})
            self.session.append_message(event.message)
