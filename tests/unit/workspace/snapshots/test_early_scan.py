"""If these fail, a scan that began while the model answered loses a change, or outlives its agent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from newel.agent.errors import WorkspaceError
from newel.review.store.ledger import Ledger
from newel.workspace.snapshots.local_source import LocalSnapshotSource
from newel.workspace.snapshots.manager import SnapshotManager

pytestmark = pytest.mark.anyio

FILES = 300


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for number in range(FILES):
        path = folder / f"{number % 10}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    return folder


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.open(None) as ledger:
        yield ledger


def manager(root: Path, ledger: Ledger, index: Path | None = None) -> SnapshotManager:
    return SnapshotManager(LocalSnapshotSource(str(root)), ledger, index=index)


async def test_changes_after_it_are_found_as_after_any_other(root: Path, ledger: Ledger) -> None:
    snapshots = manager(root, ledger)
    snapshots.take_early()
    await snapshots.take()
    (root / "3/3.txt").write_text("changed\n")
    (root / "made.txt").write_text("made\n")
    (root / "4/4.txt").unlink()
    changes = await snapshots.changes()
    snapshots.close()
    assert [change.path for change in changes.files] == ["3/3.txt", "4/4.txt", "made.txt"]
    before = [ledger.blob(change.before.blob) for change in changes.files if change.before]
    assert before == [b"3\n", b"4\n"]


async def test_a_write_of_newels_meanwhile_is_not_a_commands_change(root: Path, ledger: Ledger) -> None:
    snapshots = manager(root, ledger)
    snapshots.take_early()
    (root / "5/5.txt").write_text("written\n")
    snapshots.acknowledge("5/5.txt", None)
    await snapshots.take()
    assert (await snapshots.changes()).files == []
    snapshots.close()


async def test_it_ends_when_the_agent_does(root: Path, ledger: Ledger, tmp_path: Path) -> None:
    """Whatever it has done by then, the next process covers all files."""
    index = tmp_path / "files.index"
    for _ in range(5):
        snapshots = manager(root, ledger, index)
        snapshots.take_early()
        snapshots.close()
        assert not any(thread.name == "first scan" for thread in threading.enumerate())
    snapshots = manager(root, ledger, index)
    await snapshots.take()
    (root / "7/7.txt").write_text("changed\n")
    (change,) = (await snapshots.changes()).files
    snapshots.close()
    assert change.before is not None
    assert ledger.blob(change.before.blob) == b"7\n"


async def test_a_failure_is_reported_to_who_waits_for_the_scan(
    tmp_path: Path, ledger: Ledger, capfd: pytest.CaptureFixture[str]
) -> None:
    snapshots = manager(tmp_path / "missing", ledger)
    snapshots.take_early()
    with pytest.raises(WorkspaceError, match="Cannot scan the files"):
        await snapshots.take()
    snapshots.close()
    assert capfd.readouterr().err == ""


async def test_there_is_one(root: Path, ledger: Ledger) -> None:
    """A second call, and one after the first scan, do nothing."""
    snapshots = manager(root, ledger)
    snapshots.take_early()
    snapshots.take_early()
    await snapshots.take()
    (root / "8/8.txt").write_text("changed\n")
    snapshots.take_early()
    assert [change.path for change in (await snapshots.changes()).files] == ["8/8.txt"]
    snapshots.close()
