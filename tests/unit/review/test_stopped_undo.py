"""If these fail, an undo that the user stops leaves files or the ledger in a state that no later undo completes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from stat import S_IFDIR

import pytest

from newel.review.file_writer import FILES_AT_ONCE
from newel.review.model.file_lines import content_of, lines_of
from newel.review.project import ProjectReview
from newel.review.rewind import apply_rewind, plan_rewind
from newel.review.save_outcome import SaveProgress, SaveStopped
from newel.review.store.ledger import Ledger
from newel.review.tracking.applied_sink import recorded
from newel.workspace.local import LocalWorkspace

pytestmark = pytest.mark.anyio

BEFORE = {f"changed{number}": b"one\n" for number in range(8)} | {"gone_a": b"a\n", "gone_b": b"b\n"}
AFTER = {f"changed{number}": b"two\n" for number in range(8)} | {"new/deep/a": b"a\n", "new/b": b"b\n"}
FILES = len(BEFORE.keys() | AFTER.keys())


class StoppingProgress(SaveProgress):
    """Is stopped once so many files are done."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self.is_stopped = at == 0

    def advance(self) -> None:
        super().advance()
        self.is_stopped = self.done >= self._at


class Place:
    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.project = ProjectReview(ledger, LocalWorkspace(str(folder)))

    def put(self, path: str, data: bytes | None) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(data)

    async def run(self, run: str, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        """A run that makes the files ``after`` of those ``before``, and creates the folders in between."""
        for path, data in before.items():
            self.put(path, data)
        ledger, checkpoints = self.project.ledger, self.project.checkpoints
        checkpoint = await checkpoints.begin(run, title=run)
        for path in sorted(before.keys() | after.keys()):
            await checkpoints.touch(checkpoint.id, path)
            make = partial(
                recorded, before=lines_of(before.get(path)), after=lines_of(after.get(path)), run=run
            )
            self.put(path, after.get(path))
            ledger.change(path, "record", make, run=run)

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}

    def check(self) -> None:
        """Each file is as before the run or as after it, the ledger agrees, and nothing waits."""
        for path in BEFORE.keys() | AFTER.keys():
            assert self.files().get(path) in (BEFORE.get(path), AFTER.get(path))
            review = self.project.ledger.get(path)
            assert not review.hunks
            assert review.base == lines_of(self.files().get(path))
        assert self.project.ledger.intents() == []


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    (tmp_path / "project").mkdir()
    with Ledger.open(tmp_path / "ledger") as ledger:
        place = Place(tmp_path / "project", ledger)
        await place.run("r", BEFORE, AFTER)
        yield place


@pytest.mark.parametrize("at", range(0, FILES - FILES_AT_ONCE, 2))
async def test_an_undo_that_is_stopped_is_completed_by_the_next_one_and_so_is_its_redo(
    place: Place, at: int
) -> None:
    project = place.project
    for plan, end in ((project.undo, BEFORE), (project.redo, AFTER)):
        with pytest.raises(SaveStopped) as stopped:
            await project.apply(await plan(), StoppingProgress(at))
        place.check()
        done = len(stopped.value.saved)
        assert at <= done < FILES
        assert str(stopped.value) == f"Stopped after {done} of {FILES} files. The others are as they were."
        rest = await plan()
        assert len(rest.files) == FILES - done
        await project.apply(rest)  # the same undo: one redo brings all of it back
        place.check()
        assert place.files() == end
    assert not (place.folder / "gone_a").exists()


async def test_folders_that_a_stopped_undo_has_emptied_are_removed(place: Place) -> None:
    for at in (1, 2, 3):
        with pytest.raises(SaveStopped):
            await place.project.apply(await place.project.undo(), StoppingProgress(at))
        left = [path for path in place.folder.rglob("*") if path.is_dir() and not any(path.iterdir())]
        assert left == []
        await place.project.apply(await place.project.undo())
        await place.project.apply(await place.project.redo())


async def test_a_rewind_that_is_stopped_is_completed_by_the_next_one(place: Place) -> None:
    await place.run("s", AFTER, dict.fromkeys(AFTER, b"three\n"))
    project = place.project
    for at in (1, 2, 4):
        plan = await plan_rewind(project, (await project.order()).to_undo)
        assert plan.conflicts == []
        assert at < plan.writes <= len(AFTER) + FILES
        with pytest.raises(SaveStopped):
            await apply_rewind(project, plan, StoppingProgress(at))
        assert project.ledger.intents() == []
    await apply_rewind(project, await plan_rewind(project, (await project.order()).to_undo))
    assert place.files() == BEFORE


async def test_a_stop_that_comes_too_late_changes_nothing(place: Place) -> None:
    progress = StoppingProgress(FILES)
    await place.project.apply(await place.project.undo(), progress)
    assert progress.done == FILES
    assert place.files() == BEFORE


async def test_a_kill_while_a_stopped_undo_is_completed_is_reported_as_any_other(place: Place) -> None:
    project = place.project
    with pytest.raises(SaveStopped):
        await project.apply(await project.undo(), StoppingProgress(2))
    rest = await project.undo()
    await project.checkpoints.rollback(rest, save=True)  # killed before the first write
    opened = ProjectReview(project.ledger, LocalWorkspace(str(place.folder)))
    await opened.recover()
    assert [checkpoint.run for checkpoint in opened.finished] == [rest.run]
    place.check()
    assert place.files() == BEFORE


async def test_a_folder_that_was_opened_is_closed_again(tmp_path: Path) -> None:
    (tmp_path / "project" / "shut").mkdir(parents=True)
    with Ledger.open(tmp_path / "ledger") as ledger:
        place = Place(tmp_path / "project", ledger)
        after = {f"shut/{number}": b"new\n" for number in range(12)}
        await place.run("r", {}, after)
        folder = place.folder / "shut"
        make = partial(
            recorded, before=lines_of(b"", S_IFDIR | 0o755), after=lines_of(b"", S_IFDIR | 0o555), run="r"
        )
        await place.project.checkpoints.touch(
            "".join(cp.id for cp in ledger.checkpoints()), "shut", as_known=True
        )
        ledger.change("shut", "record", make, run="r")
        folder.chmod(0o555)
        with pytest.raises(SaveStopped):
            await place.project.apply(await place.project.undo(), StoppingProgress(3))
        assert ledger.intents() == []
        assert folder.stat().st_mode & 0o777 == ledger_mode(ledger, "shut")
        await place.project.apply(await place.project.undo())
        assert place.files() == {}


def ledger_mode(ledger: Ledger, path: str) -> int:
    content = content_of(ledger.get(path).base)
    assert content is not None
    return content.mode & 0o777
