"""If these fail, the status line calls a clean tree changed or the other way round, or a look at a hostile repository runs its programs."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from newel.workspace.git_changes import has_changes

pytestmark = pytest.mark.anyio

Git = Callable[..., None]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    folder = tmp_path / "project"
    folder.mkdir()

    def run(*args: str) -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)

    run("init", "--quiet")
    (folder / "a.txt").write_text("one\n")
    run("add", ".")
    run("commit", "--quiet", "-m", "One")
    return run


async def test_changed_new_and_staged_files_are_changes_and_ignored_ones_are_not(
    git: Git, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    assert await has_changes(str(folder)) is False
    (folder / "a.txt").write_text("two\n")
    assert await has_changes(str(folder)) is True
    git("add", ".")
    assert await has_changes(str(folder)) is True
    git("commit", "--quiet", "-m", "Two")
    (folder / ".git" / "info" / "exclude").write_text("*.log\n")
    (folder / "run.log").write_text("x")
    assert await has_changes(str(folder)) is False
    (folder / "new").write_text("x")
    assert await has_changes(str(folder)) is True


async def test_without_a_repository_there_is_no_answer(tmp_path: Path) -> None:
    assert await has_changes(str(tmp_path)) is None


async def test_no_program_of_the_repository_runs(git: Git, tmp_path: Path) -> None:
    """Git runs filters, a file system monitor and hooks while it looks for changes."""
    folder, ran = tmp_path / "project", tmp_path / "ran"
    program = tmp_path / "hostile"
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (folder / ".gitattributes").write_text("*.txt filter=a.b=c\n")
    (folder / ".git" / "info" / "attributes").write_text("*.txt filter=other\n")
    for key in ("filter.a.b=c.clean", "filter.other.process", "filter.other.clean", "core.fsmonitor"):
        git("config", key, str(program))
    git("config", "filter.other.required", "true")
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (folder / ".git" / "hooks" / hook).write_text(program.read_text())
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    (folder / "a.txt").write_text("two\n")  # as long as before, so git has to look inside
    os.utime(folder / "a.txt", (1, 1))
    ran.unlink(missing_ok=True)
    assert await has_changes(str(folder)) is True
    assert not ran.exists()


async def test_no_program_runs_that_stands_behind_a_million_other_settings(git: Git, tmp_path: Path) -> None:
    folder, ran = tmp_path / "project", tmp_path / "ran"
    (folder / ".gitattributes").write_text("*.txt filter=evil\n")
    with (folder / ".git" / "config").open("a") as config:
        config.write("[a]\n" + "".join(f"\tb{number:060} = 1\n" for number in range(20_000)))
        config.write(f'[filter "evil"]\n\tclean = touch {ran}; cat\n')
    (folder / "a.txt").write_text("two\n")
    os.utime(folder / "a.txt", (1, 1))
    assert not await has_changes(str(folder))  # no answer, or none that took the filter
    assert not ran.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel keeps programs from running")
async def test_no_program_runs_that_is_named_while_git_is_at_work(git: Git, tmp_path: Path) -> None:
    """In a project without a repository, a command in the sandbox may make one, and change its settings whenever they are read."""
    folder, ran = tmp_path / "project", tmp_path / "ran"
    names = [f"evil{number}" for number in range(200)]
    (folder / ".gitattributes").write_text("".join(f"{name}.txt filter={name}\n" for name in names))
    for name in names:
        (folder / f"{name}.txt").write_text("one\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "Two")
    git("config", "core.checkStat", "minimal")
    plain = (folder / ".git" / "config").read_bytes()
    ended = threading.Event()

    def change_settings() -> None:
        for name in itertools.cycle(names):
            if ended.is_set():
                return
            new = folder / ".git" / "new"
            new.write_bytes(plain + f'[filter "{name}"]\n\tclean = touch {ran}; cat\n'.encode())
            new.replace(folder / ".git" / "config")

    changing = threading.Thread(target=change_settings)
    changing.start()
    try:
        for _ in range(3):
            for name in names:
                (folder / f"{name}.txt").write_text("two\n")
            await has_changes(str(folder))
    finally:
        ended.set()
        changing.join()
    assert not ran.exists()


async def test_a_tree_with_more_changes_than_a_pipe_holds_is_answered_at_once(
    git: Git, tmp_path: Path
) -> None:
    for number in range(2_000):
        (tmp_path / "project" / f"{number:05}{'x' * 100}").touch()
    with anyio.fail_after(5):
        assert await has_changes(str(tmp_path / "project")) is True


async def test_many_looks_print_nothing(git: Git, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, warnings of the event loop about git stand in the middle of the conversation."""
    (tmp_path / "project" / "a.txt").write_text("two\n")
    for _ in range(50):
        assert await has_changes(str(tmp_path / "project"))
    assert not caplog.records


async def test_a_look_that_is_given_up_leaves_no_git(git: Git, tmp_path: Path) -> None:
    (tmp_path / "project" / ".git" / "info" / "exclude").unlink(missing_ok=True)
    before = children()
    for _ in range(5):
        with anyio.move_on_after(0.001):
            await has_changes(str(tmp_path / "project"))
    assert children() <= before


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
