"""If these fail, an acknowledged decision is lost, or a window overwrites another's newer change."""

from __future__ import annotations

import multiprocessing
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import msgspec
import pytest

from newel.review.model.decisions import accept, reject
from newel.review.model.edits import edit
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import FileReview, Layer, StaleRevision, UnknownHunk, buffer
from newel.review.model.history import NothingToUndo
from newel.review.model.rebase import rebased
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.store.pending_saves import PlannedWrite, SaveIntent
from newel.review.store.schema import FILE, LEDGER, MIGRATIONS, LedgerBusy, LedgerError, pack
from newel.storage.sqlite import Format, connect

TEXT = lines_of(b"one\ntwo\nthree\n")


def proposed(review: FileReview) -> FileReview:
    ids = count(review.rev)
    return edit(review, 2, 3, Layer(origin="agent", lines=("zwei\n",), run="r"), lambda: f"h_{next(ids)}")


def begun(ledger: Ledger, path: str = "f") -> FileReview:
    ledger.change(path, "rebase", lambda now: rebased(now, TEXT))
    return ledger.change(path, "propose", proposed, run="r").review


def enter(context: AbstractContextManager[None]) -> None:
    with context:
        pass


def test_decisions_are_visible_to_the_next_process(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        review = begun(ledger)
        after = ledger.change(
            "f", "accept", lambda now: accept(now, review.hunks[0].id), rev=review.rev
        ).review
    with Ledger.open(tmp_path) as ledger:
        assert ledger.get("f") == after
        assert [entry.kind for entry in ledger.entries(path="f")] == ["rebase", "propose", "accept"]
        assert [entry.kind for entry in ledger.entries(run="r")] == ["propose"]
        assert ledger.paths() == ["f"]


def test_a_non_waiting_batch_fails_at_once_and_a_later_one_waits(tmp_path: Path) -> None:
    """The first must not block the other tasks of a program; the second must not lose a decision."""
    with Ledger.open(tmp_path) as mine, Ledger.open(tmp_path) as yours:
        with yours.batch(), pytest.raises(LedgerBusy), mine.batch(wait=False):
            pass
        with ThreadPoolExecutor(1) as thread:
            with yours.batch():
                review = thread.submit(begun, mine)
                time.sleep(0.2)
                assert not review.done()
            assert review.result(5).hunks
            with mine.batch():
                assert isinstance(thread.submit(enter, mine.batch(wait=False)).exception(5), LedgerBusy)


def test_a_decision_on_a_stale_state_is_refused(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as mine, Ledger.open(tmp_path) as yours:
        review = begun(mine)
        hunk = review.hunks[0].id
        yours.change("f", "accept", lambda now: accept(now, hunk), rev=review.rev)
        with pytest.raises(StaleRevision):
            mine.change("f", "reject", lambda now: reject(now, hunk), rev=review.rev)
        assert mine.get("f").hunk(hunk).state == "accepted"


def test_an_invalid_change_leaves_no_trace(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        review = begun(ledger)
        with pytest.raises(UnknownHunk):
            ledger.change("f", "accept", lambda now: accept(now, "h_99"))
        assert ledger.get("f") == review
        assert len(ledger.entries()) == 2


def test_undo_and_redo_survive_the_process(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        review = begun(ledger)
    with Ledger.open(tmp_path) as ledger:
        assert buffer(ledger.undo("f").review) == TEXT
    with Ledger.open(tmp_path) as ledger:
        assert ledger.redo("f").review.hunks == review.hunks
        with pytest.raises(NothingToUndo):
            ledger.redo("f")


def _add(folder: Path, number: int) -> None:
    with Ledger.open(folder) as ledger:
        for index in range(25):
            ledger.change(f"f{index % 3}", "rebase", lambda now: rebased(now, (*now.base, f"{number}\n")))


@pytest.mark.slow  # several processes that write for seconds
def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(tmp_path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    with Ledger.open(tmp_path) as ledger:
        assert sum(len(ledger.get(path).base) for path in ledger.paths()) == 75


def test_checkpoints_and_unfinished_saves_are_stored() -> None:
    with Ledger.open(None) as ledger:
        point = Checkpoint(id="c1", created="2026-01-01T00:00:00.000Z", run="r")
        ledger.add_checkpoint(point)
        (blob,) = ledger.put_blobs([b"before"])
        grown = Checkpoint(
            id="c1", created=point.created, run="r", files=(FileVersion(path="f", blob=blob, mode=0o644),)
        )
        ledger.add_checkpoint(grown)
        assert ledger.checkpoints() == [grown]
        assert ledger.blob(blob) == b"before"
        intent = SaveIntent(
            id="s1", files=(PlannedWrite(path="f", rev=3, ids=("h_1",), before="a", after="b"),)
        )
        ledger.begin_saving(intent)
        assert ledger.intents() == [intent]
        ledger.end_saving("s1")
        assert ledger.intents() == []


def begin_and_fail(ledger: Ledger) -> None:
    with ledger.batch():
        ledger.change("f", "reject", lambda now: reject(now, now.hunks[0].id))
        ledger.change("g", "accept", lambda now: accept(now, "h_99"))


def test_a_batch_is_stored_completely_or_not_at_all(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as mine, Ledger.open(tmp_path) as yours:
        before = begun(mine)
        with mine.batch():
            after = mine.change("f", "accept", lambda now: accept(now, now.hunks[0].id)).review
            mine.change("g", "rebase", lambda now: rebased(now, TEXT))
            assert yours.paths() == ["f"]
        assert yours.get("f") == after
        assert yours.get("g").base == TEXT
        with pytest.raises(UnknownHunk):
            begin_and_fail(mine)
        assert mine.get("f") == yours.get("f") == after != before
        assert (
            mine.undo("f").review.hunks == before.hunks
        )  # the rolled back change is not in the journal either


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_nothing_is_acknowledged_that_goes_into_a_removed_ledger(tmp_path: Path, when: str) -> None:
    def write() -> None:
        with ledger.batch():
            begun(ledger, "g")
            (tmp_path / FILE).unlink(missing_ok=True)

    with Ledger.open(tmp_path) as ledger:
        begun(ledger)
        if when == "before":
            (tmp_path / FILE).unlink()
        with pytest.raises(LedgerError, match="was removed or replaced"):
            write()


def test_a_read_returns_the_latest_save_of_another_process(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as mine, Ledger.open(tmp_path) as yours:
        begun(mine)
        yours.change("f", "rebase", lambda now: rebased(now, (*TEXT, "four\n")))
        assert mine.get("f").base == (*TEXT, "four\n")
        mine.change("f", "rebase", lambda now: rebased(now, TEXT))
        assert yours.get("f").base == TEXT


def test_a_ledger_of_the_first_format_is_read_unchanged(tmp_path: Path) -> None:
    long = lines_of(b"line\n" * 2000)
    with Ledger.open(tmp_path / "new") as ledger:
        ledger.change("f", "rebase", lambda now: rebased(now, long))
        review = ledger.change("f", "propose", proposed, run="r").review
        entries = ledger.entries()
    (tmp_path / "old").mkdir()
    connection = connect(tmp_path / "old" / FILE)
    Format("ledger", LEDGER.application_id, MIGRATIONS[:1], error=LedgerError, kept="").migrate(
        connection, ""
    )
    base, small = (
        msgspec.json.encode(review.base),
        msgspec.json.encode(msgspec.structs.replace(review, base=())),
    )
    connection.execute("INSERT INTO blobs VALUES ('hash', ?, ?)", (len(base), zlib.compress(base)))
    connection.execute("INSERT INTO files VALUES ('f', ?, 'hash', ?)", (review.rev, small))
    for each in entries:
        row = (each.path, each.run, msgspec.json.encode(each))
        connection.execute("INSERT INTO entries (path, run, data) VALUES (?, ?, ?)", row)
    connection.close()
    with Ledger.open(tmp_path / "old") as ledger:
        assert ledger.get("f") == review
        assert ledger.entries() == entries
        assert ledger.undo("f").review.hunks == ()
        with pytest.raises(NothingToUndo):
            ledger.undo("f")


def test_checkpoints_of_an_older_format_are_found_by_their_run(tmp_path: Path) -> None:
    """Also one so long that it is compressed."""
    connection = connect(tmp_path / FILE)
    Format("ledger", LEDGER.application_id, MIGRATIONS[:3], error=LedgerError, kept="").migrate(
        connection, ""
    )
    files = tuple(FileVersion(path=f"f{number}", blob="", mode=0) for number in range(500))
    points = [
        Checkpoint(id="c1", created="", run="short"),
        Checkpoint(id="c2", created="", run="long", files=files),
    ]
    for point in points:
        row = (point.id, pack(msgspec.json.encode(point)))
        connection.execute("INSERT INTO checkpoints (id, data) VALUES (?, ?)", row)
    connection.close()
    with Ledger.open(tmp_path) as ledger:
        assert [ledger.checkpoint_of_run(point.run) for point in points] == points
        assert [ledger.checkpoint(point.id) for point in points] == points
        assert ledger.checkpoint_of_run("") is None
        assert ledger.checkpoints(prefix="c", limit=1) == [points[1]]


def test_an_unusable_ledger_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"no database" * 100)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(tmp_path)
    with Ledger.open(None) as ledger, pytest.raises(LedgerError, match="no data"):
        ledger.blob("0" * 64)


@pytest.mark.parametrize("files", [20, 400])
def test_what_is_asked_for_each_file_of_a_run_does_not_grow_with_the_run(tmp_path: Path, files: int) -> None:
    """An undo of thousands of files would take hours."""
    with Ledger.open(tmp_path) as ledger, ledger.batch(flush=False):
        for number in range(files):
            begun(ledger, f"f{number}")
        writes = [PlannedWrite(path=f"f{n}", rev=1, ids=(), before="", after="") for n in range(files)]
        ledger.begin_saving(SaveIntent(id="i", files=tuple(writes)))
        assert ledger.planned_writes("f7") == [writes[7]]
        for ask in (
            lambda: ledger.entries(path="f7", run="r"),
            lambda: ledger.entries_after("f7", "r"),
            lambda: ledger.planned_writes("f7"),
        ):
            assert steps(ledger, ask) < 200


def steps(ledger: Ledger, ask: Callable[[], object]) -> int:
    """The instructions of SQLite's virtual machine that a question takes."""
    counted = count()
    with ledger.database.reading() as connection:
        connection.set_progress_handler(lambda: next(counted) < 0, 1)
        try:
            ask()
        finally:
            connection.set_progress_handler(None, 0)
    return next(counted)
