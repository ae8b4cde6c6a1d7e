"""Lines from a file, pipe or terminal, read without blocking the event loop, and questions that a line answers."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol, TextIO

import anyio
from anyio.lowlevel import checkpoint

from newel.terminal.renderers.base import Renderer
from newel.terminal.renderers.screen import terminal_size
from newel.text.format import one_line
from newel.text.lines import LineSplitter
from newel.text.sanitize import escape_invisible

PIECE = 65_536

ENTER: Final = "\n"
"""Among the keys that answer a question, it stands for an empty line."""

_PASTE = re.compile(r"\x1b\[20[01]~")


def without_paste(text: str) -> str:
    """Remove the marks that a terminal sets around pasted text."""
    return _PASTE.sub("", text)


class LineReader:
    """Reads a file descriptor line by line, in bounded memory.

    A line longer than ``limit`` bytes is skipped: see ``next``.
    """

    def __init__(self, fd: int, *, limit: int = 64 * 1024 * 1024) -> None:
        self.fd = fd
        self.limit = limit
        self._ready: deque[bytes] = deque()
        self._lines = LineSplitter(limit)
        self._ended = False

    async def next(self) -> str | None:
        """The next line without its end, or None when the input is over.

        Bytes that are not UTF-8 become replacement characters. Raises ``ValueError`` for a line that is
        too long, which is skipped.
        """
        while not self._ready and not self._ended:
            self._feed(await self._read())
        if not self._ready:
            return None
        line = self._ready.popleft()
        if len(line) > self.limit:
            raise ValueError(f"a line of more than {self.limit:,} bytes was skipped")
        return line.removesuffix(b"\r").decode(errors="replace")

    async def key_or_line(self, keys: str) -> str | None:
        """One of ``keys`` as soon as it is pressed in a terminal, or else the next line. An empty line there is passed over, unless
        ``ENTER`` is among them.
        """
        if not os.isatty(self.fd):
            return await self.next()
        while True:
            with _key_by_key(self.fd):
                piece = await self._read()
            typed = piece.decode(errors="replace").strip("\r\n")
            if piece in {b"", b"\x04"}:
                return None
            if not typed and ENTER in keys:
                return ""
            if len(typed) == 1 and typed in keys:
                return typed
            if typed:
                self._feed(piece)
                return await self.next()

    def forget_typed(self) -> None:
        """Drop unread typed input, unfinished lines included, so that it does not answer a new question. Input from a pipe or
        a file is kept.
        """
        if os.isatty(self.fd):
            import termios

            self._ready.clear()
            self._lines.flush()
            with contextlib.suppress(termios.error):  # the terminal is gone: the next read tells
                termios.tcflush(self.fd, termios.TCIFLUSH)

    async def until_quiet(self, seconds: float) -> str:
        """Wait until nothing was typed for ``seconds``. Removes and returns the unread input, unfinished lines included. Returns
        at once for a pipe or a file.
        """
        if not os.isatty(self.fd):
            return ""
        typed = b"\n".join([*self._ready, self._lines.flush()])
        self._ready.clear()
        with _key_by_key(self.fd):
            while not self._ended:
                with anyio.move_on_after(seconds) as pause:
                    piece = await self._read()
                    typed = (typed + piece)[-self.limit :]
                    self._ended = not piece
                if pause.cancelled_caught:
                    break
        return typed.decode(errors="replace").replace("\x04", "")

    def _feed(self, piece: bytes) -> None:
        self._ready += self._lines.feed(piece)
        if not piece:
            self._ended = True
            if rest := self._lines.flush():
                self._ready.append(rest)

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self.fd)
        except OSError:
            # Not everything can be waited for (regular files, /dev/null): reading those never waits.
            await checkpoint()
        return os.read(self.fd, PIECE)


class LineHandler(Protocol):
    """Handles the lines that a program sends."""

    async def serve(self, line: str, number: int, /) -> None:
        """Begin with what the line asks for. ``number`` counts from 1."""
        ...

    def skip(self, problem: str, number: int, /) -> None:
        """Answer a line that was not read."""
        ...


async def serve_lines(lines: LineReader, handler: LineHandler) -> None:
    """Pass each line to ``handler`` until the input ends; blank ones, and a byte order mark at the beginning, are left out."""
    number = 0
    while True:
        number += 1
        try:
            line = await lines.next()
        except ValueError as error:
            handler.skip(f"{error}.", number)
            continue
        if line is None:
            return
        if number == 1:
            line = line.removeprefix("\N{BYTE ORDER MARK}")
        if line.strip():
            await handler.serve(line, number)


@contextlib.contextmanager
def _key_by_key(fd: int) -> Generator[None]:
    """Inside, keys of a terminal can be read one by one. Unread ones are dropped at the end."""
    import termios

    try:
        before = termios.tcgetattr(fd)
        attributes = termios.tcgetattr(fd)
        attributes[3] &= ~termios.ICANON
        attributes[6] = [*before[6]]
        attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
    except termios.error:  # the terminal is gone: the next read tells
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)


QUIET_S: Final = 0.7
"""Pause without a key after an interrupting question, before a key counts as its answer."""

BEGIN_PASTES, END_PASTES = "\x1b[?2004h", "\x1b[?2004l"
"""In between, the terminal marks pasted text."""


class AskLine(Protocol):
    async def __call__(self, question: str, about: str, *, interrupting: bool = False) -> str | None:
        """Show ``about`` and ask; both texts are shown with hidden characters written out. Returns the line that the user
        entered, None if nobody can answer. ``interrupting``: the user did not expect the question and may be typing
        something else, so input before a pause of ``QUIET_S`` is no answer. May be cancelled. One question at a time.
        """
        ...


async def until_quiet(lines: LineReader) -> str:
    """Wait until the user has typed nothing for ``QUIET_S``. What they typed until then is dropped; returns a note about it, or
    an empty text.
    """
    typed = (await lines.until_quiet(QUIET_S)).strip()
    return f"Typed before the question, and not sent: {one_line(typed)}" if typed else ""


def question_on(out: TextIO, question: str) -> str:
    """A question, inert, and wrapped between words where ``out`` is a terminal."""
    question = escape_invisible(question)
    if not out.isatty():
        return question
    from newel.terminal.ui.hints import wrap_hints  # later: Rich's cells take time to load

    return wrap_hints(question, terminal_size(out)[0])


class TerminalAsk:
    """An ``AskLine`` on a terminal, where ``renderer`` shows the run and ``lines`` reads the input."""

    def __init__(self, renderer: Renderer, lines: LineReader, out: TextIO) -> None:
        self._renderer = renderer
        self._lines = lines
        self._out = out

    async def __call__(
        self, question: str, about: str, *, interrupting: bool = False, keys: str = ""
    ) -> str | None:
        """With ``keys``, as ``CommandUI.ask``."""
        question = question_on(self._out, question)
        with self._renderer.paused(), self._pastes_marked():
            if not interrupting:
                self._lines.forget_typed()  # typed before the question, so no answer to it
            self._write(f"\n{escape_invisible(about)}\n{question}" if about else question)
            try:
                if interrupting and (unsent := await until_quiet(self._lines)):
                    self._write(f"\n{unsent}\n{question}")
                if keys and self._renderer.animated:
                    line = await self._lines.key_or_line(keys)
                    self._write("\n" if line is not None and line in keys else "")  # nothing has echoed it
                else:
                    line = await self._lines.next()
            except anyio.get_cancelled_exc_class():
                self._write("\n")  # later output starts on a new line
                raise
            if line is None:
                self._write("\n")
            return line

    @contextmanager
    def _pastes_marked(self) -> Generator[None]:
        # Where nothing is animated, the terminal may not support escape sequences.
        begin, end = (BEGIN_PASTES, END_PASTES) if self._renderer.animated else ("", "")
        self._write(begin)
        try:
            yield
        finally:
            self._write(end)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
