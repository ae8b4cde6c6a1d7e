"""If these fail, undoing a run leaves its empty folders behind, or removes somebody else's."""

from __future__ import annotations

import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from newel.review.checkpoints import Checkpoints
from newel.review.folders import remove_empty
from newel.review.store.ledger import Ledger
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effects import TrackedRun
from newel.workspace.local import LocalWorkspace
from tests.tracked_operation import begin, end
from tests.unit.review.project import Project

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "old").mkdir(parents=True)
    return folder


@pytest.fixture
async def recorder(root: Path, tmp_path: Path) -> AsyncIterator[ChangeRecorder]:
    recorder = await ChangeRecorder.open(LocalWorkspace(str(root)), tmp_path / "ledger")
    yield recorder
    recorder.close()


def folders(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}


async def undo(recorder: ChangeRecorder) -> None:
    await recorder.project.apply(await recorder.project.undo())


async def test_folders_created_by_a_command_go_with_its_files_and_return(
    root: Path, recorder: ChangeRecorder
) -> None:
    (root / "mine").mkdir()
    effect = await begin(recorder, TrackedRun("s"), None)
    for name in ("new/deep/er", "new/other", "old/inside", "mine"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "file").write_text("x")
    await end(effect)
    await undo(recorder)
    assert folders(root) == {"old", "mine"}
    await recorder.project.apply(await recorder.project.redo())
    assert (root / "new/deep/er/file").read_text() == "x"
    await undo(recorder)
    assert folders(root) == {"old", "mine"}


@pytest.mark.parametrize("over", [0o755, 0o2755], ids=["plain", "shared"])
@pytest.mark.parametrize("mode", [0o755, 0o2755], ids=["plain", "shared"])
async def test_a_folder_comes_back_with_its_group_bit(
    root: Path, recorder: ChangeRecorder, mode: int, over: int
) -> None:
    """Without it, files created there belong to another group, and colleagues cannot work on them."""
    shared = root / "old/shared"
    shared.mkdir()
    (shared / "file").write_text("x")
    shared.chmod(mode)
    shared.parent.chmod(over)
    effect = await begin(recorder, TrackedRun("s"), None)
    shutil.rmtree(shared)
    await end(effect)
    await undo(recorder)
    assert ((shared / "file").read_text(), stat.S_IMODE(shared.stat().st_mode)) == ("x", mode)


async def test_a_folder_with_content_stays(root: Path, recorder: ChangeRecorder) -> None:
    effect = await begin(recorder, TrackedRun("s"), None)
    for name in ("new/a", "new/b", "linked"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("x")
    await end(effect)
    (root / "new/a/mine").symlink_to("nowhere")
    await undo(recorder)
    assert folders(root) == {"old", "new", "new/a"}


async def test_an_empty_folder_that_a_run_deleted_and_created_exists_after_its_undo(
    root: Path, recorder: ChangeRecorder
) -> None:
    (root / "mine").mkdir()
    run = TrackedRun("s")
    effect = await begin(recorder, run, None)
    (root / "mine").rmdir()
    await end(effect)
    effect = await begin(recorder, run, None)
    (root / "mine/deep").mkdir(parents=True)
    await end(effect)
    await undo(recorder)
    assert folders(root) == {"old", "mine"}


async def test_a_folder_created_for_a_file_goes_with_it(root: Path, recorder: ChangeRecorder) -> None:
    effect = await begin(recorder, TrackedRun("s"), "new/deep/file")
    (root / "new/deep").mkdir(parents=True)
    (root / "new/deep/file").write_text("x")
    await end(effect)
    await undo(recorder)
    assert folders(root) == {"old"}


async def test_deleting_a_file_keeps_its_folder(root: Path, recorder: ChangeRecorder) -> None:
    """Deleting the last file of a folder that an earlier run created says nothing about the folder."""
    effect = await begin(recorder, TrackedRun("s"), None)
    (root / "new").mkdir()
    (root / "new/file").write_text("x")
    await end(effect)
    (root / "old/file").write_text("mine")
    ledger = recorder.project.ledger
    project = Project(root, ledger)
    hunk = await project.propose("old/file", 0, 2, None)
    await project.saver.save({"old/file": [hunk]})
    assert folders(root) == {"old", "new"}


async def test_folders_of_a_kept_proposal_go_with_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        project = Project(tmp_path / "project", ledger)
        points = Checkpoints(ledger, project.saver)
        point = await points.begin("r")
        await points.touch(point.id, "new/deep/file")
        await project.saver.save({"new/deep/file": [await project.propose("new/deep/file", 0, 0, b"x")]})
        assert folders(project.folder) == {"new", "new/deep"}
        reviews = await points.rollback(await points.plan(point.id, "hard_all"))
        await project.saver.save({review.path: None for review in reviews})
        assert folders(project.folder) == set()


async def test_no_folder_outside_the_project_is_removed_through_a_link(
    root: Path, recorder: ChangeRecorder, tmp_path: Path
) -> None:
    effect = await begin(recorder, TrackedRun("s"), None)
    (root / "new/deep").mkdir(parents=True)
    (root / "new/deep/file").write_text("x")
    await end(effect)
    (root / "new").rename(root / "away")
    (tmp_path / "outside/deep").mkdir(parents=True)
    (root / "new").symlink_to(tmp_path / "outside")
    await remove_empty(LocalWorkspace(str(root)), ["new/deep/file"], recorder.project.ledger.checkpoints())
    assert (tmp_path / "outside/deep").is_dir()


async def test_a_folder_in_use_by_others_does_not_keep_the_rest_from_being_undone(
    root: Path, recorder: ChangeRecorder
) -> None:
    """Each undo failed at the folder: a file after it was never undone, and no earlier run either."""
    (root / "a").write_text("one\n")
    command = await begin(recorder, TrackedRun("s"), None)
    (root / "out").mkdir()
    (root / "a").write_text("two\n")
    await end(command)
    (root / "out/mine").write_text("mine\n")
    await undo(recorder)
    assert ((root / "a").read_text(), (root / "out/mine").read_text()) == ("one\n", "mine\n")
    (root / "out/mine").unlink()
    await undo(recorder)
    assert not (root / "out").exists()


async def test_a_folder_that_a_run_has_filled_goes_with_all_that_is_in_it(
    root: Path, recorder: ChangeRecorder
) -> None:
    (root / "out").write_text("a file\n")
    command = await begin(recorder, TrackedRun("s"), None)
    (root / "out").unlink()
    (root / "out/deep/empty").mkdir(parents=True)
    (root / "out/deep/deeper").mkdir()
    (root / "out/deep/deeper/file").write_text("new\n")
    await end(command)
    await undo(recorder)
    assert (root / "out").read_text() == "a file\n"
