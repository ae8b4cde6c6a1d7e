"""Reads lines from a file, pipe or terminal without blocking the event loop."""

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
