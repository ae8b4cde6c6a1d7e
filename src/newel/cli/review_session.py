"""What the commands on a project's ledger share: which folder, the ledger opened, and a person to be asked."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

import anyio

from newel.agent.errors import UsageError
from newel.app.workspace_factory import sweep_copies
from newel.cli.options import add_place
from newel.cli.parser import Parser
from newel.cli.place import ground_of
from newel.config.settings import newel_home
from newel.review.tracking.recording_workspace import ledger_folder

if TYPE_CHECKING:
    from newel.app.hosts import ExecutionHost
    from newel.review.project import ProjectReview
    from newel.terminal.renderers.base import Renderer
    from newel.terminal.ui.prompt_line import AskLine

DONE, FAILED = 0, 1

Action = Callable[["ProjectReview | None"], Awaitable[int]]
"""What a command does with a ledger, None if there is none; gives the exit code."""


def ledger_parser(name: str, description: str, *, epilog: str | None = None) -> argparse.ArgumentParser:
    """The parser of a command ``name``, which works on the ledger of a folder."""
    parser = Parser(prog=f"newel {name}", description=description, epilog=epilog)
    add_place(parser, "look at")
    return parser


def with_ledger(parser: argparse.ArgumentParser, given: argparse.Namespace, action: Action) -> int:
    """Open the ledger of the folder that was ``given``, and do something with it."""

    async def run() -> int:
        async with ground_of(parser, given) as ground, _opened(ground) as project:
            return await action(project)

    return anyio.run(run)


@asynccontextmanager
async def _opened(ground: ExecutionHost) -> AsyncGenerator[ProjectReview | None]:
    home = newel_home(os.environ)
    sweep_copies(home)
    where = ledger_folder(home, ground.name)
    if not await anyio.Path(where).is_dir():
        yield None
        return
    from newel.review.tracking.change_recorder import ChangeRecorder
    from newel.workspace.process.runner import OutputLimits

    workspace = ground.workspace(ground.name, OutputLimits())
    recorder = await ChangeRecorder.open(workspace, where, left_out=[str(home)])
    try:
        yield recorder.project
    finally:
        recorder.close()


class Prompter:
    """Whoever sits at the terminal: is shown texts, and asked."""

    def __init__(self) -> None:
        from newel.terminal.stdout import text_stdout
        from newel.terminal.ui.line_reader import LineReader
        from newel.terminal.ui.prompt_line import TerminalAsk

        self.out = text_stdout()
        self.renderer = _renderer(self.out)
        self.ask: AskLine = TerminalAsk(self.renderer, LineReader(sys.stdin.fileno()), self.out)

    def reads(self, text: str) -> None:
        """Show words with diffs among them, in the pager if they are many."""
        from newel.terminal.pager import page

        if not page(self.out, text):
            self.renderer.note(text, "diff")

    @staticmethod
    def check(otherwise: str) -> None:
        """Raises ``UsageError``, which says what to do ``otherwise``, where nobody can be asked."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(f"Not a terminal, so nobody can be asked, and nothing was changed. {otherwise}")

    async def agrees(self, about: str, question: str, *, yes: bool) -> bool:
        """Show what would be done; whether to do it: ``yes`` unasked. Raises ``UsageError`` as ``check`` does."""
        self.renderer.note(about, "diff")
        if yes:
            return True
        self.check("--yes does it unasked.")
        answer = await self.ask(question, "")
        return (answer or "").strip().lower() in {"y", "yes"}


def _renderer(out: TextIO) -> Renderer:
    if out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from newel.terminal.renderers.rich import on_terminal

        return on_terminal(out)
    from newel.terminal.renderers.console import ConsoleRenderer

    return ConsoleRenderer(out)
