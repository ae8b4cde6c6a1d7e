"""The user's terminal while a command of the user's own has it: every key is the command's, and afterwards the terminal is as it was."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import termios
import tty
from types import TracebackType
from typing import Any, Final, Self

import anyio

from newel.text.terminal_output import OTHER_SCREEN, find_switches, split_open

_BLOCK: Final = 4096
_TAIL: Final = 256
"""Characters in which the last line's end is looked for."""

_USUAL: Final = frozenset({"7", "25"})
"""Modes that are on in a terminal that nobody has changed: lines wrap, the cursor is shown."""

_RESET: Final = frozenset(
    {"1", "7", "25", "1000", "1002", "1003", "1004", "1005", "1006", "1015", "2004", "2026", *OTHER_SCREEN}
)
"""The modes of keys, wrapping, cursor, mouse, focus, pasting and screens, which a program that was killed leaves behind."""

_PLAIN: Final = "\x1b[0m\x1b(B\x0f\x1b>\x1b7\x1b[r\x1b8"
"""No colours, the usual characters and keypad, and all rows scroll."""

_INVISIBLE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|[\x0e\x0f]")


class UserTerminal:
    """Implements ``newel.workspace.port.CommandTerminal`` inside of its context."""

    def __init__(self, keys: int, screen: int) -> None:
        self._keys = keys
        self._screen = screen
        self._before: list[Any] | None = None
        self._changed: set[str] = set()
        """Modes that differ from the usual ones."""
        self._held = self._tail = ""

    def __enter__(self) -> Self:
        with contextlib.suppress(termios.error):  # the terminal is gone
            self._before = termios.tcgetattr(self._keys)
            tty.setraw(self._keys, termios.TCSANOW)  # what was typed ahead is for the command
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A screen that was left sits between the modes of the other one: back to the first one before anything else.
        modes = sorted(self._changed & _RESET, key=lambda mode: mode not in OTHER_SCREEN)
        back = "".join(f"\x1b[?{mode}{'h' if mode in _USUAL else 'l'}" for mode in modes)
        line_end = "" if self._is_at_line_start() else "\r\n"
        self.write(f"{back}{_PLAIN}{line_end}".encode())
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSANOW, self._before)

    async def read(self) -> bytes:
        await anyio.wait_readable(self._keys)
        try:
            return os.read(self._keys, _BLOCK)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        self._track(data)
        rest = memoryview(data)
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(self._screen, rest) :]

    def fit(self, descriptor: int, *, settings: bool = False) -> None:
        with contextlib.suppress(OSError, termios.error):
            if settings and self._before is not None:
                termios.tcsetattr(descriptor, termios.TCSANOW, self._before)
            size = fcntl.ioctl(self._screen, termios.TIOCGWINSZ, bytes(8))
            if size != fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8)):
                fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)

    def _track(self, data: bytes) -> None:
        text, self._held = split_open(self._held + data.decode(errors="replace"))
        left = 0
        for switch in find_switches(text):
            differ = {mode for mode in switch.modes if switch.is_on != (mode in _USUAL)}
            self._changed = (self._changed - set(switch.modes)) | differ
            if not switch.is_on and not OTHER_SCREEN.isdisjoint(switch.modes):
                left = switch.end  # the cursor is where it was before the other screen
        self._tail = text[left:][-_TAIL:] if left else (self._tail + text)[-_TAIL:]

    def _is_at_line_start(self) -> bool:
        tail = _INVISIBLE.sub("", self._tail)
        return not tail or tail.endswith("\n")
