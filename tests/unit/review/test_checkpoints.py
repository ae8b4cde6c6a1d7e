"""If these fail, a rollback undoes too much, too little, or cannot be undone itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import pytest

from newel.review.checkpoints import Checkpoints, UnknownCheckpoint
from newel.review.model.decisions import reject
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import StaleRevision, UnknownHunk, buffer
from newel.review.model.rebase import rebased
from newel.review.project import hunk_ids, view_of
from newel.review.store.ledger import FileVersion, Ledger
from tests.unit.review.project import Project

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with Ledger.open(tmp_path / "ledger") as ledger:
        yield Project(tmp_path / "project", ledger)


@pytest.fixture
def points(project: Project) -> Checkpoints:
    return Checkpoints(project.ledger, project.saver)


async def begun(points: Checkpoints, *paths: str, run: str = "r") -> str:
    point = await points.begin(run, session="s", title="a task")
    await points.touch(point.id, *paths)
    return point.id


async def hard(project: Project, points: Checkpoints, point: str) -> str:
    """Roll a whole run back, to the disk; returns the checkpoint of the rollback."""
    plan = await points.plan(point, "hard_all")
    reviews = await points.rollback(plan)
    await project.saver.save({review.path: None for review in reviews})
    return (await points.begin(plan.run)).id


async def test_a_run_and_the_later_ones_are_rolled_back_and_restored(
    project: Project, points: Checkpoints
) -> None:
    changed, removed = project.file("a", b"1\r\n2\n3", 0o750), project.file("b", b"\xff\0", 0o600)
    point = await begun(points, "a", "b", "new")
    hunks = {
        "a": [await project.propose("a", 2, 3, b"zwei\n")],
        "b": [await project.propose("b", 0, 2, None)],
        "new": [await project.propose("new", 0, 0, b"new\n")],
    }
    await project.saver.save(hunks)
    await project.propose("a", 1, 1, b"mine\n", origin="user")
    await project.saver.save({"a": None})
    changed.chmod(0o644)
    after = changed.read_bytes()
    assert not removed.exists()

    back = await hard(project, points, point)
    assert (changed.read_bytes(), removed.read_bytes()) == (b"1\r\n2\n3", b"\xff\0")
    assert (changed.stat().st_mode & 0o777, removed.stat().st_mode & 0o777) == (0o750, 0o600)
    assert not (project.folder / "new").exists()

    await hard(project, points, back)
    assert changed.read_bytes() == after
    assert changed.stat().st_mode & 0o777 == 0o644
    assert not removed.exists()
    assert (project.folder / "new").read_bytes() == b"new\n"
    assert all(project.agrees(name) for name in hunks)


async def test_a_plan_shows_the_changes_and_makes_none(project: Project, points: Checkpoints) -> None:
    path = project.file("a", b"1\n2\n")
    project.file("b", b"same\n")
    point = await begun(points, "a", "b")
    hunk = await project.propose("a", 2, 3, b"zwei\n")
    before = project.ledger.get("a")
    plan = await points.plan(point, "hard_all")
    assert [(file.path, file.hunks) for file in plan.files] == [("a", (hunk,))]
    assert "-zwei\n+2\n" in plan.files[0].patch
    assert project.ledger.get("a") == before
    (review,) = await points.rollback(plan)
    assert (review.hunks, path.read_bytes()) == ((), b"1\n2\n")
    assert (await points.plan(point, "hard_all")).files == ()


async def test_a_rollback_planned_for_another_state_is_refused(project: Project, points: Checkpoints) -> None:
    project.file("a", b"1\n")
    project.file("b", b"1\n")
    point = await begun(points, "a", "b")
    for name in ("a", "b"):
        await project.propose(name, 1, 2, b"eins\n")
    plan = await points.plan(point, "hard_all")
    await project.propose("b", 2, 2, b"mine\n", origin="user")
    before = [project.ledger.get(name) for name in ("a", "b")]
    with pytest.raises(StaleRevision):
        await points.rollback(plan)
    assert [project.ledger.get(name) for name in ("a", "b")] == before
    assert len(project.ledger.checkpoints()) == 1


async def test_hunks_proposed_before_a_run_stay_undecided_after_its_rollback(
    project: Project, points: Checkpoints
) -> None:
    path = project.file("a", b"1\n2\n3\n4\n5\n")
    early = await project.propose("a", 5, 6, b"five\n", run="early")
    point = await begun(points, "a", run="late")
    late = await project.propose("a", 1, 2, b"one\n", run="late")
    shown = b"1\n2\n3\n4\nfive\n"

    plan = await points.plan(point, "hard_all")
    await points.rollback(plan)
    assert [(hunk.id, hunk.state) for hunk in project.ledger.get("a").hunks] == [(early, "pending")]

    # The same with the run's hunk on disk by then.
    await hard(project, points, (await points.begin(plan.run)).id)
    await project.saver.save({"a": [late]})
    assert path.read_bytes() == b"one\n2\n3\n4\n5\n"
    await hard(project, points, point)
    assert path.read_bytes() == b"1\n2\n3\n4\n5\n"
    review = project.ledger.get("a")
    assert buffer(review) == lines_of(shown)
    assert [(hunk.top.run, hunk.state) for hunk in review.hunks] == [("early", "pending")]


async def test_only_the_named_hunks_are_rolled_back_wherever_they_are(
    project: Project, points: Checkpoints
) -> None:
    path = project.file("a", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    point = await begun(points, "a")
    names = [await project.propose("a", line, line + 1, b"%d!\n" % line) for line in (1, 3, 5, 7)]
    pending, accepted, applied, other = names
    await project.saver.save({"a": [applied, other]})
    await project.propose("a", 9, 10, b"mine\n", origin="user")
    await project.saver.save({"a": None})
    project.accept("a", accepted)
    assert path.read_bytes() == b"1\n2\n3\n4\n5!\n6\n7!\n8\nmine\n"

    plan = await points.plan(point, "scoped_selected", [pending, accepted, applied])
    assert plan.conflicts == ()
    assert set(plan.files[0].hunks) == {pending, accepted, applied}
    await points.rollback(plan)
    assert buffer(project.ledger.get("a")) == lines_of(b"1\n2\n3\n4\n5\n6\n7!\n8\nmine\n")
    await project.saver.save({"a": None})
    assert path.read_bytes() == b"1\n2\n3\n4\n5\n6\n7!\n8\nmine\n"
    await hard(project, points, (await points.begin(plan.run)).id)
    assert path.read_bytes() == b"1\n2\n3!\n4\n5!\n6\n7!\n8\nmine\n"


async def test_a_hunk_under_a_newer_change_is_a_conflict_and_stays(
    project: Project, points: Checkpoints
) -> None:
    path = project.file("a", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    point = await begun(points, "a")
    names = [
        await project.propose("a", line, line + 1, b"%d!\n%d?\n" % (line, line)) for line in (7, 5, 3, 1)
    ]
    layered, later, overwritten, free = names
    await project.propose("a", 10, 11, b"mine\n", origin="user")
    await project.propose("a", 7, 8, b"another run\n", run="other")
    await project.saver.save({"a": [overwritten, free]})
    await project.propose("a", 4, 5, b"mine\n", origin="user")
    await project.saver.save({"a": None})
    before = buffer(project.ledger.get("a"))

    plan = await points.plan(point, "scoped_selected", names)
    assert [conflict.hunk for conflict in plan.conflicts] == [layered, later, overwritten]
    assert plan.files[0].hunks == (free,)
    await points.rollback(plan)
    assert buffer(project.ledger.get("a")) == (before[0], "1\n", *before[3:])
    await project.saver.save({"a": None})
    assert path.read_bytes().startswith(b"1\n2\nmine\n3?\n4\n")


async def test_the_later_of_two_runs_in_one_hunk_can_be_undone_alone(
    project: Project, points: Checkpoints
) -> None:
    project.file("a", b"1\n2\n")
    hunk = await project.propose("a", 1, 2, b"first\n", run="one")
    point = await begun(points, "a", run="two")
    await project.propose("a", 1, 2, b"second\n", run="two")
    (now,) = project.ledger.get("a").hunks
    assert (await points.plan(point, "scoped_selected", [hunk])).files == ()
    await points.rollback(await points.plan(point, "scoped_selected", [now.id]))
    (left,) = project.ledger.get("a").hunks
    assert ([layer.run for layer in left.layers], left.state) == (["one"], "pending")


async def test_a_hunk_of_a_rollback_can_be_undone_alone(project: Project, points: Checkpoints) -> None:
    path = project.file("a", b"1\n2\n3\n4\n5\n")
    point = await begun(points, "a")
    names = [await project.propose("a", line, line + 1, b"%d!\n" % line) for line in (1, 5)]
    await project.saver.save({"a": names})
    plan = await points.plan(point, "scoped_selected", names)
    (review,) = await points.rollback(plan)
    first, last = review.hunks
    own = (await points.begin(plan.run)).id
    await points.rollback(await points.plan(own, "scoped_selected", [first.id]))
    await project.saver.save({"a": None})
    assert path.read_bytes() == b"1!\n2\n3\n4\n5\n"
    await points.rollback(await points.plan(own, "scoped_selected", [last.id]))
    await project.saver.save({"a": None})
    assert path.read_bytes() == b"1!\n2\n3\n4\n5!\n"


async def test_a_rollback_of_an_unknown_run_or_hunk_is_refused(project: Project, points: Checkpoints) -> None:
    project.file("a", b"1\n")
    point = await begun(points, "a")
    mine = await project.propose("a", 2, 2, b"mine\n", origin="user")
    for names in (["h_none"], [mine]):
        with pytest.raises(UnknownHunk, match=names[0]):
            await points.plan(point, "scoped_selected", names)
    with pytest.raises(UnknownCheckpoint):
        await points.plan("cp_none", "hard_all")
    with pytest.raises(UnknownCheckpoint):
        points.get("cp_none")
    with pytest.raises(UnknownCheckpoint):
        points.diff3(point, "b")


async def test_a_file_is_shown_before_the_run_after_it_and_now(project: Project, points: Checkpoints) -> None:
    project.file("a", b"1\n2\n3\n")
    point = await begun(points, "a", "new")
    hunk = await project.propose("a", 1, 2, b"one\n")
    await project.propose("new", 0, 0, b"n\n")
    project.ledger.change("a", "reject", lambda now: reject(now, hunk))
    await project.propose("a", 3, 4, b"mine\n", origin="user")
    three = points.diff3(point, "a")
    assert (three.base, three.proposed, three.current) == ("1\n2\n3\n", "one\n2\n3\n", "1\n2\nmine\n")
    assert "-1\n+one\n" in three.proposed_patch
    assert "-3\n+mine\n" in three.current_patch
    assert (points.diff3(point, "new").base, points.diff3(point, "new").proposed) == (None, "n\n")


async def test_a_run_has_one_persistent_checkpoint_with_the_first_state(
    project: Project, points: Checkpoints, tmp_path: Path
) -> None:
    path = project.file("a", b"first")
    point = await begun(points, "a")
    path.write_bytes(b"second")
    assert await begun(points, "a", "b") == point
    with Ledger.open(tmp_path / "ledger") as ledger:
        again = Checkpoints(ledger, Project(project.folder, ledger).saver)
        kept = again.get(point)
    assert [(file.path, bool(file.blob)) for file in kept.files] == [("a", True), ("b", False)]
    assert project.ledger.blob(kept.files[0].blob) == b"first"
    assert (kept.run, kept.session, kept.title) == ("r", "s", "a task")


async def test_a_file_that_became_a_link_is_skipped_and_the_others_are_rolled_back(
    project: Project, points: Checkpoints, tmp_path: Path
) -> None:
    one, other = project.file("a", b"1\n"), project.file("b", b"1\n")
    point = await begun(points, "a", "b")
    hunks = {name: [await project.propose(name, 1, 2, b"eins\n")] for name in ("a", "b")}
    await project.saver.save(hunks)
    target = tmp_path / "target"
    target.write_bytes(b"eins\n")
    one.unlink()
    one.symlink_to(target)
    plan = await points.plan(point, "hard_all")
    assert [conflict.path for conflict in plan.conflicts] == ["a"]
    await project.saver.save({review.path: None for review in await points.rollback(plan)})
    assert (target.read_bytes(), other.read_bytes()) == (b"eins\n", b"1\n")


async def test_direct_writes_of_an_agent_are_rolled_back_without_its_proposals(
    project: Project, points: Checkpoints
) -> None:
    path = project.file("a", b"1\n2\n3\n")
    await project.propose("a", 3, 4, b"drei\n", run="early")
    await anyio.sleep(0.002)  # the state before a run has an earlier time
    point = await points.begin("direct")
    (blob,) = project.ledger.put_blobs([b"1\n2\n3\n"])
    files = (FileVersion(path="a", blob=blob, mode=0o644),)
    project.ledger.add_checkpoint(msgspec.structs.replace(point, files=files))
    path.write_bytes(b"one\n2\n3\n")
    lines = lines_of(path.read_bytes())
    project.ledger.change(
        "a", "record", lambda now: rebased(now, lines, run="direct", new_id=lambda: "h_d"), run="direct"
    )
    await hard(project, points, point.id)
    assert path.read_bytes() == b"1\n2\n3\n"
    assert [(hunk.top.run, hunk.state) for hunk in project.ledger.get("a").hunks] == [("early", "pending")]


async def test_a_rollback_is_complete_even_if_an_undecided_hunk_resembles_it(
    project: Project, points: Checkpoints
) -> None:
    point = await begun(points, "a")
    path = project.file("a", b"by someone else\n")
    await points.rollback(await points.plan(point, "hard_all"))
    path.chmod(0o600)  # and so the deletion is undecided again
    await hard(project, points, point)
    assert not path.exists()


async def test_the_title_of_a_rollback_names_the_run_and_does_not_grow(
    project: Project, points: Checkpoints
) -> None:
    project.file("a", b"1\n")
    long = (await points.begin("r", title="word " * 40)).id
    await points.touch(long, "a")
    await project.saver.save({"a": [await project.propose("a", 1, 2, b"one\n")]})
    titles: list[str] = []
    point = long
    for _ in range(3):
        point = await hard(project, points, point)
        titles.append(points.get(point).title)
    short = "word " * 15 + "word…"
    assert titles == [f"Undo of {short}", f"Redo of {short}", f"Undo of {short}"]


async def test_the_hunks_of_an_undo_have_ids_and_one_can_be_undone(
    project: Project, points: Checkpoints
) -> None:
    path = project.file("a", b"1\n2\n3\n4\n5\n")
    point = await begun(points, "a")
    names = [await project.propose("a", line, line + 1, b"%d!\n" % line) for line in (1, 5)]
    await project.saver.save({"a": names})
    plan = await points.plan(point, "scoped_selected", names)
    await points.rollback(plan)
    await project.saver.save({"a": None})
    own = await points.begin(plan.run)
    (file,) = view_of(project.ledger, own).files
    assert [hunk.state for hunk in file.hunks] == ["applied", "applied"]
    assert [hunk.reverse_patch.splitlines()[-1] for hunk in file.hunks] == [" 4", "+5!"]
    assert set(hunk_ids(project.ledger, own)) == {hunk.hunk_id for hunk in file.hunks}
    await points.rollback(await points.plan(own.id, "scoped_selected", [file.hunks[1].hunk_id]))
    await project.saver.save({"a": None})
    assert path.read_bytes() == b"1\n2\n3\n4\n5!\n"
