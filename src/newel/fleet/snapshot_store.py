"""The port of the place where snapshots are kept, for all machines of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from newel.fleet.snapshot_repository import SnapshotRef, SnapshotRepository


class SnapshotStore(Protocol):
    """Methods block, and raise ``SnapshotError``."""

    @property
    def name(self) -> str:
        """The store's address, without passwords."""
        ...

    def put(self, number: int, commit: str, repository: SnapshotRepository, /) -> SnapshotRef:
        """Store a snapshot of a job; returns its place, which may be told once this has returned. To store it again changes nothing;
        another snapshot of the same number, by a worker that was believed dead, gets another place.
        """
        ...

    def fetch(self, ref: SnapshotRef, repository: SnapshotRepository, /) -> None:
        """Bring the objects of a snapshot into a job's repository."""
        ...

    def remove(self, jobs: Sequence[str], /) -> None:
        """Remove all snapshots of some jobs. What is not there is no error."""
        ...

    def remove_superseded(
        self, first: SnapshotRef, last: SnapshotRef, repository: SnapshotRepository, /
    ) -> None:
        """Remove the snapshots of a job that are older than the ``last`` one in its journal, but the ``first`` one and those that these two
        need. What a worker that was believed dead does so harms no other one: that one continues from ``last``, or from a later one.
        """
        ...

    def collect_garbage(self) -> None:
        """Begin to free the space of what was removed. Called often, it does so once a day, on one machine at a time."""
        ...
