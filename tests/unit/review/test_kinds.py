"""If these fail, the undo of a run leaves a tree that is neither as it was before nor as the run left it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.review.effects import Run
from newel.review.recorder import Recorder
from newel.review.recording import Recorders
from newel.workspace.local import LocalWorkspace
from newel.workspace.watching import WatchedWorkspace
from tests.properties import examples

pytestmark = pytest.mark.anyio

NAMES = ("a", "b", "c")
PATHS = [*NAMES, *(f"{one}/{two}" for one in NAMES for two in NAMES), "a/b/c", "b/a/b"]

Tree = dict[str, tuple[int, bytes]]


def tree(root: Path) -> Tree:
    """All that is below a folder: modes, contents, where links lead."""
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            data = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else b""
            found[str(path.relative_to(root))] = (mode, path.read_bytes() if stat.S_ISREG(mode) else data)
    return found


def clear(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


def write(root: Path, one: str, other: str) -> None:
    clear(root / one)
    (root / one).write_text(f"{other}\n")


def append(root: Path, one: str, other: str) -> None:
    if (root / one).is_fifo():
        return  # it would wait for a reader
    with (root / one).open("a") as file:
        file.write(f"{other}\n")


def link(root: Path, one: str, other: str) -> None:
    clear(root / one)
    (root / one).symlink_to(other)


def folder(root: Path, one: str, _: str) -> None:
    clear(root / one)
    (root / one).mkdir()


def deep(root: Path, one: str, other: str) -> None:
    (root / one / other).mkdir(parents=True)


def pipe(root: Path, one: str, _: str) -> None:
    clear(root / one)
    os.mkfifo(root / one, 0o640)


def chmod(root: Path, one: str, other: str) -> None:
    if not (root / one).is_symlink():
        (root / one).chmod((0o755, 0o4755, 0o700, 0o1777)[len(other) % 4])


def remove(root: Path, one: str, _: str) -> None:
    clear(root / one)


def move(root: Path, one: str, other: str) -> None:
    (root / one).rename(root / other)


ACTIONS: list[Callable[[Path, str, str], None]] = [
    write, append, link, folder, deep, pipe, chmod, remove, move
]  # fmt: skip
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(PATHS), st.sampled_from(PATHS)), max_size=8
)
Steps = list[tuple[Callable[[Path, str, str], None], str, str]]


def act(root: Path, steps: Steps) -> None:
    for action, one, other in steps:
        with contextlib.suppress(OSError):  # as a command may fail
            action(root, one, other)


async def command(recorder: Recorder, run: Run, work: Callable[[], None]) -> list[str]:
    effect = await recorder.begin(run, None)
    work()
    return await recorder.end(effect)


async def undo(recorder: Recorder) -> None:
    plan = await recorder.project.undo()
    assert plan.conflicts == ()
    await recorder.project.carry_out(plan)


async def back_and_forth(root: Path, home: Path, commands: list[Steps], workspace: WatchedWorkspace) -> None:
    recorders = Recorders(home)
    recorder = await recorders.of(workspace)
    before, run = tree(root), Run("s")
    for steps in commands:
        await command(recorder, run, lambda steps=steps: act(root, steps))
    after = tree(root)
    if after != before:
        await undo(recorder)
        assert tree(root) == before
        await undo(recorder)
        assert tree(root) == after
        await undo(recorder)
        assert tree(root) == before
    recorders.close()


@settings(max_examples=examples(60), deadline=None)
@given(begin=STEPS, commands=st.lists(STEPS, min_size=1, max_size=3))
def test_whatever_commands_make_of_a_tree_is_undone_and_redone_exactly(
    begin: Steps, commands: list[Steps]
) -> None:
    with tempfile.TemporaryDirectory(prefix="newel-kinds-") as place:
        root = Path(place, "project")
        root.mkdir()
        act(root, begin)
        anyio.run(back_and_forth, root, Path(place, "home"), commands, LocalWorkspace(str(root)))
