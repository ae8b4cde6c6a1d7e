"""What a program costs: one that ends by itself, and one on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

PATIENCE_S = 120.0


class Figure(NamedTuple):
    """Seconds of time and of processor time, and the largest resident size in MiB."""

    wall: float
    cpu: float
    memory: float

    def tell(self, name: str, limit: str = "") -> None:
        print(f"{name:44}{self.wall:8.2f}{self.cpu:8.2f}{self.memory:8.0f}   {limit}".rstrip(), flush=True)


def heading(name: str) -> str:
    return f"\n{name:44}    wall     cpu     MiB   limit"


def median(figures: Sequence[Figure]) -> Figure:
    return Figure(*(statistics.median(column) for column in zip(*figures, strict=True)))


def measure(command: Sequence[str], *, cwd: Path, environ: Mapping[str, str]) -> Figure:
    """Run a command with the standard output of a script to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=cwd, env=environ, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Figure(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class PseudoTerminal:
    """Runs a command, and keeps each output with the time at which it arrived. Without ``echoes``, the terminal itself echoes nothing;
    ``early`` is typed before the program begins. Leaving the block kills the program.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        columns: int = 120,
        rows: int = 40,
        echoes: bool = True,
        early: str = "",
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if not echoes:
            attributes = termios.tcgetattr(slave)
            attributes[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, attributes)
        self.send(early)
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=environ, start_new_session=True
        )
        os.close(slave)
        self.output = ""
        self.chunks: list[tuple[float, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read(self, seconds: float) -> None:
        """Read for a time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self._read(left):
            pass

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            text = os.read(self._master, 2**16).decode(errors="replace")
        except OSError:  # the program has ended
            return False
        self.chunks.append((time.monotonic(), text))
        self.output += text
        return True

    def wait_for(self, words: str, *, since: int = 0) -> float:
        """Read until the words come after the first ``since`` characters of the output; returns the time."""
        until = time.monotonic() + PATIENCE_S
        while words not in self.output[since:]:
            if time.monotonic() > until or (not self._read(0.5) and self.process.poll() is not None):
                raise SystemExit(f"{words!r} never came:\n{self.output[-2000:]}")
        return time.monotonic()

    def first(self, words: str, since: float) -> float:
        """When the words came first, from a time on."""
        return next((at for at, text in self.chunks if at >= since and words in text), float("nan"))

    def cpu(self) -> float:
        """Seconds of processor time so far, without child processes."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self, what: str = "VmHWM") -> float:
        """MiB at their peak, or as ``VmRSS`` now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == what:
                return int(value.split()[0]) / 1024
        return float("nan")
