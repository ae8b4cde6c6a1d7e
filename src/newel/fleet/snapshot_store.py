"""The port of the place where snapshots are kept, for all machines of a fleet."""

from __future__ import annotations

from typing import Protocol

from newel.fleet.snapshot_repository import SnapshotRef, SnapshotRepository


class SnapshotStore(Protocol):
    """Methods block, and raise ``SnapshotError``."""

    @property
    def name(self) -> str:
        """The store's address, without passwords."""
        ...

    def put(self, number: int, commit: str, repository: SnapshotRepository, /) -> SnapshotRef:
        """Store a snapshot of a job; returns its place, which may be told once this has returned. To store it again changes nothing; another
        snapshot of the same number, by a worker that was believed dead, gets another place.
        """
        ...

    def fetch(self, ref: SnapshotRef, repository: SnapshotRepository, /) -> None:
        """Bring the objects of a snapshot into a job's repository."""
        ...
