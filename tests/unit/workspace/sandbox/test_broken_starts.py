"""If these fail, a sandbox that breaks while it starts leaves a process behind for ever, or makes Newel wait for one.

bubblewrap is two processes: the outer one clones the inner one, and lets it go on a little later. If the outer one ends in between, the
inner one waits for a word that never comes, before it has asked the kernel to end with its parent.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from newel.agent.errors import WorkspaceError
from newel.workspace.sandbox.confinement import (
    BubblewrapConfinement,
    FindPolicy,
    LaunchSpec,
    find_bubblewrap,
)
from newel.workspace.sandbox.git_broker import GitBroker
from newel.workspace.sandbox.policy import SandboxPolicy
from newel.workspace.sandbox.sandbox import START_S, Sandbox
from tests.processes import ends, read_proc
from tests.requirements import require_program
from tests.unit.workspace.sandbox.test_git_broker import Repository

require_program("bwrap", "bubblewrap")

FEW = range(4, 20)
"""Numbers of descriptors: with the least of them bubblewrap starts nothing, with the most all works, and in between its outer process fails
when the inner one is already there.
"""


class BrokenConfinement(BubblewrapConfinement):
    """bubblewrap, started by some text of sh."""

    def __init__(self, text: str) -> None:
        self._text = text

    def confine(
        self, find_policy: FindPolicy, policy: SandboxPolicy, server: int, stack: ExitStack
    ) -> LaunchSpec:
        confined = super().confine(find_policy, policy, server, stack)
        return msgspec.structs.replace(confined, argv=["sh", "-c", self._text, "sh", *confined.argv])


def processes_of(folder: Path) -> list[int]:
    """The processes whose command lines name a folder."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if str(folder) in read_proc(pid, "cmdline")]


def assert_gone(folder: Path, after: object) -> None:
    left = [f"{pid}: {read_proc(pid, 'cmdline')[:80]}" for pid in processes_of(folder) if not ends(pid)]
    assert not left, (after, left)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    project = Path(os.path.realpath(tmp_path)) / "project"
    project.mkdir()
    yield project
    for pid in processes_of(project):
        os.kill(pid, 9)


def start(project: Path, text: str) -> str:
    """Start a command; returns why that failed."""
    policy = SandboxPolicy(home=str(project.parent / "home"), writable=[str(project)], readable=[sys.prefix])
    sandbox = Sandbox(lambda: policy, BrokenConfinement(text))
    try:
        process = sandbox.start(
            ["true"], cwd=str(project), env={"PATH": os.defpath}, streams=(0, 1, 2), mark="0" * 16
        )
        assert process.wait(5) == 0
    except (WorkspaceError, OSError) as error:
        return str(error)
    finally:
        sandbox.close()
    return ""


def test_bubblewrap_that_fails_half_way_leaves_nothing(project: Path) -> None:
    failures: list[str] = []
    for number in FEW:
        failures.append(start(project, f'ulimit -n {number} && exec "$@"'))
        assert_gone(project, failures)
    assert "Too many open files" in failures[0]
    assert failures[-1] == ""


@pytest.mark.parametrize("end", ["exit 1", "kill -9 $$"])
def test_its_first_process_ends_and_the_second_one_waits(project: Path, end: str) -> None:
    """The second one holds all that Newel would wait for: the socket, and the pipe with the messages."""
    os.mkfifo(project / "never")
    began = time.monotonic()
    failure = start(project, f"""sh -c ': <"$0"' '{project}/never' & {end}""")
    assert "could not be started" in failure
    assert_gone(project, end)
    assert time.monotonic() - began < START_S  # it has not waited for the second one


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("HOME", str(repository.home))
    yield repository
    for pid in processes_of(repository.home):
        os.kill(pid, 9)


def test_git_whose_sandbox_fails_half_way_leaves_nothing(repository: Repository) -> None:
    """Nor does it keep the next git waiting."""
    program = repository.home.parent / "bwrap"
    exits: list[int] = []
    for number in FEW:
        program.write_text(f'#!/bin/sh\nulimit -n {number} && exec {find_bubblewrap()} "$@"\n')
        program.chmod(0o755)
        broker = GitBroker(repository.policy, str(program), sys.executable)
        try:
            exits.append(ask_git(broker, str(repository.top), ["tag", f"tag-{number}"]))
        finally:
            broker.close()
        assert_gone(repository.home, exits)
    assert exits[0] != 0
    assert exits[-1] == 0


def ask_git(broker: GitBroker, folder: str, argv: Sequence[str]) -> int:
    """Ask as the program inside does; returns git's exit code."""
    ours, theirs = socket.socketpair()
    with ours, theirs, Path(os.devnull).open("rb") as stdin:
        ours.settimeout(10)
        socket.send_fds(broker.theirs, [b"git"], [theirs.fileno()])
        theirs.close()
        request = json.dumps({"argv": argv, "cwd": folder, "env": {}}).encode()
        socket.send_fds(ours, [len(request).to_bytes(8, "big")], [stdin.fileno()])
        ours.sendall(request)
        with ours.makefile("rb") as answer:
            return int(json.loads(answer.readline())["exit"])
