"""Calls the user back when Newel has finished or asks: by the title of the window, and, if another window is in front, by a bell, by the
terminal's own notification, and by a program of the user's.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output

from newel.terminal.ui.key_dispatch import on_key
from newel.text.format import format_duration, one_line
from newel.workspace.process.own_programs import own_environ

LONG_S: Final = 20.0
"""Seconds after which the user may have turned to something else."""

FOCUS_IN, FOCUS_OUT = Keys.ControlF23, Keys.ControlF24
"""Keys that no keyboard has, for what a terminal reports of its window."""

_WATCH, _UNWATCH = "\x1b[?1004h", "\x1b[?1004l"
_SAVE_TITLE, _RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"
_WORDS: Final = 120


def know_focus_keys() -> None:
    """Let what a terminal reports of its window arrive as keys."""
    ANSI_SEQUENCES["\x1b[I"], ANSI_SEQUENCES["\x1b[O"] = FOCUS_IN, FOCUS_OUT


class Attention:
    """``program`` and its arguments are started with a message as the last argument; ``complain`` shows that this failed. ``name`` is that
    of the conversation, in the title.
    """

    def __init__(
        self,
        output: Output,
        name: str,
        program: Sequence[str],
        complain: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._name = one_line(name, 60)
        self._program = program
        self._complain = complain
        self._clock = clock
        self._is_in_front: bool | None = None
        """None: the terminal has not told."""
        self._since: float | None = None
        self._started: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """The conversation has the terminal from now on."""
        know_focus_keys()
        self._write(_SAVE_TITLE + _WATCH)
        self._set_title("")

    def end(self) -> None:
        """The terminal is given back."""
        self._write(_UNWATCH + _RESTORE_TITLE)

    def pause(self) -> None:
        """Another program has the terminal for a while."""
        self._write(_UNWATCH)

    def resume(self) -> None:
        self._write(_WATCH)

    def bind(self, bindings: KeyBindings) -> None:
        """Hear of the window's focus, which arrives as keys."""
        for key, is_in_front in ((FOCUS_IN, True), (FOCUS_OUT, False)):
            bindings.add(key)(on_key(partial(self.set_focus, is_in_front)))

    def set_focus(self, is_in_front: bool) -> None:
        self._is_in_front = is_in_front

    def set_working(self, is_working: bool) -> None:
        """Work begins, or has ended."""
        if is_working:
            self._since = self._clock() if self._since is None else self._since
            self._set_title("● ")
            return
        self._set_title("")
        since, self._since = self._since, None
        if since is not None and (elapsed := self._clock() - since) >= LONG_S:
            self._call(f"finished after {format_duration(elapsed * 1000)}")

    @contextmanager
    def asking(self, question: str) -> Generator[None]:
        """Inside, the user is asked something that they did not expect."""
        self._set_title("? ")
        self._call(question)
        try:
            yield
        finally:
            self._set_title("" if self._since is None else "● ")

    def _set_title(self, mark: str) -> None:
        self._output.set_title(f"{mark}{self._name}")
        self._output.flush()

    def _call(self, words: str) -> None:
        if self._is_in_front:
            return
        message = one_line(f"{self._name}: {words}", _WORDS)
        self._write(f"\a\x1b]9;{message}\x1b\\")
        self._started = [process for process in self._started if process.poll() is None]
        if not self._program:
            return
        try:
            self._started.append(
                subprocess.Popen(
                    [*self._program, message],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=own_environ(),
                    start_new_session=True,
                )
            )
        except OSError as error:
            self._complain(
                f"[terminal] notify in config.toml cannot be started: {error.strerror}: {self._program[0]}"
            )

    def _write(self, text: str) -> None:
        self._output.write_raw(text)
        self._output.flush()
