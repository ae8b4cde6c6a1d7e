"""If these fail, a window does not notice changes by other windows, agents or processes."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import StaleRevision
from newel.review.model.rebase import rebased
from newel.review.store.ledger import Ledger
from newel.review.store.schema import LedgerError
from newel.review.store.watch import MAX_PATHS, LedgerWatch, News


def write(ledger: Ledger, *paths: str, text: bytes = b"one\n") -> None:
    for path in paths:
        ledger.change(path, "rebase", lambda now: rebased(now, lines_of(text)))


def write_elsewhere(folder: Path, *paths: str) -> None:
    """As another process does."""
    process = multiprocessing.get_context("spawn").Process(target=_write, args=(folder, paths))
    process.start()
    process.join()
    assert process.exitcode == 0


def _write(folder: Path, paths: tuple[str, ...]) -> None:
    with Ledger.open(folder) as ledger:
        write(ledger, *paths)


def told(watch: LedgerWatch) -> News:
    """The next notification."""
    deadline = time.monotonic() + 10
    while (news := watch.wait()) is None:
        assert time.monotonic() < deadline, "nothing was told"
    return news


def write_twice(ledger: Ledger) -> None:
    write(ledger, "a", "b")
    write(ledger, "a", text=b"two\n")


def write_and_fail(ledger: Ledger) -> None:
    write(ledger, "a")
    ledger.undo("a", rev=7)


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("where", ["on disk", "in memory"])
def test_a_change_by_another_thread_names_its_file(tmp_path: Path, where: str) -> None:
    with Ledger.open(tmp_path if where == "on disk" else None) as ledger:
        write(ledger, "known before")
        watch = LedgerWatch(ledger)
        thread = in_thread(lambda: write_twice(ledger))
        thread.join()
        assert told(watch) == News({"a": 2, "b": 1}, is_foreign=False)
        assert watch.wait() is None
        watch.close()


def test_a_change_by_another_process_is_reported_as_one(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        watch = LedgerWatch(ledger)
        write_elsewhere(tmp_path, "a")
        assert told(watch) == News({"a": 1}, is_foreign=True)
        write(ledger, "b")
        assert told(watch) == News({"b": 1}, is_foreign=False)
        watch.close()


def test_a_batch_is_reported_only_once_it_is_readable(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        watch = LedgerWatch(ledger)
        found: list[tuple[News, bool]] = []
        done = threading.Event()

        def look() -> None:
            found.append((told(watch), done.is_set()))

        with ledger.batch():
            write(ledger, "a")
            thread = in_thread(look)
            thread.join(0.2)
            write(ledger, "b")
            done.set()
        thread.join()
        assert found == [(News({"a": 1, "b": 1}, is_foreign=False), True)]
        watch.close()


def test_a_rolled_back_change_is_not_reported(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        watch = LedgerWatch(ledger)
        with pytest.raises(StaleRevision), ledger.batch():
            write_and_fail(ledger)
        assert watch.wait() is None
        watch.close()


def test_a_change_of_too_many_files_names_none(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        watch = LedgerWatch(ledger)
        with ledger.batch():
            write(ledger, *map(str, range(MAX_PATHS)))
        assert len(told(watch).revs) == MAX_PATHS
        with ledger.batch():
            write(ledger, *map(str, range(MAX_PATHS + 1)), text=b"two\n")
        assert told(watch).revs == {}
        watch.close()


def test_a_purge_is_reported_as_a_change_of_any_file(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        write(ledger, "a")
        watch = LedgerWatch(ledger)
        with ledger.database.writing() as connection:
            connection.execute("DELETE FROM entries")
        assert told(watch).revs == {}
        watch.close()


def test_closing_the_ledger_ends_its_watch(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        watch = LedgerWatch(ledger)
    with pytest.raises(LedgerError):
        watch.wait()
