"""A real terminal: tmux, with a server of its own that reads no configuration."""

from __future__ import annotations

import os
import signal
import subprocess
import termios
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Self

from tests.forked import PROXY, is_forkable, pid_behind, proxy
from tests.processes import is_alive
from tests.requirements import require_program
from tests.terminal_waits import PATIENCE, wait_until_accepted, wait_until_painted


class Tmux:
    """A command on a terminal in tmux; ``folder`` gets the server's socket. A command of ours is forked; behind ``env`` it
    starts as a user starts it.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        *,
        columns: int = 80,
        rows: int = 50,
    ) -> None:
        self._tmux = [require_program("tmux"), "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._env = {**env, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        if is_forkable(command, self._env):
            command = proxy(command)
        self._is_behind_proxy = str(PROXY) in command
        # Before there is a session: a command may end at once, and its screen and the server with it.
        keep = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"]
        size = ["-x", str(columns), "-y", str(rows)]
        numbers = ["-P", "-F", "#{pid} #{pane_pid}"]
        begun = self._run(*keep, "new-session", "-d", *numbers, *size, "-c", str(folder), *command)
        self._server, self._pane = map(int, begun.split())
        self._captured: dict[tuple[str, ...], tuple[str, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the command and the server, whose socket another one may use."""
        self._run("kill-server")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if subprocess.run([*self._tmux, "has-session"], capture_output=True, check=False).returncode:
                return
            time.sleep(0.01)

    @property
    def text(self) -> str:
        """The scroll-back and the visible lines, without trailing space."""
        lines = self._capture("-S", "-").split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip()

    @property
    def view(self) -> str:
        """The visible lines."""
        return "\n".join(line.rstrip() for line in self._capture().split("\n")).rstrip()

    @property
    def painted(self) -> list[str]:
        """The visible lines, with their colour codes."""
        return self._capture("-e").rstrip().split("\n")

    @property
    def echoes(self) -> bool:
        """Whether the terminal itself echoes typed characters."""
        with self._tty() as tty:
            return bool(termios.tcgetattr(tty)[3] & termios.ECHO)

    @cached_property
    def pid(self) -> int:
        """The pid of the command."""
        return pid_behind(self._pane) if self._is_behind_proxy else self._pane

    @property
    def ended(self) -> bool:
        return self._run("display-message", "-p", "#{pane_dead}").strip() == "1"

    def type(self, words: str, *keys: str) -> None:
        """Type text verbatim, and then press keys: ``Enter``, ``Tab``, ``Escape``, ``C-c``."""
        if words:
            self._run("send-keys", "-l", "--", words)
        if keys:
            self._run("send-keys", *keys)

    def answer(self, words: str, *keys: str) -> None:
        """``type`` to an interrupting question: keys count only after a pause in typing."""
        with self._tty() as tty:
            wait_until_accepted(tty, self._look)
        self.type(words, *keys)

    def kill(self, name: str) -> None:
        """Send the command a signal, by its name."""
        os.kill(self.pid, signal.Signals[name])

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))
        self._captured.clear()

    def wait_for(self, words: str, *, times: int = 1) -> None:
        """Wait until the text occurs this often and the screen is painted."""
        until = time.monotonic() + PATIENCE
        while (text := self.text).count(words) < times:
            assert time.monotonic() < until, f"{words!r} never came. The screen:\n{text}"
            time.sleep(0.03)
        seen = text

        def changed() -> bool:
            nonlocal seen
            before, seen = seen, self.text
            return seen != before

        wait_until_painted(self.pid, changed)

    def wait_for_end(self) -> None:
        until = time.monotonic() + PATIENCE
        while is_alive(self.pid) or not self.ended:
            assert time.monotonic() < until, f"It did not end. The screen:\n{self.text}"
            time.sleep(0.03)

    def _look(self) -> str:
        time.sleep(0.02)
        return self.view

    @contextmanager
    def _tty(self) -> Generator[int]:
        """A descriptor of the command's terminal."""
        tty = os.open(self._run("display-message", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        try:
            yield tty
        finally:
            os.close(tty)

    def _capture(self, *options: str) -> str:
        """The screen. A client of the server is started only if there is something new: tests look many times a second."""
        read = self._read()
        before, screen = self._captured.get(options, ("", ""))
        if not read or read != before:
            screen = self._run("capture-pane", "-p", *options)
            self._captured[options] = read, screen
        return screen

    def _read(self) -> str:
        """How much the server has read, which is what the command has written; empty where the system does not say it."""
        try:
            return Path(f"/proc/{self._server}/io").read_text().partition("\n")[0]
        except OSError:
            return ""

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words], env=self._env, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout
