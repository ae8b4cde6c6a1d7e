"""If these fail, a process that a command has left in the sandbox goes on unseen, while an editor opens files by paths that it can
change.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from newel.workspace.process.left_processes import has_others
from newel.workspace.sandbox.git_broker import GitBroker
from newel.workspace.sandbox.landlock import LEAST, landlock_version
from tests.requirements import require_program
from tests.unit.workspace.sandbox.test_sandbox import Place

pytestmark = pytest.mark.anyio

require_program("bwrap", "bubblewrap")

HIDE = """
import ctypes, os, resource, sys, threading, time
resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 50, resource.RLIM_INFINITY))
os.setsid()
if os.fork(): os._exit(0)
os.setsid()
print(os.getpid(), file=open("hidden", "w"), flush=True)
until = time.monotonic() + 20
def wait():
    while time.monotonic() < until and not os.path.exists("stop"): time.sleep(0.01)
if "daemon" in sys.argv: wait()
if "threads" in sys.argv:  # its first thread ends, so that it looks like a zombie
    threading.Thread(target=wait).start()
    ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
while "hops" in sys.argv and time.monotonic() < until and not os.path.exists("stop"):
    if os.fork(): os._exit(0)  # no process lives long
"""


@pytest.fixture(params=["bubblewrap", "partial"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "partial" and landlock_version() < LEAST:
        pytest.skip("this kernel has no Landlock")
    place = Place(Path(os.path.realpath(tmp_path)), is_partial=request.param == "partial")
    yield place
    for sandbox in place.opened:
        sandbox.close()


def until_idle(place: Place) -> bool:
    until = time.monotonic() + 5
    while place.sandbox().may_run() and time.monotonic() < until:
        time.sleep(0.01)
    return not place.sandbox().may_run()


async def test_nothing_runs_before_the_first_command_and_after_one_that_leaves_nothing(place: Place) -> None:
    assert not place.sandbox().may_run()
    for command in ("true", "echo a | cat", "sleep 0.01 & wait"):
        await place.run(command)
        assert until_idle(place), command


async def test_what_runs_counts_until_it_ends(place: Place) -> None:
    await place.run("setsid sleep 20 >/dev/null 2>&1 & echo $! > pid")
    assert place.sandbox().may_run()
    await place.run("kill $(cat pid)")
    assert until_idle(place)


@pytest.mark.parametrize("kind", ["daemon", "threads", "hops"])
async def test_a_process_that_hides_is_found_each_time(place: Place, kind: str) -> None:
    (place.project / "hide.py").write_text(HIDE)
    start = f"env -i {sys.executable} hide.py {kind} >/dev/null 2>&1 &"
    await place.run(f"{start} until [ -s hidden ]; do sleep 0.02; done; sleep 0.2")
    assert all(place.sandbox().may_run() for _ in range(500))
    await place.run("touch stop")
    assert until_idle(place)


async def test_nothing_runs_in_a_sandbox_that_was_closed(place: Place) -> None:
    await place.run("setsid sleep 20 >/dev/null 2>&1 &")
    place.sandbox().close()
    assert not place.sandbox().may_run()


def test_git_that_works_for_a_command_counts_until_it_has_answered(tmp_path: Path) -> None:
    place = Place(Path(os.path.realpath(tmp_path)))
    ours, theirs = socket.socketpair()
    with contextlib.closing(GitBroker(place.policy, "/usr/bin/bwrap", sys.executable)) as broker, ours:
        assert not broker.is_busy()
        with theirs:
            socket.send_fds(broker.theirs, [b"git"], [theirs.fileno()])
        until_true(broker.is_busy)
        ours.close()
        until_true(lambda: not broker.is_busy())


def until_true(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_the_kernel_does_not_tell_counts_as_running() -> None:
    assert has_others(2**22 + 1, 2**22 + 2)
