"""The user interface of pipes and simple terminals: lines in, lines out."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

import anyio
from anyio.lowlevel import checkpoint

from newel.agent.messages import Attachment
from newel.config.themes import Theme
from newel.terminal.renderers.base import Renderer
from newel.terminal.renderers.screen import terminal_size
from newel.terminal.renderers.transcript import Section
from newel.terminal.ui.editor import edit_file, editor_command
from newel.terminal.ui.line_reader import LineReader, question_on, until_quiet
from newel.terminal.ui.terminal_ui import THEMES, InputHandler
from newel.text.format import one_line
from newel.text.sanitize import escape_invisible, sanitize


class PlainUI:
    """Reads a line from the file descriptor ``stdin`` whenever nothing runs."""

    reads_keys: bool = False

    def __init__(self, renderer: Renderer, stdin: int, out: TextIO, *, prompt: str = "> ") -> None:
        self.renderer = renderer
        self._out = out
        self._prompt = prompt
        self._lines = LineReader(stdin)
        self._echo = not os.isatty(stdin)
        self._scope = anyio.CancelScope()
        self._is_suspended = False

    def columns(self) -> int:
        return terminal_size(self._out)[0]

    async def run(self, handler: InputHandler) -> None:
        with self._scope:
            while True:
                await handler.wait_idle()
                line = await self._read(self._prompt)
                if line is None:
                    break
                handler.submit(line)
                await checkpoint()

    def leave(self) -> None:
        self._scope.cancel()

    async def ask(
        self,
        question: str,
        about: str,
        initial: str = "",  # noqa: ARG002 — nothing can be edited here
        *,
        interrupting: bool = False,
        keys: str = "",  # noqa: ARG002 — lines are read
    ) -> str | None:
        question = question_on(self._out, question)
        if not interrupting:
            self._lines.forget_typed()
        if about:
            self.renderer.note(escape_invisible(about))
        if interrupting:
            self._write(question)
            if unsent := await until_quiet(self._lines):
                self.renderer.note(f"\n{unsent}")
            else:
                return await self._read("")
        return await self._read(question)

    async def pick(
        self,
        title: str,
        rows: Sequence[str],
        selected: int = 0,  # noqa: ARG002 — the user enters a number
        *,
        on_end: Callable[[int], None] | None = None,  # noqa: ARG002 — as above
    ) -> int | None:
        numbered = "\n".join(f"{number:>3}  {row}" for number, row in enumerate(rows, 1))
        answer = (await self.ask("Number (Enter: none): ", f"{title}\n{numbered}") or "").strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(rows):
            return int(answer) - 1
        if answer:
            self.renderer.note(f"{one_line(answer, 40)} is not in the list. Nothing was changed.")
        return None

    async def page(self, title: str, sections: Sequence[Section], *, at_end: bool = False) -> None:  # noqa: ARG002 — printed
        for section in sections:
            self.renderer.note(section.plain())

    @property
    def is_suspended(self) -> bool:
        return self._is_suspended

    async def view(self, text: str, short: str = "", /) -> None:
        self.renderer.note(short or text, "diff")

    async def edit_file(self, path: Path, /) -> None:
        command = editor_command()
        async with self.suspend():
            await edit_file(path, command)

    @asynccontextmanager
    async def suspend(self) -> AsyncGenerator[None]:
        self._out.flush()
        self._is_suspended = True
        try:
            yield
        finally:
            self._is_suspended = False

    @asynccontextmanager
    async def hand_over(self) -> AsyncGenerator[None]:
        """A dumb terminal stays with Newel, and shows a command's output line by line."""
        yield

    def clear(self) -> None:
        """Printed text stays."""

    def refresh(self) -> None:
        """No state is shown."""

    def use_theme(self, theme: Theme) -> None:
        """There are no colours."""

    async def pick_theme(
        self,
        rows: Sequence[str],
        theme_of: Callable[[int], Theme],  # noqa: ARG002 — there are no colours
        selected: int,
    ) -> int | None:
        return await self.pick(THEMES, rows, selected)

    def set_working(self, is_working: bool) -> None:
        """No state is shown."""

    def echo(self, text: str) -> None:
        """Typed text stays visible."""

    def show_answer(self, text: str) -> None:
        """The typed answer stays visible, after its question."""

    def restore_input(self, text: str, images: Sequence[Attachment] = ()) -> None:  # noqa: ARG002 — nothing can be edited here
        self.renderer.note(f"Not sent: {text}")

    async def _read(self, prompt: str) -> str | None:
        self._write(prompt)
        try:
            line = await self._lines.next()
        except ValueError as error:
            self.renderer.note(f"Error: {error}.")
            return ""
        if line is None:
            self._write("\n")
        elif self._echo and (line.strip() or prompt != self._prompt):
            self._write(f"{sanitize(line)}\n")
        return line

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
