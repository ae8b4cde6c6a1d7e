"""If these fail, a ledger grows forever, or its purge removes content that is still needed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import reduce
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.review.checkpoints import Checkpoints
from newel.review.model.decisions import accept, reject
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import FileReview, buffer
from newel.review.model.history import patched
from newel.review.model.rebase import rebased
from newel.review.project import hunk_ids
from newel.review.serialize import checkpoint_view
from newel.review.store.database import LOCK
from newel.review.store.garbage_collection import in_background, purge
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.store.retention import RetentionPolicy
from newel.review.store.schema import LedgerError
from newel.review.tracking.recording_workspace import RecorderRegistry, ledger_folder
from newel.workspace.local import LocalWorkspace
from newel.workspace.snapshots.local_source import LocalSnapshotSource
from newel.workspace.snapshots.manager import SnapshotManager
from tests.properties import examples
from tests.unit.review.project import Project

NOTHING = RetentionPolicy(runs=0, days=0)
"""All that is a day old may go."""

ACTIONS = (
    "propose",
    "write",
    "mine",
    "accept",
    "reject",
    "save",
    "outside",
    "binary",
    "delete",
    "hard",
    "scoped",
    "undo",
)
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from("ab"), st.integers(1, 4), st.booleans()), max_size=12
)


def later(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


async def happen(project: Project, points: Checkpoints, steps: list[tuple[str, str, int, bool]]) -> None:
    """A history of runs, decisions and changes; impossible steps are skipped."""
    run = "r0"
    for number, (action, name, line, is_new) in enumerate(steps):
        run = f"r{number}" if is_new else run
        with contextlib.suppress(NewelError):
            await happen_once(project, points, (action, name, line), run)


async def happen_once(project: Project, points: Checkpoints, step: tuple[str, str, int], run: str) -> None:
    action, name, line = step
    path = project.folder / name
    ledger = project.ledger
    if action in {"propose", "write", "binary", "delete"}:
        point = await points.begin(run, title=run)
        await points.touch(point.id, *"ab")
    review = await project.saver.refresh(name)
    hunks = [hunk.id for hunk in review.hunks]
    size = len(buffer(review))
    if action == "propose":
        at = min(line, size)
        await project.propose(name, at, min(at + 1, size), f"{run} {line}\n".encode(), run=run)
    elif action == "mine":
        at = min(line, size)
        await project.propose(name, at, min(at + 1, size), f"mine {line}\n".encode(), origin="user")
    elif action in {"write", "binary", "delete"}:
        known = path.read_bytes() if path.exists() else b""
        if action == "delete":
            path.unlink(missing_ok=True)
        elif action == "binary":
            path.write_bytes(b"\0\xff" + run.encode())
        else:
            lines = known.split(b"\n")
            path.write_bytes(b"\n".join([*lines[:line], f"{run} writes".encode(), *lines[line:]]))
        data = path.read_bytes() if path.exists() else None
        if data is not None:
            ledger.put_blobs([data])
        ledger.change(
            name, "record", lambda now: rebased(now, lines_of(data), run=run, new_id=new_id), run=run
        )
    elif action == "outside":
        path.write_bytes(f"outside\n1\n2\n{line}\n4\n".encode())
        await project.saver.refresh(name)
    elif action == "accept" and hunks:
        ledger.change(name, "accept", lambda now: accept(now, hunks[-1]))
    elif action == "reject" and hunks:
        ledger.change(name, "reject", lambda now: reject(now, hunks[0], "base"))
    elif action == "save":
        await project.saver.save({name: None})
    elif action == "undo":
        ledger.undo(name)
    elif action in {"hard", "scoped"}:
        known = ledger.checkpoints()
        if known:
            point = known[line % len(known)]
            ids = hunk_ids(ledger, point) if action == "scoped" else []
            plan = await points.plan(point.id, "hard_all" if action == "hard" else "scoped_selected", ids)
            await points.rollback(plan)


async def answers(folder: Path, ledger: Ledger, checkpoints: set[str]) -> list[Any]:
    """The ledger's view of some checkpoints, and the effects of their rollbacks."""
    project = Project(folder, ledger)
    points = Checkpoints(ledger, project.saver)
    said: list[Any] = []
    for point in ledger.checkpoints():
        if point.id not in checkpoints:
            continue
        files = [before.path for before in point.files]
        ids = hunk_ids(ledger, point)
        said += [point, ids, checkpoint_view(point, [ledger.get(path) for path in files])]
        said += [points.diff3(point.id, path) for path in files]
        plans = [await points.plan(point.id, "hard_all")]
        plans += [await points.plan(point.id, "scoped_selected", [name]) for name in ids]
        plans += [await points.plan(point.id, "scoped_selected", ids)]
        said += [(plan.files, plan.conflicts) for plan in plans]
        said += [ledger.blob(before.blob) for before in point.files if before.blob]
    return said


async def done(folder: Path, ledger: Ledger, checkpoint: str) -> list[Any]:
    """The buffers after a rollback of the run, and the files after undoing its edits."""
    project = Project(folder, ledger)
    points = Checkpoints(ledger, project.saver)
    back = await points.rollback(await points.plan(checkpoint, "hard_all"))
    made: list[Any] = [
        (review.path, buffer(review), [hunk.state for hunk in review.hunks]) for review in back
    ]
    for path in ledger.paths():
        try:
            made.append(buffer(ledger.undo(path).review))
        except NewelError as error:
            made.append(str(error))
    return made


@settings(max_examples=examples(15), deadline=None)
@given(steps=STEPS, keep=st.integers(0, 3))
def test_a_purge_does_not_change_a_kept_checkpoint(
    steps: list[tuple[str, str, int, bool]], keep: int
) -> None:
    async def check(folder: Path) -> None:
        with Ledger.open(folder / "whole") as ledger:
            project = Project(folder / "project", ledger)
            for name in "ab":
                project.file(name, b"1\n2\n3\n4\n5\n")
            await happen(project, Checkpoints(ledger, project.saver), steps)
        shutil.copytree(folder / "whole", folder / "purged")
        with Ledger.open(folder / "whole") as whole, Ledger.open(folder / "purged") as purged:
            assert purge(purged, RetentionPolicy(runs=keep, days=0), now=later(2)).is_alone
            left = {each.id for each in purged.checkpoints()}
            assert len(left) >= min(keep, len(whole.checkpoints()))
            for path in purged.paths():
                review = purged.get(path)
                assert msgspec.structs.replace(replayed(purged, path), rev=review.rev) == review
                assert buffer(review) == buffer(whole.get(path))
            assert await answers(folder / "project", purged, left) == await answers(
                folder / "project", whole, left
            )
            if oldest := [each.id for each in purged.checkpoints()][-1:]:
                pair = [await done(folder / "project", ledger, oldest[0]) for ledger in (whole, purged)]
                assert [each for each in pair[1] if each in pair[0]] == pair[1]

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(check, Path(folder))


def replayed(ledger: Ledger, path: str) -> FileReview:
    return reduce(
        lambda now, each: patched(now, each.forward), ledger.entries(path=path), FileReview(path=path)
    )


def data_of(number: int) -> bytes:
    return os.urandom(3000) + b"%d" % number


def a_run(ledger: Ledger, number: int, *, path: str = "f", created: datetime | None = None) -> str:
    """A run that writes a binary file and a text file; returns the hash of the earlier bytes."""
    (before,) = ledger.put_blobs([data_of(number)])
    text = lines_of(b"line\n" * 50 + b"%d\n" % number)
    ledger.change(
        path, "record", lambda now: rebased(now, text, run=f"r{number}", new_id=new_id), run=f"r{number}"
    )
    ledger.add_checkpoint(
        Checkpoint(
            id=f"c{number:04}",
            created=moment(created or datetime.now(UTC)),
            run=f"r{number}",
            files=(FileVersion(path=path, blob=before, mode=0o644),),
        )
    )
    return before


def moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def has(ledger: Ledger, blob: str) -> bool:
    try:
        return bool(ledger.blob(blob))
    except LedgerError:
        return False


def test_runs_of_this_month_and_the_latest_stay(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        blobs = [a_run(ledger, number) for number in range(210)]
        assert purge(ledger, RetentionPolicy(), now=later(29)).checkpoints == 0
        assert purge(ledger, RetentionPolicy(runs=0), now=later(29)).checkpoints == 0
        done = purge(ledger, RetentionPolicy(), now=later(31))
        assert (done.checkpoints, done.blobs) == (10, 10)
        assert [has(ledger, blob) for blob in blobs] == [False] * 10 + [True] * 200


def test_purged_content_frees_its_space(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        for number in range(60):
            a_run(ledger, number, path=f"f{number % 3}")
        full = purge(ledger, RetentionPolicy()).size
        done = purge(ledger, RetentionPolicy(runs=1, days=0), now=later(2))
        assert done.size < full / 2
        assert ledger.paths() == ["f2"]
        assert purge(ledger, NOTHING, now=later(2)).size <= done.size
        assert (ledger.paths(), ledger.checkpoints(), ledger.entries()) == ([], [], [])


def test_a_files_history_is_kept_or_purged_as_a_whole(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        for number in range(9):
            a_run(ledger, number, path=f"f{number % 3}")
        kept = (ledger.get("f2"), ledger.entries(path="f2"))
        assert purge(ledger, RetentionPolicy(runs=1, days=0), now=later(2)).entries == 6
        assert (ledger.get("f2"), ledger.entries(path="f2")) == kept
        assert len(kept[1]) == 3  # also the state before the kept run
        assert (ledger.get("f0").base, ledger.entries(path="f0")) == ((), [])


def test_a_page_with_a_purged_file_cannot_decide_on_another_state(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        a_run(ledger, 1)
        seen = ledger.get("f")
        purge(ledger, NOTHING, now=later(2))
        assert ledger.get("f").base == ()
        assert ledger.get("f").rev > seen.rev
        assert ledger.change("f", "rebase", lambda now: rebased(now, seen.base)).review.base == seen.base
        assert msgspec.structs.replace(replayed(ledger, "f"), rev=0) == msgspec.structs.replace(
            ledger.get("f"), rev=0
        )


def test_a_run_with_pending_changes_stays_however_old(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:

        async def propose() -> None:
            project = Project(tmp_path / "project", ledger)
            project.file("a", b"1\n2\n")
            points = Checkpoints(ledger, project.saver)
            await points.touch((await points.begin("waits")).id, "a")
            await project.propose("a", 1, 2, b"eins\n", run="waits")

        anyio.run(propose)
        for number in range(3):
            a_run(ledger, number)
        assert purge(ledger, NOTHING, now=later(99)).checkpoints == 3
        (point,) = ledger.checkpoints()
        assert point.run == "waits"
        assert ledger.blob(point.files[0].blob) == b"1\n2\n"


def waited(until: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)
    return until()


def _use(folder: Path, is_open: Event, is_over: Event) -> None:
    with Ledger.open(folder):
        is_open.set()
        is_over.wait(30)


def test_a_purge_keeps_what_another_process_uses(tmp_path: Path) -> None:
    """It may rely on content that it has stored and not named yet."""
    context = multiprocessing.get_context("spawn")
    is_open, is_over = context.Event(), context.Event()
    with Ledger.open(tmp_path) as ledger:
        (loose,) = ledger.put_blobs([b"what a command may change"])
        child = context.Process(target=_use, args=(tmp_path, is_open, is_over))
        child.start()
        assert is_open.wait(30)
        a_run(ledger, 1, created=later(-5))
        done = purge(ledger, RetentionPolicy(size=1))
        assert (done.is_alone, has(ledger, loose)) == (False, True)
        assert len(ledger.checkpoints()) == 1  # deleting it would not have made room
        is_over.set()
        child.join(30)
        assert purge(ledger, NOTHING).is_alone
        assert not has(ledger, loose)


def test_content_stored_again_during_a_purge_stays(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        pieces = [b"put again", b"not put again"]
        again, gone = ledger.put_blobs(pieces)
        os.utime(tmp_path / LOCK, (1, 1))
        with ledger.batch():  # so that it has started and done nothing
            in_background(ledger, pytest.fail, NOTHING)
            ledger.put_blobs(pieces[:1])
        assert waited(lambda: (tmp_path / LOCK).stat().st_mtime > 1)
        assert (has(ledger, again), has(ledger, gone)) == (True, False)


def _add(folder: Path, number: int) -> None:
    with Ledger.open(folder) as ledger:
        for index in range(40):
            line = f"{number} {index}\n"
            ledger.change(f"f{index % 2}", "record", lambda now, line=line: rebased(now, (*now.base, line)))


@pytest.mark.slow  # processes that write for seconds
def test_writers_lose_nothing_during_a_purge(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=_add, args=(tmp_path, number)) for number in range(2)]
    with Ledger.open(tmp_path) as ledger:
        files = tuple(FileVersion(path=path, blob="", mode=0) for path in ("f0", "f1"))
        for number in range(50):
            a_run(ledger, number, path=f"old {number}", created=later(-9))
        ledger.add_checkpoint(Checkpoint(id="c", created=moment(later(1)), run="r", files=files))
        for child in children:
            child.start()
        gone = 0
        while any(child.is_alive() for child in children):
            gone += purge(ledger, RetentionPolicy(runs=1, days=0)).entries
        assert gone == 50
        for path in ("f0", "f1"):
            review = replayed(ledger, path)
            assert (review.base, len(review.base)) == (ledger.get(path).base, 40)
    assert [child.exitcode for child in children] == [0, 0]


@pytest.mark.anyio
async def test_content_that_the_next_command_may_change_stays(tmp_path: Path) -> None:
    root, folder = tmp_path / "project", tmp_path / "ledger"
    root.mkdir()
    (root / "a").write_bytes(b"before")
    os.utime(root / "a", (1, 1))
    await anyio.sleep(0.15)  # files newer than the clock's resolution are not in the index
    with Ledger.open(folder) as ledger:
        first = SnapshotManager(LocalSnapshotSource(str(root)), ledger, index=folder / "files.index")
        await first.take()
        first.close()
        (loose,) = ledger.put_blobs([b"loose"])
        assert purge(ledger, NOTHING).blobs == 1
        assert not has(ledger, loose)
        later_ = SnapshotManager(LocalSnapshotSource(str(root)), ledger, index=folder / "files.index")
        await later_.take()
        (root / "a").write_bytes(b"after")
        (change,) = (await later_.changes()).files
        assert change.before is not None
        assert ledger.blob(change.before.blob) == b"before"
        later_.close()


def test_an_oversized_ledger_purges_the_oldest_first_and_never_the_last_day(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        blobs = [a_run(ledger, number, created=later(number - 7.5), path=f"f{number}") for number in range(8)]
        assert purge(ledger, RetentionPolicy()).checkpoints == 0
        size = purge(ledger, RetentionPolicy()).size
        done = purge(ledger, RetentionPolicy(size=size - 10_000))
        assert done.size < size - 10_000
        left = [has(ledger, blob) for blob in blobs]
        assert left == sorted(left)
        assert 1 < left.count(True) < 8
        done = purge(ledger, RetentionPolicy(size=1))
        assert [has(ledger, blob) for blob in blobs] == [False] * 7 + [True]
        assert done.size > 1


def test_it_runs_once_a_day_and_an_oversized_ledger_is_reported(tmp_path: Path) -> None:
    told: list[str] = []
    with Ledger.open(tmp_path) as ledger:
        a_run(ledger, 1, created=later(-99))
        in_background(ledger, told.append, RetentionPolicy(runs=0))
        assert len(ledger.checkpoints()) == 1  # the ledger was created just now
        os.utime(tmp_path / LOCK, (1, 1))
        in_background(ledger, told.append, RetentionPolicy(runs=0, size=1))
        assert waited(lambda: bool(told))
        assert ledger.checkpoints() == []
        assert "GiB" in told[0]
        a_run(ledger, 2, created=later(-99))
        in_background(ledger, told.append, RetentionPolicy(runs=0))
        assert len(ledger.checkpoints()) == 1


@pytest.mark.anyio
async def test_hunks_pending_before_a_run_are_pending_again_after_its_rollback_despite_a_purge(
    tmp_path: Path,
) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        project = Project(tmp_path / "project", ledger)
        points = Checkpoints(ledger, project.saver)
        project.file("a", b"1\n2\n3\n4\n5\n")
        early = await project.propose("a", 5, 6, b"five\n", run="early")
        await anyio.sleep(0.002)  # the state before a run has an earlier time
        point = await points.begin("late")
        await points.touch(point.id, "a")
        project.accept("a", early)
        late = await project.propose("a", 1, 2, b"one\n", run="late")
        await project.saver.save({"a": [late]})
        assert (
            purge(ledger, RetentionPolicy(runs=1, days=0), now=later(2)).checkpoints == 0
        )  # the early run has open hunks
        (review,) = await points.rollback(await points.plan(point.id, "hard_all"))
        assert buffer(review) == lines_of(b"1\n2\n3\n4\nfive\n")
        assert {(hunk.top.run, hunk.state) for hunk in review.hunks} == {
            ("early", "pending"),
            ("", "accepted"),
        }


@pytest.mark.anyio
async def test_opening_a_project_purges_old_runs(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    folder = ledger_folder(tmp_path, str(tmp_path / "project"))
    with Ledger.open(folder) as ledger:
        a_run(ledger, 1, created=later(-99))
        for number in range(2, 202):
            a_run(ledger, number, created=later(-50))
    os.utime(folder / LOCK, (1, 1))
    workspace = LocalWorkspace(str(tmp_path / "project"))
    recorders = RecorderRegistry(tmp_path, keep=RetentionPolicy())
    ledger = (await recorders.recorder_of(workspace)).project.ledger
    assert await anyio.to_thread.run_sync(waited, lambda: len(ledger.checkpoints()) == 200)
    recorders.close()
