"""The person at the terminal: prompts, meta commands, and one thing after the other."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Awaitable, Sequence
from pathlib import Path

from newel.agent.errors import WorkspaceError
from newel.providers.ollama.model_info import ModelMissing
from newel.terminal.jexida.agent import JexidaAgent
from newel.terminal.jexida.commands import BY_NAME, COMMANDS, JexidaContext, pull, unknown
from newel.terminal.jexida.panel_style import PlainPanels
from newel.terminal.jexida.renderer import PanelRenderer
from newel.terminal.renderers.base import RendererSubscription, animate
from newel.terminal.renderers.screen import Screen
from newel.terminal.repl.job_queue import JobQueue
from newel.terminal.signals import exit_code, on_signals
from newel.terminal.stdout import discard_stdout, text_stdout
from newel.terminal.ui.terminal_ui import TerminalUI, When
from newel.text.format import one_line, plural

FAILED = 1
_NAME = re.compile(r"/(?P<name>\S*)\s*(?P<arguments>.*)", re.DOTALL)


async def run_jexida(talk: JexidaAgent, *, title: str, history: Path, warnings: Sequence[str] = ()) -> int:
    """Talk with the person at the terminal until they leave. ``title`` begins the first line shown, ``history`` is the file
    that keeps what was typed, ``warnings`` are shown first of all.

    Returns 0, 1 if the terminal went away, 128 + N if signal N ended it.
    """
    desk, renderer = open_desk(talk, history)
    repl = _JexidaRepl(JexidaContext(talk, desk, renderer, title))
    audience = RendererSubscription(renderer, repl.leave)
    unsubscribe = talk.agent.subscribe(audience.handle)
    if os.isatty(sys.stdin.fileno()):
        talk.confirmation.ask = repl.ask
    try:
        for warning in warnings:
            renderer.note(f"Warning: {warning}")
        repl.context.header()
        if said := talk.agent.state.messages:
            renderer.note(f"Going on with a conversation of {plural(len(said), 'message')}.")
        talk.host.watch(desk.refresh)
        async with on_signals(repl.on_signal) as group:
            group.start_soon(animate, renderer)
            group.start_soon(repl.jobs.work)
            group.start_soon(repl.jobs.guarded, talk.host.connect)
            await desk.run(repl)
        audience.check()
    except OSError as error:  # the screen is gone; what else fails is told on it
        discard_stdout(error)
        return repl.code or FAILED
    finally:
        unsubscribe()
        talk.confirmation.ask = None
        renderer.close()
    return repl.code


def open_desk(talk: JexidaAgent, history: Path) -> tuple[TerminalUI, PanelRenderer]:
    """The desk that standard input and output allow, and what draws on it."""
    made: list[PanelRenderer] = []

    def host() -> str:
        return talk.host.name

    dumb = os.environ.get("TERM", "dumb") == "dumb"
    if dumb or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from newel.terminal.renderers.screen import Printer
        from newel.terminal.ui.plain_ui import PlainUI

        out = text_stdout()
        plain = PanelRenderer(Printer(out), PlainPanels(), host=host, animated=False)
        return PlainUI(plain, sys.stdin.fileno(), out), plain
    from newel.terminal.jexida.completion import MetaCompleter
    from newel.terminal.jexida.panels import RichPanels
    from newel.terminal.renderers.styles import Styles
    from newel.terminal.ui.prompt_toolkit_ui import PromptToolkitUI

    def draw(screen: Screen) -> PanelRenderer:
        made.append(PanelRenderer(screen, RichPanels(Styles()), host=host))
        return made[0]

    names = {command.name: command.help for command in COMMANDS}
    completer = MetaCompleter(names, talk.routines, talk.models)
    desk = PromptToolkitUI(sys.stdout, draw, completer=completer, history=history)
    return desk, made[0]


class _JexidaRepl:
    """Takes what the person types, one thing after the other."""

    def __init__(self, context: JexidaContext) -> None:
        self.context = context
        self.jobs: JobQueue[str] = JobQueue(context.desk, self._take, self._tidy)
        self.code = 0
        self._prompting = False

    # -- the person ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self.jobs.busy

    def submit(self, text: str, when: When = "now") -> None:  # noqa: ARG002 — everything waits its turn here
        text = text.strip()
        if text == "/exit":
            self.leave()
        elif text:
            self.jobs.add(text)

    def unfold(self) -> None:
        """Everything is shown in full here."""

    def stop(self) -> bool:
        return self.jobs.stop()

    def leave(self) -> None:
        self.stop()
        self.context.desk.leave()

    async def idle(self) -> None:
        await self.jobs.idle()

    def state(self) -> list[str]:
        waiting = [f"  {one_line(text, 60)}  (waits its turn)" for text in self.jobs.waiting]
        return [*waiting, self.context.status().one_line()]

    def on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGINT and self.stop():
            return
        self.code = 0 if number == signal.SIGINT else exit_code(number)
        self.leave()

    async def ask(self, question: str, given: str = "", /, *, interrupting: bool = False) -> str | None:
        line = await self.context.desk.ask(question, "", given, interrupting=interrupting)
        if line and given:
            self.context.desk.echo(line)
        return line

    # -- one thing after the other ------------------------------------------------------------------

    async def _take(self, text: str) -> None:
        if command := _NAME.fullmatch(text):
            self.context.desk.echo(text)
            known = BY_NAME.get(command["name"])
            if known is None:
                self.context.renderer.note(unknown(command["name"]))
            else:
                await known.run(self.context, command["arguments"])
        else:
            await self._prompt(text)

    async def _prompt(self, text: str) -> None:
        talk = self.context.talk
        try:
            with self.context.doing(f"connecting to {one_line(talk.host.name, 60)}"):
                await talk.settle()
        except WorkspaceError:
            self.context.desk.echo(text)  # it became no part of the conversation
            raise
        before = talk.commands_run
        self._prompting = True
        failure = await _failure(talk.prompt(text))
        if isinstance(failure, ModelMissing) and await pull(self.context, failure.model):
            failure = await _failure(talk.go_on())
        if failure or talk.commands_run > before:
            self.context.renderer.status(self.context.status())

    async def _tidy(self, stopped: bool) -> None:
        if stopped and not self._prompting:
            self.context.renderer.note("Stopped.")  # of a prompt its own events say so
        self._prompting = False


async def _failure(answer: Awaitable[object]) -> Exception | None:
    """What kept the model from answering; an event that came before has told it. What the screen raises is the audience's."""
    try:
        await answer
    except Exception as error:  # noqa: BLE001 — see above
        return error
    return None
