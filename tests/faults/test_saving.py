"""If these fail, a crash or a full disk during a save makes files and ledger disagree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from newel.review.checkpoints import Checkpoints
from newel.review.project import ProjectReview as Runs
from newel.review.save import OutsideProject
from newel.review.store.ledger import Ledger
from newel.workspace.local import LocalWorkspace
from tests.faults import saving_child
from tests.faults.system_call_faults import KILLED, needs_strace, run_traced
from tests.unit.review.project import Project

pytestmark = pytest.mark.anyio

CALLS = ["fsync", "fdatasync", "rename,renameat,renameat2", "link,linkat", "unlink,unlinkat"]
"""What a save does to the disk."""

Files = dict[str, tuple[bytes, int] | None]
OLD: Files = {"a": (b"1\r\n2\n", 0o640), "b": (b"gone\n", 0o600), "new": None, "tool": (b"#!\n", 0o644)}
NEW: Files = {"a": (b"1\r\ntwo\n", 0o640), "b": None, "new": (b"new", 0o644), "tool": (b"#!\n", 0o755)}


def files(project: Project) -> Files:
    paths = {name: project.folder / name for name in OLD}
    return {
        name: (path.read_bytes(), path.stat().st_mode & 0o777) if path.exists() else None
        for name, path in paths.items()
    }


async def proposed(project: Project) -> None:
    """Four files in their old state, a checkpoint, and accepted but unsaved changes."""
    points = Checkpoints(project.ledger, project.saver)
    point = await points.begin("r")
    for name, there in OLD.items():
        if there:
            project.file(name, *there)
        await points.touch(point.id, name)
    hunks = {
        "a": await project.propose("a", 2, 3, b"two\n"),
        "b": await project.propose("b", 0, 2, None),
        "new": await project.propose("new", 0, 0, b"new"),
        "tool": await project.propose("tool", 0, 1, b"", mode=0o755),
    }
    for name, hunk in hunks.items():
        project.accept(name, hunk)


def killed(folder: Path, what: str, call: str, step: int) -> bool:
    """Run the child until it is killed at its ``step``-th such call; False if it ended before."""
    expressions = [f"trace={call}", f"inject={call}:{KILLED}:when={step}"]
    ended = run_traced("tests.faults.saving_child", [str(folder), what], "/dev/null", expressions)
    assert ended.returncode in {0, -9}, ended.stderr
    assert not ended.left
    return ended.returncode != 0


def copied(origin: Path, folder: Path) -> Project:
    """A copy of the prepared project, to be killed again."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(origin, folder)
    return Project(folder / "project", Ledger.open(folder / "ledger"))


@needs_strace
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("what", ["save", "rollback"])
async def test_a_process_killed_at_any_step_is_completed_by_the_next(
    tmp_path: Path, what: str, call: str
) -> None:
    with Ledger.open(tmp_path / "origin" / "ledger") as ledger:
        project = Project(tmp_path / "origin" / "project", ledger)
        await proposed(project)
        if what == "rollback":
            await project.saver.save(dict.fromkeys(OLD))
    start, end = (OLD, NEW) if what == "save" else (NEW, OLD)
    steps = 0
    while True:
        steps += 1
        project = copied(tmp_path / "origin", tmp_path / "copy")
        with project.ledger:
            is_killed = killed(tmp_path / "copy", what, call, steps)
            left, begun = files(project), project.ledger.intents()
            assert all(left[name] in {start[name], end[name]} for name in OLD)
            await project.saver.recover()
            assert files(project) == (end if begun else left)
            assert project.ledger.intents() == []
            assert all(project.agrees(name) for name in OLD)
            await saving_child.main(tmp_path / "copy", what)
            assert files(project) == end
            assert_saved_once(project, what)
        if not is_killed:
            break
    assert steps > 1


def assert_saved_once(project: Project, what: str) -> None:
    for name in OLD:
        review = project.ledger.get(name)
        assert review.hunks == ()
        assert len({one.id for one in review.applied}) == len(review.applied) == (1 if what == "save" else 2)


async def test_an_undo_killed_before_it_wrote_a_file_is_completed_and_not_undone(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        project = Project(tmp_path / "project", ledger)
        await proposed(project)
        await project.saver.save(dict.fromkeys(OLD))
        undoing = Runs(ledger, LocalWorkspace(str(project.folder)))
        await undoing.checkpoints.rollback(await undoing.undo(), save=True)
        assert files(project) == NEW
    with Ledger.open(tmp_path / "ledger") as ledger:
        project = Project(tmp_path / "project", ledger)
        assert {one.path for one in await project.saver.recover()} == set(OLD)
        assert files(project) == OLD
        again = Runs(ledger, LocalWorkspace(str(project.folder)))
        await again.apply(await again.redo())
        assert files(project) == NEW
        assert ledger.intents() == []


FULL = """
import resource, sys, anyio
from pathlib import Path
from newel.review.save import DiskSync
from newel.review.save_outcome import SaveFailed
from newel.review.store.ledger import Ledger
from newel.workspace.local import LocalWorkspace

async def main():
    folder = Path(sys.argv[1])
    with Ledger.open(folder / "ledger") as ledger:
        saver = DiskSync(ledger, LocalWorkspace(str(folder / "project")))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        try:
            await saver.save(dict.fromkeys(sorted(path.name for path in (folder / "project").iterdir())))
        except SaveFailed as error:
            print(*[one.path for one in error.saved])
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

anyio.run(main)
"""

READ_ONLY = """
import os, sys, anyio
from pathlib import Path
from newel.review.model.edits import edit
from newel.review.model.file_review import Layer
from newel.review.save import DiskSync
from newel.review.save_outcome import SaveFailed
from newel.review.store.ledger import Ledger
from newel.review.model.file_lines import lines_of
from newel.workspace.local import LocalWorkspace

async def main():
    if os.geteuid() == 0:  # root may write anywhere, so be someone else
        os.seteuid(65534)
    with Ledger.open(None) as ledger:
        saver = DiskSync(ledger, LocalWorkspace(sys.argv[1]))
        for path in ("open/locked", "closed/file", "closed/new", "closed/gone"):
            review = await saver.refresh(path)
            lines = () if path.endswith("gone") else lines_of(b"new")
            layer = Layer(origin="user", lines=lines)
            ledger.change(path, "user_edit", lambda now: edit(now, 0, len(now.base), layer, lambda: "h"))
            try:
                await saver.save({path: None})
                print("written", path)
            except SaveFailed as error:
                print(ledger.get(path).hunks != (), ledger.intents(), error)

anyio.run(main)
"""


def told(script: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", script, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


async def test_a_full_disk_stops_a_save_between_files_and_it_can_be_repeated(tmp_path: Path) -> None:
    names, large = [f"f{n:02}" for n in range(40)], "f03"
    (tmp_path / "project").mkdir()

    def sizes(project: Project) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in project.folder.iterdir()}

    with Ledger.open(tmp_path / "ledger") as ledger:
        project = Project(tmp_path / "project", ledger)
        for name in names:
            project.file(name, b"old\n")
            lines = b"x" * 999_999 + b"\n" if name == large else b"new\n"
            await project.propose(name, 2, 2, lines, origin="user")
    saved, message = told(FULL, tmp_path)
    left = [name for name in names if name not in saved]
    assert large in left
    assert message == (
        f"Cannot write {project.folder}/{large}: File too large. Not saved: {', '.join(left)}. "
        f"Saved: {', '.join(saved.split())}."
    )
    with Ledger.open(tmp_path / "ledger") as ledger:
        project = Project(tmp_path / "project", ledger)
        assert sizes(project) == {name: 4 if name in left else 8 for name in names}
        assert {name for name in names if ledger.get(name).hunks} == set(left)
        assert ledger.intents() == []
        await project.saver.save(dict.fromkeys(names))
        assert sizes(project) == {name: 1_000_004 if name == large else 8 for name in names}


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder that another user can enter, with a file and a folder that only its owner could write."""
    folder = Path(tempfile.mkdtemp()).resolve()
    for name in ("open/locked", "closed/file", "closed/gone"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"old")
        path.chmod(0o444)
    for name, mode in (("open", 0o777), ("closed", 0o555), (".", 0o755)):
        (folder / name).chmod(mode)
    yield folder
    (folder / "closed").chmod(0o755)
    shutil.rmtree(folder)


def test_unwritable_files_stay_and_their_hunks_stay_under_review(locked: Path) -> None:
    lines = told(READ_ONLY, locked)
    assert [line.split(":")[0] for line in lines] == [
        f"True [] Cannot write {locked}/open/locked",
        f"True [] Cannot write {locked}/closed/file",
        f"True [] Cannot write {locked}/closed/new",
        f"True [] Cannot remove {locked}/closed/gone",
    ]
    assert all("Permission denied. Not saved: " in line for line in lines)
    assert sorted(path.name for path in locked.rglob("*") if path.is_file()) == ["file", "gone", "locked"]
    assert (locked / "closed" / "gone").read_bytes() == b"old"


async def test_a_folder_swapped_for_a_link_is_not_written_into(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        project = Project(tmp_path / "project", ledger)
        project.file("src/a", b"1\n")
        await project.propose("src/a", 1, 2, b"eins\n", origin="user")
        (project.folder / "src").rename(tmp_path / "outside")
        (project.folder / "src").symlink_to(tmp_path / "outside")
        with pytest.raises(OutsideProject):
            await project.saver.save({"src/a": None})
        assert (tmp_path / "outside" / "a").read_bytes() == b"1\n"
        assert ledger.intents() == []
