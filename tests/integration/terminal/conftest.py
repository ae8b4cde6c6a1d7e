"""Fixtures: a real program on a pty, with a screen that interprets its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.forked import Process, proxy, start
from tests.terminal_waits import PATIENCE, wait_until_accepted, wait_until_painted
from tests.tmux import Tmux

ROOT = str(Path(__file__).parents[3])
PROGRAM = [sys.executable, "-m", "tests.integration.terminal.program"]

_SEQUENCE = re.compile(
    r"\x1b\[(?P<private>[?<=>])?(?P<numbers>[0-9;]*)(?P<action>[A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|\r|\n|[\x07\x08]"
)


class Screen:
    """The parts of a terminal that the program uses: ``lines`` are the scroll-back and the visible part."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.wraps = True
        self._cells: list[list[str]] = [[] for _ in range(rows)]
        self._x = self._y = 0

    @property
    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self._cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    def latest(self, rows: int) -> str:
        """The last rows: much faster to have than a long text."""
        return "\n".join("".join(line).rstrip() for line in self._cells[-rows:])

    def write(self, text: str) -> None:
        at = 0
        for found in _SEQUENCE.finditer(text):
            self._print(text[at : found.start()])
            self._obey(found)
            at = found.end()
        self._print(text[at:])

    def _print(self, text: str) -> None:
        for char in text:
            width = cell_len(char)
            if self._x + width > self.columns:
                if not self.wraps:
                    continue
                self._x = 0
                self._down()
            line = self._cells[self._y]
            line.extend(" " * (self._x - len(line)))
            line[self._x : self._x + width] = [char] + [""] * (width - 1)
            self._x += width

    def _obey(self, found: re.Match[str]) -> None:
        number = int(found["numbers"] or 0) if (found["numbers"] or "0").isdigit() else 0
        match found["action"] or found[0]:
            case "\r":
                self._x = 0
            case "\n":
                self._down()
            case "\x08" | "D":
                self._x = max(self._x - max(number, 1), 0)
            case "A":
                self._y = max(self._y - max(number, 1), len(self._cells) - self.rows)
            case "B":
                self._y = min(self._y + max(number, 1), len(self._cells) - 1)
            case "C":
                self._x = min(self._x + max(number, 1), self.columns - 1)
            case "J":
                del self._cells[self._y][self._x :]
                for line in self._cells[self._y + 1 :]:
                    line.clear()
            case "K":
                del self._cells[self._y][self._x :]
            case "h" | "l" if found["private"] == "?" and number == 7:
                self.wraps = found["action"] == "h"
            case _:
                pass

    def _down(self) -> None:
        self._y += 1
        if self._y == len(self._cells):
            self._cells.append([])


class Terminal:
    """A command on a terminal; ``raw`` is all its output."""

    def __init__(self, command: list[str], cwd: Path, columns: int, rows: int, env: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.slave = slave
        self.screen = Screen(columns, rows)
        self.raw = ""
        self.errors = cwd.parent / "stderr"
        self._pending = b""
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        with self.errors.open("wb") as errors:
            self.process = start(
                command,
                stdin=slave,
                stdout=slave,
                stderr=errors.fileno(),
                cwd=cwd,
                env=env,
                start_new_session=True,
            )

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def answer(self, keys: str) -> None:
        """``send`` to an interrupting question: keys count only after a pause in typing."""
        wait_until_accepted(self.slave, self._look)
        self.send(keys)

    def hang_up(self) -> Path:
        """Close the terminal under the program; returns the file with its standard error."""
        os.close(self.slave)
        os.close(self._master)
        self._master = self.slave = -1
        return self.errors

    def wait_for(self, condition: str | Callable[[], bool], *, painted: bool = True) -> None:
        """Read until the screen shows this text, or the condition holds; and until it is ``painted``, which may be a moment later."""
        holds = (lambda: condition in self.screen.text) if isinstance(condition, str) else condition
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"{condition!r} never came. The screen:\n{self.screen.text}"
            self._read(0.05)
        if painted:
            wait_until_painted(self.process.pid, partial(self._read, 0))

    def watch(self, seconds: float) -> None:
        """Read what the program shows for a while, and all that it has shown by then."""
        until = time.monotonic() + seconds
        while self._read(max(until - time.monotonic(), 0)) or time.monotonic() < until:
            pass

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"The program did not end. The screen:\n{self.screen.text}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:  # never a pid that another process may have by now
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for descriptor in (self._master, self.slave):
            if descriptor >= 0:
                os.close(descriptor)

    def _look(self) -> str:
        self._read(0.02)
        return "\n".join(self.screen.lines[-self.screen.rows :])

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        data = self._pending + os.read(self._master, 65_536)
        # A cut character or sequence waits for its rest.
        end = len(data)
        while end and data[end - 1] >= 0x80 and end > len(data) - 4:
            end -= 1
        if (escape := data.rfind(b"\x1b", max(end - 16, 0), end)) >= 0 and not re.match(
            rb"\x1b(?:\[[?<=>0-9;]*[A-Za-z]|[^\[])", data[escape:end]
        ):
            end = escape
        whole, self._pending = data[:end], data[end:]
        if not whole and self._pending:
            whole, self._pending = self._pending, b""
        text = whole.decode(errors="replace")
        self.raw += text
        self.screen.write(text)
        return True


def environment(home: Path, **extra: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    return {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", "NEWEL_HOME": str(home / ".newel"), **extra}


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts the program in an empty project."""
    opened: list[Terminal] = []
    project = tmp_path / "project"
    project.mkdir()

    def start(*arguments: str, columns: int = 80, rows: int = 24, **env: str) -> Terminal:
        terminal = Terminal([*PROGRAM, *arguments], project, columns, rows, environment(tmp_path, **env))
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program with pipes, from the start of its input to its end."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)

    def run(*arguments: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        process = start(
            [*PROGRAM, *arguments],
            cwd=project,
            env=environment(tmp_path, **env),
            stdin=subprocess.PIPE,
        )
        with process:
            try:
                said = process.communicate(given, timeout=20)
            finally:
                process.kill()
            return subprocess.CompletedProcess(process.args, process.wait(), *said)

    return run


@pytest.fixture
def open_program(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts the program with pipes that stay open."""
    opened: list[Process] = []
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)

    def begin(*arguments: str, **env: Any) -> Process:
        process = start(
            [*PROGRAM, *arguments],
            cwd=project,
            env=environment(tmp_path, **env),
            stdin=subprocess.PIPE,
        )
        opened.append(process)
        return process

    yield begin
    for process in opened:
        process.kill()
        process.communicate()


@pytest.fixture
def at_terminal(tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    """Starts the program on a real terminal, in an empty project."""
    opened: list[Tmux] = []

    def start(
        *words: str, program: list[str] = PROGRAM, columns: int = 80, rows: int = 24, **env: str
    ) -> Tmux:
        variables = [
            f"{name}={value}" for name, value in (environment(tmp_path, PYTHONPATH=ROOT) | env).items()
        ]
        folder = tmp_path / "project"
        folder.mkdir()
        term = "TERM=" + env.get("TERM", "xterm-256color")
        command = ["env", *variables, term, *proxy([*program, *words])]
        opened.append(Tmux(command, folder, dict(os.environ), columns=columns, rows=rows))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.__exit__()
