"""What the looks at one project share: its limits, its store, and what is known of its files."""

from __future__ import annotations

from typing import Final

from newel.workspace.snapshots.port import BlobStore, SnapshotLimits, SnapshotSource
from newel.workspace.snapshots.tree import FileSnapshot, FileTree

_NOTICES: Final = 20


class ScanState:
    """What looks share and leave behind.

    ``fresh``: files written so shortly before they were read that their times do not tell whether they were written
    again. ``linked``: files with more than one name, which may be written under another. ``remembered``: the records
    of an earlier process. ``changed``: how files were that have changed since, and ``new_folders``, the directories that
    came into being, which were not reported yet. ``spent``: bytes copied.
    """

    def __init__(self, source: SnapshotSource, blobs: BlobStore, limits: SnapshotLimits) -> None:
        self.source = source
        self.blobs = blobs
        self.limits = limits
        self.tree = FileTree()
        self.fresh: set[str] = set()
        self.linked: set[str] = set()
        self.remembered: dict[str, dict[str, bytes]] = {}
        self.changed: dict[str, FileSnapshot | None] = {}
        self.new_folders: set[str] = set()
        self.ignored: set[str] = set()
        self.notices: dict[str, None] = {}
        self.untold = 0
        self.spent = 0
        self.umask = 0o022
        self.full = False
        self.rules_changed = False

    def tell(self, words: str) -> None:
        """Say something to the user, unless too much was said already."""
        if len(self.notices) < _NOTICES:
            self.notices.setdefault(words)
        elif words not in self.notices:
            self.untold += 1
