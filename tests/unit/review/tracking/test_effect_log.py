"""If these fail, a killed process's unfinished work is not recovered, or recovered after it was recorded."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import msgspec

from newel.review.store.ledger import EffectRecord, Ledger
from newel.review.tracking.effect_log import EffectLog, PendingEffect
from newel.workspace.snapshots.index import pack_all
from newel.workspace.snapshots.tree import FileTree, FolderState


def effect(title: str, path: str | None = "f") -> EffectRecord:
    return EffectRecord(run="r", session="s", title=title, began="", began_ns=0, path=path)


def known(name: str, content: bytes) -> bytearray:
    """The known facts of one file."""
    tree = FileTree()
    tree.folders[""] = FolderState(None)
    tree.put(name, bytes(36) + content)
    return pack_all("/", tree, set())


def recovered(folder: Path) -> list[PendingEffect]:
    """What the next process finds and records."""
    found: list[PendingEffect] = []
    with Ledger.open(folder) as ledger:
        log = EffectLog(ledger, folder)
        for pending in log.recover("/"):
            found.append(pending)
            log.end(pending.id)
    return found


def titles(folder: Path) -> list[str]:
    return [pending.record.title for pending in recovered(folder)]


def files(folder: Path) -> set[str]:
    """The files beside the ledger's own."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("ledger.")}


def killed(target: Callable[[Path, Event], None], folder: Path) -> None:
    """A process that is killed once it says so."""
    context = multiprocessing.get_context("spawn")
    is_ready = context.Event()
    child = context.Process(target=target, args=(folder, is_ready))
    child.start()
    assert is_ready.wait(30)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(30)


def _killed(folder: Path, is_ready: Event) -> None:
    with Ledger.open(folder) as ledger:
        log = EffectLog(ledger, folder)
        log.save_known(known("f", b"1" * 32))
        first = log.begin(effect("begun and recorded"))
        log.begin(effect("begun first", None))
        log.save_known(known("g", b"2" * 32))
        for number in range(50):
            log.end(log.begin(effect(f"recorded {number}", None)))
        log.begin(effect("begun second", None))
        log.end(first)
        is_ready.set()
        signal.pause()


def test_recovery_finds_exactly_the_unfinished_work_of_a_killed_process(tmp_path: Path) -> None:
    killed(_killed, tmp_path)
    found = recovered(tmp_path)
    assert [pending.record.title for pending in found] == ["begun first", "begun second"]
    before = {"f": bytes(36) + b"1" * 32, "g": bytes(36) + b"2" * 32}
    assert all(pending.known.tree.records == {"": before} for pending in found)
    assert titles(tmp_path) == []
    assert not files(tmp_path)


def test_unfinished_work_of_a_live_process_is_not_recovered(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        log = EffectLog(ledger, tmp_path)
        log.begin(effect("under way"))
        assert titles(tmp_path) == []
        log.close()
        assert titles(tmp_path) == ["under way"]


def test_an_interrupted_recovery_is_completed_by_the_next(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        log = EffectLog(ledger, tmp_path)
        log.begin(effect("one"))
        log.begin(effect("two"))
        log.close()
        recovery = log.recover("/")
        log.end(next(recovery).id)
        recovery.close()
    assert titles(tmp_path) == ["two"]


def _killed_older(folder: Path, is_ready: Event) -> None:
    """As a version did that stored its effects in the lock file."""
    file = os.open(folder / "0123.running", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    fcntl.flock(file, fcntl.LOCK_EX)
    (folder / "0123.known").write_bytes(known("f", b"1" * 32))
    for name, note in (("a", effect("recorded")), ("b", effect("begun", None)), ("c", effect("file"))):
        os.write(file, msgspec.json.encode({"name": name, "note": note}) + b"\n")
    os.write(file, msgspec.json.encode({"name": "a"}) + b"\n")
    os.write(file, msgspec.json.encode({"name": "d", "note": effect("cut off")})[:-5])
    is_ready.set()
    signal.pause()


def test_unfinished_work_of_an_older_version_is_found_once(tmp_path: Path) -> None:
    killed(_killed_older, tmp_path)
    found = recovered(tmp_path)
    assert [pending.record.title for pending in found] == ["begun", "file"]
    assert found[0].known.tree.records == {"": {"f": bytes(36) + b"1" * 32}}
    assert titles(tmp_path) == []
    assert not files(tmp_path)


def test_a_process_that_exits_normally_leaves_nothing(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        log = EffectLog(ledger, tmp_path)
        log.save_known(known("f", b"1" * 32))
        log.end(log.begin(effect("done", None)))
        log.close()
    assert not files(tmp_path)


def test_pending_facts_are_complete_however_often_they_are_extended(tmp_path: Path) -> None:
    """And takes no more room than a few times its content."""
    with Ledger.open(tmp_path) as ledger:
        log = EffectLog(ledger, tmp_path)
        log.begin(effect("begun", None))
        contents = [b"%032d" % number for number in range(20_000)]
        for content in contents:
            log.save_known(known("f", content))
        (path,) = tmp_path.glob("*.known")
        size = path.stat().st_size
        assert len(contents) * len(known("f", contents[0])) > 2 * size
        log.save_known(known("g", contents[0]))
        os.truncate(path, path.stat().st_size - 1)  # it was killed before that command started
        log.close()
    [pending] = recovered(tmp_path)
    assert pending.known.tree.records == {"": {"f": bytes(36) + contents[-1]}}


def test_recovery_removes_the_files_that_kills_left_half_made(tmp_path: Path) -> None:
    """They would pile up in Newel's folder for ever."""
    Ledger.open(tmp_path).close()
    (tmp_path / ".0123.tmp").touch()
    with (tmp_path / ".4567.tmp").open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        assert titles(tmp_path) == []
    assert files(tmp_path) == {".4567.tmp"}
