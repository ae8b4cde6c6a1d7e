"""Where the changes that agents make go: into the ledger, as applied hunks or as proposals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from newel.workspace.snapshots.port import FileChange
from newel.workspace.snapshots.uncovered import UncoveredChanges


class RunEnd(NamedTuple):
    """What there is to say at the end of a run: ``errors`` about changes that could not be recorded; ``uncovered`` about those
    that never are; ``background`` describes the processes that run on.
    """

    errors: list[str]
    uncovered: list[str]
    background: Sequence[str]


class ChangeSink(Protocol):
    """Stores changes of files in the ledger."""

    def not_covered(self, message: str) -> str:
        """The message for the user about a file that is not covered."""
        ...

    def describe_uncovered(self, uncovered: UncoveredChanges) -> list[str]:
        """Messages for the user about changes, at the end of a run, of what is not covered."""
        ...

    async def new_folders(self, folders: Sequence[str]) -> Sequence[str]:
        """Those of some folders that the run created, and that go with the last file in them."""
        ...

    def new(self, changes: Sequence[FileChange], *, since: str) -> list[FileChange]:
        """The changes that have not been recorded since a time, in ISO 8601. Blocks."""
        ...

    async def put(self, run: str, changes: Sequence[FileChange], prepare: Callable[[], None]) -> list[str]:
        """Record changes as a run's; returns messages for the user. ``prepare`` blocks; it is called first, in the same
        transaction as the first changes.
        """
        ...
