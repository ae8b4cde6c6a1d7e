"""Runs a program that dies, or gets an error from the system, at one of its system calls on files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.forked import start
from tests.processes import read_proc

ROOT = Path(__file__).resolve().parents[2]
STRACE = shutil.which("strace")
CALLS = (
    "openat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,ftruncate,"
    "mkdir,mkdirat,fchmod"
)
END_S = 25.0
"""Seconds in which a program must end."""
GRACE_S = 10.0
"""Seconds in which all that it has started must end after it."""
ALL = "FAULTS_AT_EVERY_STEP" in os.environ
KILLED = "signal=SIGKILL"


def require_tracing() -> bool:
    """Skip the tests if the system forbids tracing or has no strace; without strace they fail if
    ``NEWEL_TESTS_NEED_ALL`` is set.
    """
    if STRACE is None:
        return "NEWEL_TESTS_NEED_ALL" in os.environ
    return (
        subprocess.run([STRACE, "-o", "/dev/null", "true"], check=False, capture_output=True).returncode == 0
    )


needs_strace = pytest.mark.skipif(
    not require_tracing(),
    reason="strace is not allowed here" if STRACE else "needs strace: `apt-get install strace`",
)

_CALL = re.compile(r"^(\d+) +(\w+)\((.*)")


class Step(NamedTuple):
    """The ``number``-th ``call`` of a thread."""

    call: str
    number: int


class Traced(NamedTuple):
    """How a program ended, and the processes that did not end with it."""

    returncode: int
    stdout: str
    stderr: str
    left: Sequence[str]


class Outcome(NamedTuple):
    """How a program ended, its output, whether the fault occurred within its folder, and the processes that did not end."""

    said: str
    complained: str
    killed: bool
    at: str
    left: Sequence[str]

    @contextlib.contextmanager
    def noted(self, fault: str) -> Generator[None]:
        """Errors raised within mention the fault. Raises ``AssertionError`` if processes did not end."""
        try:
            yield
            assert not self.left, self.left
        except Exception as error:
            error.add_note(f"{fault}\n{self.at}\n{self.said}\n{self.complained[-3000:]}")
            raise


def steps(
    folder: Path, module: str, *words: str, calls: str = CALLS, place: Path | None = None
) -> list[Step]:
    """A program's system calls on files below a folder, in order; it works on ``place`` if that is another one."""
    place = place or folder
    trace = place.parent / "steps.trace"
    ran = run_traced(module, [str(place), *words], trace, [f"trace={calls}"])
    assert ran.returncode == 0, ran.stderr
    return list(_found(trace, folder))


def _found(trace: Path, folder: Path) -> dict[Step, str]:
    count: Counter[tuple[str, str]] = Counter()
    found: dict[Step, str] = {}
    for line in trace.read_text(errors="replace").splitlines():
        if match := _CALL.match(line):
            thread, call, rest = match.groups()
            count[thread, call] += 1
            if f"{folder}/" in rest or f"{folder}>" in rest:
                found.setdefault(Step(call, count[thread, call]), line)
    return found


def sample(found: Sequence[Step], most: int) -> list[Step]:
    """A selection of steps, spread over all; all of them if the environment asks for that."""
    if ALL or len(found) <= most:
        return list(found)
    return [found[number * len(found) // most] for number in range(most)]


def run_with_fault(
    fault: str, step: Step, folder: Path, module: str, *words: str, calls: str = CALLS
) -> Outcome:
    """Run a program with a fault at one of its steps; ``fault`` is an expression of strace."""
    trace = folder.parent / "fault.trace"
    inject = f"inject={step.call}:{fault}:when={step.number}"
    ended = run_traced(module, [str(folder), *words], trace, [f"trace={calls}", inject])
    killed = ended.returncode == -9
    lines = trace.read_text(errors="replace").splitlines()
    hit = [line for line in lines if "(INJECTED)" in line] or (lines[-3:] if killed else [])
    return Outcome(ended.stdout, ended.stderr, killed, "\n".join(hit), ended.left)


def run_traced(module: str, words: Sequence[str], trace: Path | str, expressions: Sequence[str]) -> Traced:
    """Run a module with these expressions of strace, from the end of its imports (``wait_for_tracer``). All that it leaves is killed."""
    assert STRACE is not None
    with start(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        stdin=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        options = [part for each in expressions for part in ("-e", each)]
        with subprocess.Popen(
            [STRACE, "-f", "-y", "-o", str(trace), *options, "-p", str(program.pid)],
            stderr=subprocess.PIPE,
            text=True,
        ) as strace:
            assert strace.stderr is not None
            attached = strace.stderr.readline()
            assert attached.endswith("attached\n"), attached
            try:
                said, complained = program.communicate("\n", timeout=END_S)
            except subprocess.TimeoutExpired:
                said, complained = "", f"it did not end within {END_S:.0f} s"
            left = end_traced(strace)
        return Traced(program.wait(), said, complained, left)


def end_traced(strace: subprocess.Popen[str]) -> list[str]:
    """Wait for the end of all processes that strace follows; returns those that were killed because they did not end."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        strace.communicate(timeout=GRACE_S)
    if strace.returncode is not None:
        return []
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    left = [pid for pid in pids if f"\nTracerPid:\t{strace.pid}\n" in read_proc(pid, "status")]
    described = [f"process {pid}: {read_proc(pid, 'cmdline')[:120]}" for pid in left]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    strace.communicate(timeout=END_S)
    return described
