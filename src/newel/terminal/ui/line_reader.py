"""Lines of an input that may be a file, a pipe or a terminal, read without blocking the event loop."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Generator

import anyio
from anyio.lowlevel import checkpoint

from newel.text.lines import LineSplitter

PIECE = 65_536

_PASTE = re.compile(r"\x1b\[20[01]~")


def without_paste(text: str) -> str:
    """A line without the marks that a terminal sets around what is pasted."""
    return _PASTE.sub("", text)


class LineReader:
    """Reads a file descriptor line by line, in bounded memory.

    A line of more than ``limit`` bytes comes as None in ``next``'s place for it: see there.
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
            self._take(await self._read())
        if not self._ready:
            return None
        line = self._ready.popleft()
        if len(line) > self.limit:
            raise ValueError(f"a line of more than {self.limit:,} bytes was skipped")
        return line.removesuffix(b"\r").decode(errors="replace")

    def forget_typed(self) -> None:
        """Drop what a person has typed and nobody has read yet, unfinished lines too: whoever asks a
        question wants an answer to it. What comes from a pipe or a file was not typed, and stays.
        """
        if os.isatty(self.fd):
            import termios

            self._ready.clear()
            self._lines.flush()
            with contextlib.suppress(termios.error):  # the terminal is gone: the next read tells
                termios.tcflush(self.fd, termios.TCIFLUSH)

    async def until_quiet(self, seconds: float) -> str:
        """Wait until nothing has been typed for so long. Returns what was typed until then and nobody has read, unfinished lines
        too; nobody will. What comes from a pipe or a file was not typed: there this returns at once.
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

    def _take(self, piece: bytes) -> None:
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


@contextlib.contextmanager
def _key_by_key(fd: int) -> Generator[None]:
    """Inside, each key of a terminal can be read at once. What nobody has read at the end is dropped."""
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
