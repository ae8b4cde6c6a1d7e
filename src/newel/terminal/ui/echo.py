"""Input typed before the prompt is shown."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self


def can_draw() -> bool:
    """Whether there is a terminal that can show a prompt at its bottom."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def unread_bytes(fd: int) -> int:
    """The number of typed bytes that wait to be read; of a terminal in line mode, those of whole lines."""
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def _is_in_foreground(fd: int) -> bool:
    """Whether this process may set a terminal: a shell has not started it with ``&``."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not the controlling terminal, which alone has a foreground
        return True


class EchoSuppressor:
    """Turns off the terminal's echo, so that early input appears at the prompt and not above it. Does nothing without a
    terminal, and in the background, where this would stop the process.
    """

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._usual: Any = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self) -> None:
        if self._before is not None or not can_draw():
            return
        import termios

        fd = sys.stdin.fileno()
        if not _is_in_foreground(fd):
            return
        try:
            before = termios.tcgetattr(fd)
            silent = termios.tcgetattr(fd)
        except termios.error:
            return
        silent[3] &= ~(termios.ECHO | termios.ICANON)  # without line mode, pending input can be counted
        silent[0] &= ~termios.ICRNL  # Enter is not a new line
        self._usual = signal.signal(signal.SIGTERM, self._die)
        self._before = before
        try:
            termios.tcsetattr(fd, termios.TCSANOW, silent)
            self._wipe(fd)
        except termios.error:
            self.end()
        except BaseException:  # above all Ctrl+C: nothing else would restore the terminal
            self.end()
            raise

    def end(self) -> None:
        if self._before is None:
            return
        import termios

        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a second Ctrl+C
        try:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)
            self._before = None
            signal.signal(signal.SIGTERM, self._usual)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _wipe(self, fd: int) -> None:
        """Erase input that was echoed before this program ran; it will appear at the prompt."""
        if unread_bytes(fd):
            with contextlib.suppress(OSError):
                os.write(sys.stdout.fileno(), b"\r\x1b[K")

    def _die(self, number: int, _: FrameType | None) -> None:
        from newel.terminal.signals import die_of

        self.end()
        die_of(signal.Signals(number))
