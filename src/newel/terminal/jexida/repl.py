"""The conversation of ``jexida``: each input is a command or a prompt, and runs when the one before has ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from newel.agent.errors import WorkspaceError
from newel.agent.formatting import pluralize
from newel.config.terminal import TerminalSettings
from newel.config.themes import Theme
from newel.providers.ollama.model_info import ModelMissing
from newel.session.typed_prompt import Prompt
from newel.terminal.jexida.agent import JexidaAgent
from newel.terminal.jexida.commands import COMMANDS, JexidaContext, complete_routine, pull_model
from newel.terminal.jexida.renderer import PanelRenderer, PanelStyle
from newel.terminal.renderers.screen import Printer, Screen
from newel.terminal.renderers.styles import Styles
from newel.terminal.repl.repl import Repl, error_of, open_ui
from newel.terminal.ui.terminal_ui import TerminalUI
from newel.text.format import one_line


async def run_jexida(
    agent: JexidaAgent,
    *,
    title: str,
    history: Path,
    settings: TerminalSettings | None = None,
    theme: Theme | None = None,
    warnings: Sequence[str] = (),
) -> int:
    """Converse with the user until they leave; returns the exit code of ``Repl.run``. ``title`` begins the first line,
    ``history`` is the file that keeps what the user enters, ``settings`` are those of the input and ``theme`` of the screen; ``warnings``
    are shown first.
    """
    ui = _open_ui(agent, history, settings, theme)
    assert isinstance(ui.renderer, PanelRenderer)  # noqa: S101 — both kinds of user interface were given one
    context = JexidaContext(agent, ui, ui.renderer, title)
    repl = JexidaRepl(context, warnings)
    if os.isatty(sys.stdin.fileno()):
        agent.confirmation.ask = repl.ask
    agent.host.watch(ui.refresh)
    try:
        return await repl.run(agent.agent, agent.host.connect)
    finally:
        agent.confirmation.ask = None


def _open_ui(
    agent: JexidaAgent, history: Path, settings: TerminalSettings | None, theme: Theme | None
) -> TerminalUI:
    def live(screen: Screen, styles: Styles) -> PanelRenderer:
        from newel.terminal.jexida.panels import RichPanels

        return PanelRenderer(screen, RichPanels(styles), host=lambda: agent.host.name)

    return open_ui(
        history,
        plain=lambda out: PanelRenderer(
            Printer(out), PanelStyle(), host=lambda: agent.host.name, animated=False
        ),
        live=live,
        commands=COMMANDS.completions,
        settings=settings,
        theme=theme,
        arguments={
            "run": partial(complete_routine, agent.routines),
            "model": lambda typed: [(typed, dict.fromkeys(agent.model_names, ""))],
        },
    )


class JexidaRepl(Repl[JexidaContext]):
    """Text that begins with ``/`` never reaches the model."""

    def __init__(self, context: JexidaContext, warnings: Sequence[str]) -> None:
        super().__init__(context.ui, COMMANDS, context)
        self._warnings = warnings

    def _greet(self) -> None:
        for warning in self._warnings:
            self._context.say(f"Warning: {warning}")
        self._context.show_header()
        if messages := self._context.agent.agent.state.messages:
            self._context.say(f"Resumed a conversation of {pluralize(len(messages), 'message')}.")

    def state_lines(self, typed: str = "") -> list[str]:
        agent = self._context.agent
        facts = [one_line(agent.host.name, 60), one_line(agent.model, 40), one_line(agent.host.state, 60)]
        return [*super().state_lines(typed), " · ".join(facts)]

    async def ask(self, question: str, initial: str = "", /, *, interrupting: bool = False) -> str | None:
        line = await self.ui.ask(question, "", initial, interrupting=interrupting)
        if line and initial:
            self.ui.echo(line)
        return line

    async def _run_text(self, prompt: Prompt) -> None:
        context, agent, text = self._context, self._context.agent, prompt.typed
        if text.startswith("/"):
            self.ui.echo(text)
            raise COMMANDS.unknown(text)
        try:
            with context.activity(f"connecting to {one_line(agent.host.name, 60)}"):
                await agent.assign_project()
        except WorkspaceError:
            self.ui.echo(text)  # it did not become part of the conversation
            raise
        commands_before = agent.commands_run
        if prompt.images:
            context.say("The image was not sent: models of jexida get text only.")
        self._is_prompting = True
        failure = await error_of(agent.prompt(text))
        if isinstance(failure, ModelMissing) and await pull_model(context, failure.model):
            failure = await error_of(agent.retry())
        if failure or agent.commands_run > commands_before:
            context.show_status()
