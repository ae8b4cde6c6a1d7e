"""Shared by the review commands: their folder, its open ledger, and the user at the terminal."""

from __future__ import annotations

import argparse
import gc
import os
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import anyio

from newel.agent.errors import UsageError
from newel.app.theme import theme_for_output, usable_terminal_settings
from newel.app.workspace_factory import sweep_leftovers
from newel.cli.options import Parser, add_place, folder, open_place
from newel.config.keymap import Keymap
from newel.config.settings import newel_home
from newel.review.tracking.recording_workspace import REVIEW, ledger_folder
from newel.storage.files import nearest_above
from newel.terminal.commands import shell_command_for
from newel.terminal.renderers.screen import terminal_size
from newel.terminal.review.review_ui import NO_CHANGES, ReviewUI
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.config.themes import Theme
    from newel.review.project import ProjectReview
    from newel.terminal.renderers.base import Renderer
    from newel.workspace.execution_host import ExecutionHost

DONE, FAILED = 0, 1

OBJECTS: Final = 200_000
"""New objects after which garbage is collected: a command makes many, drops hardly any in a cycle, and ends soon."""

Action = Callable[["ProjectReview | None"], Awaitable[int]]
"""Runs a command on a ledger, None if there is none, and returns the exit code."""


def ledger_parser(name: str, description: str, *, epilog: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command ``name``, which works on the ledger of a folder."""
    parser = Parser(prog=f"newel {name}", description=description, epilog=epilog)
    add_place(parser, "use")
    return parser


def with_ledger(parser: argparse.ArgumentParser, options: argparse.Namespace, action: Action) -> int:
    """Open the ledger of the ``options`` folder and run ``action`` on it."""
    gc.set_threshold(OBJECTS)

    async def run() -> int:
        async with open_place(parser, options) as ground, open_project(ground) as project:
            return await action(project)

    return anyio.run(run)


def nothing_recorded(
    parser: argparse.ArgumentParser, options: argparse.Namespace, nothing: str = NO_CHANGES
) -> str:
    """The message for a folder without a ledger; it names one above that has one: the user may have changed into a folder of the
    project.
    """
    above = (
        None if options.host else nearest_above(newel_home(os.environ) / REVIEW, folder(parser, options.cwd))
    )
    if above is None:
        return nothing
    name = escape_line(str(above))
    return f"{nothing} Newel has worked in {name}; `--cwd {shlex.quote(name)}` looks there."


@asynccontextmanager
async def open_project(host: ExecutionHost) -> AsyncGenerator[ProjectReview | None]:
    home = newel_home(os.environ)
    sweep_leftovers(home)
    where = ledger_folder(home, host.name)
    if not await anyio.Path(where).is_dir():
        yield None
        return
    from newel.review.tracking.change_recorder import ChangeRecorder
    from newel.workspace.process.output import OutputLimits

    workspace = host.workspace(host.name, OutputLimits())
    recorder = await ChangeRecorder.open(workspace, where, left_out=[str(home)])
    for notice in recorder.notices:  # about a run that was killed
        print(f"newel: {escape_line(notice)}", file=sys.stderr)
    try:
        yield recorder.project
    finally:
        recorder.close()


class Prompter:
    """Shows texts on standard output, and asks the user at the terminal."""

    def __init__(self) -> None:
        from newel.terminal.stdout import text_stdout
        from newel.terminal.ui.line_reader import LineReader, TerminalAsk

        self._out = text_stdout()
        home = newel_home(os.environ)
        settings = usable_terminal_settings(home)
        self.keymap = Keymap(settings.keys)
        self._theme = theme_for_output(settings.theme, home)
        self._renderer = _renderer(self._out, self._theme)
        self._ask = TerminalAsk(self._renderer, LineReader(sys.stdin.fileno()), self._out)

    def ui(self, options: argparse.Namespace) -> ReviewUI:
        """For the place that ``add_place`` was given."""
        columns = terminal_size(self._out)[0]

        async def view(text: str, short: str = "", /) -> None:
            del short  # without a pager, all of it is printed
            self.show_long(text)

        format_command = shell_command_for(options.host)
        return ReviewUI(
            self._renderer.note,
            self._ask_at_terminal,
            format_command,
            columns,
            view,
            _edit_file,
            self._show_progress if self._renderer.animated else None,
            takes_signals=True,
        )

    def show_long(self, text: str) -> None:
        """Show text with diffs in it, in the pager if it does not fit the screen."""
        from newel.terminal.pager import page

        if not page(self._out, text, theme=self._theme):
            self._renderer.note(text, "diff")

    def _show_progress(self, activity: str) -> None:
        """Outside a conversation, nothing else ticks."""
        self._renderer.show_progress(activity)
        self._renderer.tick()

    async def _ask_at_terminal(self, question: str, about: str, *, keys: str = "") -> str | None:
        check_terminal("--yes skips the question.")
        return await self._ask(question, about, keys=keys)


def check_terminal(remedy: str) -> None:
    """Raises ``UsageError`` with the remedy where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"Cannot ask for confirmation: not a terminal. Nothing was changed. {remedy}")


async def _edit_file(path: Path, /) -> None:
    """Until the editor ends, only it handles Ctrl+C, which is a command in many."""
    from newel.terminal.ui.editor import edit_file, editor_command

    command = editor_command()
    before = signal.signal(signal.SIGINT, _ignore)  # a handler, which the editor does not inherit
    try:
        await edit_file(path, command)
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore(number: int, frame: object) -> None:
    del number, frame


def _renderer(out: TextIO, theme: Theme) -> Renderer:
    if out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from newel.terminal.renderers.rich import on_terminal

        return on_terminal(out, theme=theme)
    from newel.terminal.renderers.console import ConsoleRenderer

    return ConsoleRenderer(out)
