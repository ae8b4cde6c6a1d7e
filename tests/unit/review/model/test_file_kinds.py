"""If these fail, undoing or redoing a run does not restore the exact tree."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from newel.agent.errors import NewelError
from newel.review.checkpoints import RollbackPlan
from newel.review.project import recent_runs
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effects import TrackedRun
from newel.review.tracking.recording_workspace import RecorderRegistry
from newel.workspace.local import LocalWorkspace
from newel.workspace.ssh.connection import SshConnection
from newel.workspace.ssh.workspace import SshWorkspace
from newel.workspace.tracked import TrackedWorkspace
from tests.host_connection import anyio_backend, connection
from tests.properties import examples
from tests.tracked_operation import begin, end

__all__ = ["anyio_backend", "connection"]

pytestmark = pytest.mark.anyio

NAMES = ("a", "b", "c")
PATHS = [*NAMES, *(f"{one}/{two}" for one in NAMES for two in NAMES), "a/b/c", "b/a/b"]

Tree = dict[str, tuple[int, bytes]]


def tree(root: Path) -> Tree:
    """The content of a folder: modes, contents, targets of links."""
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
        (root / one).chmod((0o755, 0o4755, 0o500, 0o1777)[len(other) % 4])


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


async def command(recorder: ChangeRecorder, run: TrackedRun, work: Callable[[], None]) -> list[str]:
    effect = await begin(recorder, run, None)
    work()
    return await end(effect)


async def undo(recorder: ChangeRecorder) -> None:
    await apply(recorder, await recorder.project.undo())


async def redo(recorder: ChangeRecorder) -> None:
    await apply(recorder, await recorder.project.redo())


async def apply(recorder: ChangeRecorder, plan: RollbackPlan) -> None:
    assert plan.conflicts == ()
    await recorder.project.apply(plan)


async def back_and_forth(root: Path, home: Path, commands: list[Steps], workspace: TrackedWorkspace) -> None:
    recorders = RecorderRegistry(home)
    recorder = await recorders.recorder_of(workspace)
    before, run = tree(root), TrackedRun("s")
    for steps in commands:
        await command(recorder, run, lambda steps=steps: act(root, steps))
    after = tree(root)
    if after != before:
        await undo(recorder)
        assert tree(root) == before
        await redo(recorder)
        assert tree(root) == after
        await undo(recorder)
        assert tree(root) == before
    recorders.close()


@pytest.mark.slow  # seconds of waiting
@settings(max_examples=examples(30), deadline=None)
@example(  # a folder that went with the one in it, and comes back empty, is no new one
    begin=[(deep, "b/a", "a")],
    commands=[[(folder, "b", "a")], [(write, "a", "a"), (folder, "b/a", "a")], [(write, "b/a", "a")]],
)
@given(begin=STEPS, commands=st.lists(STEPS, min_size=1, max_size=3))
def test_any_change_of_a_tree_is_undone_and_redone_exactly(begin: Steps, commands: list[Steps]) -> None:
    with tempfile.TemporaryDirectory(prefix="newel-kinds-") as place:
        root = Path(place, "project")
        root.mkdir()
        act(root, begin)
        anyio.run(back_and_forth, root, Path(place, "home"), commands, LocalWorkspace(str(root)))


@pytest.mark.slow  # random trees on a host
@pytest.mark.parametrize("seed", range(3))
async def test_any_change_of_a_tree_on_a_host_is_undone_and_redone_exactly(
    connection: SshConnection, tmp_path: Path, seed: int
) -> None:
    """Random trees, but the same ones in every run: a host is slow."""
    chance = random.Random(seed)  # noqa: S311 — what a test does

    def steps(most: int) -> Steps:
        return [
            (chance.choice(ACTIONS), chance.choice(PATHS), chance.choice(PATHS))
            for _ in range(chance.randint(2, most))
        ]

    root = tmp_path / "project"
    root.mkdir()
    act(root, steps(8))
    workspace = SshWorkspace(connection, root=str(root))
    await back_and_forth(root, tmp_path / "home", [steps(8), steps(8)], workspace)


@pytest.mark.slow  # a campaign: every pair of kinds, here and on a host
@pytest.mark.parametrize(
    ("begin", "does"),
    [
        ("echo text > d", "rm d; mkdir d; echo > d/q"),
        ("echo text > f", "rm f; ln -s elsewhere f"),
        ("mkdir d; echo x > d/x", "rm -r d; ln -s elsewhere d"),
        ("echo text > f", "rm f; mkfifo f"),
        ("mkdir -p d/e; echo x > d/e/x; mkdir d/empty", "rm -r d; echo file > d"),
        ("mkdir d; echo > d/f; echo x > x", "chmod 1700 d; chmod 4755 x"),
        ("ln -s one link", "ln -sfn two link; ln -s three other"),
        ("ln -s ./one link; echo text > f", "ln -sfn ../two// link; rm f; ln -s ./three/. f"),
        ("ln -s one link", "rm link"),
        ("mkdir -p a/b/c", "rm -r a"),
        ("mkfifo p", "rm p"),
        ("echo > f", "mkdir -p made/of/empty; chmod 700 made"),
        ("mkdir -m 555 locked", "rmdir locked; mkdir -p x/y; echo > x/y/z; rm -r x/y/z"),
    ],
)
@pytest.mark.parametrize("where", ["local", "ssh"])
async def test_each_change_of_kind_is_undone_and_redone(
    connection: SshConnection, tmp_path: Path, where: str, begin: str, does: str
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    sh(root, begin)
    workspace = LocalWorkspace(str(root))
    if where == "ssh":
        workspace = SshWorkspace(connection, root=str(root))
    work: Steps = [(lambda root, does, _: sh(root, does), does, "")]
    await back_and_forth(root, tmp_path / "home", [work], workspace)


async def test_the_target_of_a_link_counts_as_it_was_written(tmp_path: Path) -> None:
    """`./x` and `x` lead to the same file; taken for each other, the link looks changed since, and no undo touches it."""
    root = tmp_path / "project"
    root.mkdir()
    sh(root, "ln -s ./one link; echo text > f")
    work: Steps = [
        (lambda root, does, _: sh(root, does), "ln -sfn ../two// link; rm f; ln -s ./three/. f", "")
    ]
    await back_and_forth(root, tmp_path / "home", [work], LocalWorkspace(str(root)))


def sh(root: Path, text: str) -> None:
    subprocess.run(["sh", "-ec", text], cwd=root, check=True)


async def test_foreign_files_in_a_folder_that_a_run_created_keep_it_and_are_named(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "d").write_text("text\n")
    recorders = RecorderRegistry(tmp_path / "home")
    recorder = await recorders.recorder_of(LocalWorkspace(str(root)))
    await command(recorder, TrackedRun("s"), lambda: sh(root, "rm d; mkdir d; echo > d/q; echo > other"))
    (root / "d/mine").write_text("mine\n")
    plan = await recorder.project.undo()
    assert [conflict.reason for conflict in plan.conflicts] == [
        "d: the folder stays, because d/mine is in it."
    ]
    await recorder.project.apply(plan)
    assert tree(root) == {"d": tree(root)["d"], "d/mine": (0o100644, b"mine\n")}
    (root / "d/mine").unlink()
    await undo(recorder)  # the rest
    assert (root / "d").read_text() == "text\n"
    recorders.close()


async def test_no_undo_writes_through_a_planted_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    (root / "d").mkdir(parents=True)
    (root / "d/f").write_text("old\n")
    (outside / "e").mkdir(parents=True)
    recorders = RecorderRegistry(tmp_path / "home")
    recorder = await recorders.recorder_of(LocalWorkspace(str(root)))
    await command(recorder, TrackedRun("s"), lambda: sh(root, "rm -r d; mkdir -m 700 e"))
    (root / "d").symlink_to(outside)
    (root / "e").rmdir()
    (root / "e").symlink_to(outside / "e")
    with contextlib.suppress(NewelError):
        plan = await recorder.project.undo()
        assert plan.conflicts
        await recorder.project.apply(plan)
    assert sorted(os.listdir(outside)) == ["e"]  # noqa: PTH208
    assert (root / "d").is_symlink()
    assert (root / "e").is_symlink()
    recorders.close()


async def test_a_review_describes_each_change(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    sh(root, "echo text > f; echo x > x; ln -s one link; mkdir gone")
    recorders = RecorderRegistry(tmp_path / "home")
    recorder = await recorders.recorder_of(LocalWorkspace(str(root)))
    work = "rm f; mkdir f; chmod 4755 x; ln -sfn two link; rmdir gone; mkfifo p; ln -s three new"
    await command(recorder, TrackedRun("s"), lambda: sh(root, work))
    [run] = await recent_runs(recorder.project, limit=1)
    assert {file.file_path: (file.kind, file.change, file.about) for file in run.files} == {
        "f": ("folder", "kind", "file became a folder"),
        "x": ("file", "mode", "mode 644 → 4755"),
        "link": ("link", "modified", "symbolic link → two"),
        "gone": ("folder", "deleted", "folder removed"),
        "p": ("pipe", "created", "new named pipe"),
        "new": ("link", "created", "new symbolic link → three"),
    }
    patches = {file.file_path: file.patch for file in run.files}
    assert "deleted file mode 100644" in patches["f"]
    assert "new file mode 040755" in patches["f"]
    assert "old mode 100644\nnew mode 104755" in patches["x"]
    assert patches["link"].endswith(
        "-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n"
    )
    recorders.close()
