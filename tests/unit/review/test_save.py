"""If these fail, a save writes unaccepted changes, overwrites somebody's work, or leaves the project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from newel.review.file_writer import FILES_AT_ONCE
from newel.review.model.decisions import reject
from newel.review.model.file_lines import lines_of, text_hash
from newel.review.model.file_review import (
    Conflict,
    Hunk,
    Layer,
    Origin,
    StaleRevision,
    UnknownHunk,
    buffer,
    root_of,
)
from newel.review.model.revert_applied import restored
from newel.review.paths import OutsideProject, checked_path
from newel.review.project import ProjectReview
from newel.review.save import DiskSync, NotAFile, NotText
from newel.review.save_outcome import SaveFailed
from newel.review.save_plans import OverwritesDisk, plan_save
from newel.review.store.ledger import Ledger
from newel.review.store.pending_saves import PlannedWrite, SaveIntent
from newel.workspace.local import LocalWorkspace
from tests.unit.review.project import Project

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with Ledger.open(tmp_path / "ledger") as ledger:
        yield Project(tmp_path / "project", ledger)


async def test_only_accepted_hunks_are_written_and_everything_else_stays_exactly(project: Project) -> None:
    path = project.file("a.py", b"\xef\xbb\xbfone\r\ntwo\r\nthree\nfour\xe2\x80\xa8\x0cend", 0o750)
    kept = await project.propose("a.py", 2, 3, b"zwei\r\n")
    left = await project.propose("a.py", 4, 5, b"vier")
    review = project.accept("a.py", kept)
    (saved,) = await project.saver.save({"a.py": None}, revs={"a.py": review.rev})
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\nzwei\r\nthree\nfour\xe2\x80\xa8\x0cend"
    assert path.stat().st_mode & 0o777 == 0o750
    assert (saved.path, saved.applied, saved.left) == ("a.py", 1, 1)
    assert [hunk.id for hunk in saved.review.hunks] == [left]
    assert project.agrees("a.py")
    assert project.ledger.intents() == []


async def test_files_are_created_deleted_and_made_executable(project: Project) -> None:
    old, tool = project.file("old", b"x\n", 0o600), project.file("tool", b"#!/bin/sh\n")
    await project.saver.refresh("old")
    chosen = {
        "deep/new": [await project.propose("deep/new", 0, 0, b"hello")],
        "old": [await project.propose("old", 0, 2, None)],
        "tool": [await project.propose("tool", 0, 1, b"", mode=0o755)],
    }
    saved = await project.saver.save(chosen)
    assert [one.applied for one in saved] == [1, 1, 1]
    assert (project.folder / "deep/new").read_bytes() == b"hello"
    assert not old.exists()
    assert tool.stat().st_mode & 0o777 == 0o755
    assert tool.read_bytes() == b"#!/bin/sh\n"
    assert all(project.agrees(name) for name in chosen)


async def test_a_repeated_save_happens_once(project: Project) -> None:
    project.file("a", b"1\n2\n")
    hunk = await project.propose("a", 3, 3, b"3\n")
    rev = project.ledger.get("a").rev
    for applied in (1, 0):
        (saved,) = await project.saver.save({"a": [hunk]}, revs={"a": rev})
        assert saved.applied == applied
    assert (project.folder / "a").read_bytes() == b"1\n2\n3\n"
    assert [entry.kind for entry in project.ledger.entries(path="a")].count("save") == 1


async def test_a_foreign_change_is_a_conflict_and_no_file_of_the_save_is_written(
    project: Project,
) -> None:
    one, other = project.file("a", b"1\n2\n3\n"), project.file("b", b"1\n")
    hunks = {
        "b": [await project.propose("b", 1, 2, b"eins\n")],
        "a": [await project.propose("a", 2, 3, b"zwei\n"), await project.propose("a", 4, 4, b"4\n")],
    }
    one.write_bytes(b"1\nTWO\n3\n")
    with pytest.raises(Conflict, match="a changed on disk"):
        await project.saver.save(hunks)
    assert (one.read_bytes(), other.read_bytes()) == (b"1\nTWO\n3\n", b"1\n")
    review = project.ledger.get("a")
    assert [(hunk.id in hunks["a"], hunk.conflict) for hunk in review.hunks] == [(False, True), (True, False)]
    assert project.agrees("a")
    assert project.ledger.intents() == []
    with pytest.raises(StaleRevision):  # the shown hunk was not a conflict
        await project.saver.save(hunks)
    hunks["a"] = [hunk.id for hunk in review.hunks]
    with pytest.raises(OverwritesDisk):
        await project.saver.save(hunks)
    await project.saver.save(hunks, overwrite=["a"])  # a user who has seen it may override it
    assert (one.read_bytes(), other.read_bytes()) == (b"1\nzwei\n3\n4\n", b"eins\n")


async def test_a_save_over_a_change_on_the_disk_needs_a_confirmation_that_names_the_file(
    project: Project,
) -> None:
    path, other = project.file("a", b"1\n2\n3\n"), project.file("b", b"1\n")
    await project.propose("a", 2, 3, b"zwei\n")
    mine = await project.propose("b", 1, 2, b"eins\n")
    path.write_bytes(b"1\nTWO\n3\n")
    await project.saver.refresh("a")
    (conflict,) = project.ledger.get("a").hunks
    project.accept("a", conflict.id)
    for chosen in ({"a": None, "b": [mine]}, {"a": [conflict.id], "b": [mine]}):
        for confirmed in ((), ("b",)):
            with pytest.raises(OverwritesDisk, match=r"a changed on disk"):
                await project.saver.save(chosen, overwrite=confirmed)
    assert (path.read_bytes(), other.read_bytes()) == (b"1\nTWO\n3\n", b"1\n")
    assert project.ledger.intents() == []
    await project.saver.save({"a": None}, overwrite=["a"])
    assert path.read_bytes() == b"1\nzwei\n3\n"
    assert project.agrees("a")


@pytest.mark.parametrize("origin", ["agent", "user"])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_a_save_overwrites_on_the_disk_is_restored_exactly_by_an_undo(
    project: Project, origin: Origin, is_killed: bool
) -> None:
    on_disk = b"\xef\xbb\xbf1\r\nTWO, of a colleague\r\nand more\n3"
    path = project.file("a", b"\xef\xbb\xbf1\r\n2\r\n3", 0o640)
    review = ProjectReview(project.ledger, project.saver.workspace)
    if origin == "agent":
        checkpoint = await review.checkpoints.begin("r", session="s", title="a task")
        await review.checkpoints.touch(checkpoint.id, "a")
    await project.propose("a", 2, 3, b"zwei\n", origin=origin)
    path.write_bytes(on_disk)
    await project.saver.refresh("a")
    (conflict,) = project.ledger.get("a").hunks
    project.accept("a", conflict.id)
    if is_killed:  # after the file was written, before it was marked
        plan = plan_save(project.ledger.get("a"), [conflict.id])
        project.ledger.begin_saving(SaveIntent(id="i", files=(plan.saving,)))
        path.write_bytes(plan.after.data)
        assert project.ledger.intents()
        await DiskSync(project.ledger, project.saver.workspace).recover()
    else:
        await project.saver.save({"a": None}, overwrite=["a"])
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\nzwei\n3"
    await review.apply(await review.undo())
    assert path.read_bytes() == on_disk
    assert path.stat().st_mode & 0o777 == 0o640
    await review.apply(await review.redo())
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\nzwei\n3"


async def test_a_file_that_cannot_be_written_keeps_no_other_from_being_written(project: Project) -> None:
    """The files behind it were never undone, however often the undo was repeated."""
    others = [f"deep/deeper/file{number}" for number in range(4 * FILES_AT_ONCE)]
    chosen = {name: [await project.propose(name, 0, 0, b"new\n")] for name in ("folder/file", *others)}
    project.file("folder", b"in the way\n")
    with pytest.raises(SaveFailed, match=r"Not saved: folder/file\. Saved: deep"):
        await project.saver.save(chosen)
    assert all((project.folder / name).exists() for name in others)
    assert project.ledger.intents() == []


async def test_a_save_of_unknown_hunks_changes_nothing(project: Project) -> None:
    path = project.file("a", b"1\n")
    hunk = await project.propose("a", 1, 2, b"eins\n")
    rev = project.ledger.get("a").rev
    project.ledger.change("a", "reject", lambda now: reject(now, hunk))
    with pytest.raises(StaleRevision):
        await project.saver.save({"a": [hunk]}, revs={"a": rev})
    with pytest.raises(UnknownHunk):
        await project.saver.save({"a": ["h_none"]})
    assert path.read_bytes() == b"1\n"


async def test_bytes_that_are_not_text_are_written_back_exactly(project: Project) -> None:
    path = project.file("picture", b"\x89PNG\0\xff", 0o640)
    old = (await project.saver.refresh("picture")).base
    path.write_bytes(b"\0new")
    await project.saver.refresh("picture")
    project.ledger.change("picture", "rollback", lambda now: restored(now, old, lambda: "h_b"))
    await project.saver.save({"picture": None})
    assert path.read_bytes() == b"\x89PNG\0\xff"
    assert path.stat().st_mode & 0o777 == 0o640
    assert project.agrees("picture")


async def test_a_text_with_a_nul_is_not_written(project: Project) -> None:
    path = project.file("a", b"1\n2\n")
    hunk = Hunk(id="h_n", a=1, b=2, layers=(Layer(origin="user", lines=("x\0y\n",)),))
    await project.saver.refresh("a")
    # No edit makes such a hunk, but a manipulated ledger, or one of another version, may have it.
    project.ledger.change(
        "a", "user_edit", lambda now: msgspec.structs.replace(now, hunks=(hunk,), rev=now.rev + 1)
    )
    with pytest.raises(NotText):
        await project.saver.save({"a": None})
    assert path.read_bytes() == b"1\n2\n"


async def test_two_concurrent_saves_save_once(project: Project, tmp_path: Path) -> None:
    import anyio

    project.file("a", b"1\n")
    hunk = await project.propose("a", 2, 2, b"2\n")
    with Ledger.open(tmp_path / "ledger") as ledger:
        other = DiskSync(ledger, LocalWorkspace(str(project.folder)))
        async with anyio.create_task_group() as group:
            for saver in (project.saver, other, project.saver):
                group.start_soon(saver.save, {"a": [hunk]})
    assert (project.folder / "a").read_bytes() == b"1\n2\n"
    review = project.ledger.get("a")
    assert (review.hunks, [one.id for one in review.applied]) == ((), [hunk])
    assert project.ledger.intents() == []


# -- after a crash ------------------------------------------------------------------------------------


async def begun(project: Project) -> str:
    """A save of which a crash has left only the intent."""
    project.file("a", b"1\n2\n")
    hunk = await project.propose("a", 1, 2, b"eins\n")
    review = project.ledger.get("a")
    after = text_hash(lines_of(b"eins\n2\n"))
    saving = PlannedWrite(path="a", rev=review.rev, ids=(hunk,), before=text_hash(review.base), after=after)
    project.ledger.begin_saving(SaveIntent(id="i", files=(saving,)))
    return hunk


async def test_a_save_interrupted_before_the_write_is_completed(project: Project) -> None:
    await begun(project)
    assert [one.applied for one in await project.saver.recover()] == [1]
    assert (project.folder / "a").read_bytes() == b"eins\n2\n"
    assert (project.ledger.get("a").hunks, project.ledger.intents()) == ((), [])
    assert await project.saver.recover() == []


async def test_a_save_interrupted_after_the_write_can_still_be_undone(project: Project) -> None:
    hunk = await begun(project)
    (project.folder / "a").write_bytes(b"eins\n2\n")
    review = await project.saver.refresh("a")
    assert (review.hunks, [one.id for one in review.applied]) == ((), [hunk])
    assert [one.applied for one in await project.saver.recover()] == [1]


async def test_a_file_changed_after_the_crash_is_left_to_the_user(project: Project) -> None:
    hunk = await begun(project)
    path = project.file("a", b"uno\n2\n")
    assert await project.saver.recover() == []
    assert path.read_bytes() == b"uno\n2\n"
    (now,) = project.ledger.get("a").hunks
    assert (root_of(now.id), now.conflict) == (hunk, True)
    assert project.ledger.intents() == []


async def test_hunks_rejected_after_the_crash_are_not_written(project: Project) -> None:
    hunk = await begun(project)
    project.ledger.change("a", "reject", lambda now: reject(now, hunk))
    assert await project.saver.recover() == []
    assert (project.folder / "a").read_bytes() == b"1\n2\n"
    assert project.ledger.get("a").hunk(hunk).state == "rejected"


# -- paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../a", "a/../../b", "a/../b", "/etc/passwd", "a\0b", ".git/config", "x/.GIT/hooks/y", ".git", ".git. /c",
     "out/secret", "dangling", "into", "bad\udcff"],
)  # fmt: skip
async def test_a_path_outside_the_project_is_refused(project: Project, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (project.folder / "out").symlink_to(tmp_path / "outside")
    (project.folder / "dangling").symlink_to(tmp_path / "nothing")
    (project.folder / "into").symlink_to(".git/config")
    with pytest.raises(OutsideProject):
        await checked_path(LocalWorkspace(str(project.folder)), path)
    with pytest.raises(OutsideProject):
        await project.saver.refresh(path)
    with pytest.raises(OutsideProject):
        await project.saver.save({path: None})
    assert project.ledger.paths() == []


async def test_a_file_has_one_name(project: Project) -> None:
    project.file("src/a.py", b"")
    (project.folder / "link").symlink_to("src")
    workspace = LocalWorkspace(str(project.folder))
    for name in ("src/a.py", "./src//a.py", "link/a.py"):
        assert await checked_path(workspace, name) == "src/a.py"
    assert await checked_path(workspace, "not/there") == "not/there"
    assert await checked_path(workspace, ".gitignore") == ".gitignore"
    with pytest.raises(OutsideProject, match="leads to src/a"):
        await project.saver.refresh("link/a.py")


async def test_a_file_that_became_a_link_is_not_written_through(project: Project, tmp_path: Path) -> None:
    path = project.file("a", b"1\n")
    hunk = await project.propose("a", 1, 2, b"eins\n")
    target = tmp_path / "target"
    target.write_bytes(b"1\n")
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(OutsideProject):
        await project.saver.save({"a": [hunk]})
    assert target.read_bytes() == b"1\n"
    assert path.is_symlink()


async def test_devices_folders_and_huge_files_cannot_be_reviewed(project: Project) -> None:
    (project.folder / "folder").mkdir()
    os.mkfifo(project.folder / "pipe")
    with (project.folder / "huge").open("wb") as file:
        file.truncate(33 << 20)
    for name in ("folder", "pipe"):
        with pytest.raises(NotAFile):
            await project.saver.refresh(name)
    with pytest.raises(NotText, match="32 MiB"):
        await project.saver.refresh("huge")
    assert project.ledger.paths() == []


async def test_a_deleted_file_is_recorded_as_deleted(project: Project) -> None:
    path = project.file("a", b"1\n2\n")
    hunk = await project.propose("a", 1, 2, b"eins\n")
    path.unlink()
    with pytest.raises(Conflict):
        await project.saver.save({"a": [hunk]})
    assert not path.exists()
    review = project.ledger.get("a")
    assert review.base == ()
    (now,) = review.hunks
    assert (root_of(now.id), now.conflict) == (hunk, True)
    assert buffer(review)
