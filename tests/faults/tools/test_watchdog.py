"""If these fail, the watchdog leaves commands running after Newel is killed, or ends unrelated ones."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import newel
from tests.processes import is_alive, read_pids
from tests.served import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

NEWEL = Path(newel.__file__).parent

PROGRAM = """
import sys
import anyio
from newel.workspace.local import LocalWorkspace

async def main():
    workspace = LocalWorkspace(".")
    async with anyio.create_task_group() as group:
        async for line in anyio.wrap_file(sys.stdin):
            if line.startswith("&"):
                group.start_soon(workspace.run, line[1:])
            else:
                done = await workspace.run(line)
                print(done.stdout.strip(), flush=True)
        group.cancel_scope.cancel()

anyio.run(main)
"""


class Program:
    """A program with a workspace, which runs the commands that it reads, line by line."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder

    def run(self, command: str) -> str:
        """Run a command to its end; returns its output."""
        self._tell(command)
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, command: str, *names: str) -> list[int]:
        """Start a command that writes pids to files of these names."""
        self._tell(f"&{command}")
        files = [self.folder / name for name in names]
        until(lambda: read_pids(*files))
        return read_pids(*files)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def watchdogs(self) -> list[int]:
        """Its children that are not commands."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"watchdog" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def _tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()


@contextmanager
def started(folder: Path, **environ: str) -> Generator[Program]:
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=folder,
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Program(process, folder)
        finally:
            process.kill()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with started(tmp_path) as program:
        yield program


def until(holds: Callable[[], object]) -> None:
    wait_until(holds, "what the watchdog does")


def is_up(pid: int) -> bool:
    """Whether a watchdog has completed its set-up: it ignores TERM."""
    lines = Path(f"/proc/{pid}/status").read_text().split("\n")
    ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
    return bool(ignored >> (signal.SIGTERM - 1) & 1)


def only_watchdog(program: Program) -> int:
    """The pid of the watchdog, once it is one: between fork and exec it looks like its Newel."""
    until(lambda: len(program.watchdogs) == 1)
    return program.watchdogs[0]


def test_processes_that_will_not_end_are_killed(program: Program) -> None:
    pids = program.start("trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done", "pid")
    program.kill()
    until(lambda: not any(map(is_alive, pids)))


def test_processes_that_cleared_their_environment_end_too(program: Program) -> None:
    """They have no mark, and are known by their session only."""
    pids = program.start("exec env -i sh -c 'echo $$ > pid; exec sleep 1000'", "pid")
    program.run("true")  # by now the session's id is recorded
    program.kill()
    until(lambda: not any(map(is_alive, pids)))


def test_finished_commands_keep_their_background_processes(program: Program) -> None:
    """A development server survives the command that started it, as after a normal exit."""
    pids = program.start("echo $$ > pid; exec sleep 1000", "pid")
    program.run("sleep 1000 > /dev/null 2>&1 & echo $! > left")
    left = int((program.folder / "left").read_text())
    try:
        pids += program.watchdogs
        program.kill()
        until(lambda: not any(map(is_alive, pids)))
        assert is_alive(left)
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_watchdog_that_waits_takes_little_memory(program: Program) -> None:
    program.run("true")
    watchdog = only_watchdog(program)
    until(lambda: is_up(watchdog))
    pages = int(Path(f"/proc/{watchdog}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") < 5 << 20


def test_commands_end_although_newel_was_removed_meanwhile(tmp_path: Path) -> None:
    """As by an update, while it ran."""
    installed = tmp_path / "installed"
    shutil.copytree(NEWEL, installed / "newel", ignore=shutil.ignore_patterns("static"))
    with started(tmp_path, PYTHONPATH=str(installed)) as program:
        assert program.run("echo $PYTHONPATH") == str(installed)
        pids = program.start("trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done", "pid")
        shutil.rmtree(installed)
        program.kill()
        until(lambda: not any(map(is_alive, pids)))


def test_each_of_many_commands_ends(program: Program) -> None:
    for number in range(30):
        program.run("true")
        program.start(f"echo $$ > pid{number}; exec sleep 1000", f"pid{number}")
    pids = [int((program.folder / f"pid{number}").read_text()) for number in range(30)]
    program.kill()
    until(lambda: not any(map(is_alive, pids)))


def test_one_watchdog_serves_all_commands(program: Program) -> None:
    assert program.watchdogs == []
    for _ in range(3):
        program.run("true")
    assert len(program.watchdogs) == 1


def test_a_killed_watchdog_is_replaced_by_one_that_knows_all_commands(program: Program) -> None:
    pids = program.start("echo $$ > early; exec sleep 1000", "early")
    first = only_watchdog(program)
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_alive(first))
    assert program.run("echo goes on") == "goes on"
    second = only_watchdog(program)
    assert second != first
    pids += program.start("echo $$ > late; exec sleep 1000", "late")
    program.kill()
    until(lambda: not any(map(is_alive, [*pids, second])))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_watchdog_outlives_its_newel(program: Program, number: signal.Signals) -> None:
    """Whatever signal the terminal, or a user who ends all processes, sends to it."""
    pids = program.start("echo $$ > pid; exec sleep 1000", "pid")
    watchdog = only_watchdog(program)
    until(lambda: is_up(watchdog))
    os.kill(watchdog, number)
    program.kill()
    until(lambda: not any(map(is_alive, pids)))


def test_a_watchdog_keeps_no_file_of_its_newel_open(tmp_path: Path) -> None:
    """Neither its terminal nor its folder nor inherited files: a reader waiting for their end would wait for both."""
    reads, writes = os.pipe()
    os.set_inheritable(writes, True)
    with (
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            close_fds=False,
        ) as process,
        os.fdopen(reads, "rb"),
    ):
        os.close(writes)
        program = Program(process, tmp_path)
        program.run("true")
        watchdog = only_watchdog(program)
        until(lambda: is_up(watchdog))
        where = Path(f"/proc/{watchdog}")
        held = sorted(str(each.readlink()).partition(":")[0] for each in (where / "fd").iterdir())
        assert held == ["/dev/null", "/memfd", "/memfd", "pipe"]  # the table, and the code
        assert (where / "cwd").readlink() == Path("/")
        assert os.getsid(watchdog) == watchdog
        program.kill()


def test_a_normal_exit_waits_for_nothing_and_leaves_no_watchdog(tmp_path: Path) -> None:
    with started(tmp_path) as program:
        program.run("true")
        watchdog = only_watchdog(program)
        assert program.process.stdin is not None
        program.process.stdin.close()
        assert program.process.wait() == 0
        until(lambda: not is_alive(watchdog))


FORK = """
import os, time
import anyio
from newel.workspace.local import LocalWorkspace

workspace = LocalWorkspace(".")
anyio.run(workspace.run, "true")

async def main():
    async with anyio.create_task_group() as group:
        group.start_soon(workspace.run, "echo $$ > outer; exec sleep 1000")
        while not os.path.exists("outer"):
            await anyio.sleep(0.01)
        if (pid := os.fork()) == 0:
            try:
                anyio.run(workspace.run, "true")
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        if os.fork() == 0:
            os.write(1, b"forked\\n")
            time.sleep(60)
        await anyio.sleep_forever()

anyio.run(main)
"""


def test_a_forked_process_ends_and_protects_only_its_own_commands(tmp_path: Path) -> None:
    """As `multiprocessing` forks: its end must not be ours, nor its life keep our commands alive."""
    with subprocess.Popen(
        [sys.executable, "-c", FORK], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "forked\n"
            outer = int((tmp_path / "outer").read_text())
            assert is_alive(outer)
            process.kill()
            until(lambda: not is_alive(outer))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
