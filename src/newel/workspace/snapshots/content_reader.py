"""Reads the contents of new and changed files into the store, at the end of a scan."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from newel.workspace.snapshots.port import GONE, Reading
from newel.workspace.snapshots.state import TreeUpdate
from newel.workspace.snapshots.tree import ExclusionReason, FileStat, record, split, state_of

_BATCH_BYTES: Final = 8 << 20
_BATCH_FILES: Final = 512
"""Put into the store at a time."""


class _PendingRead(NamedTuple):
    """``size`` is in bytes, as far as known."""

    size: int = 0
    absorb: bool = False


class ContentReader:
    """Use once: ``add`` files, then ``run``."""

    def __init__(self, update: TreeUpdate, check_stopped: Callable[[], None]) -> None:
        self._update = update
        self._state = update.state
        self._tree = update.state.tree
        self._check_stopped = check_stopped
        self._pending: dict[str, _PendingRead] = {}
        self._pipes: dict[str, FileStat] = {}
        self._batch: list[tuple[str, FileStat, bytes]] = []
        self._batch_size = 0

    def add(self, path: str, found: FileStat, *, absorb: bool) -> None:
        self._pending[path] = _PendingRead(found.st_size, absorb)
        if stat.S_ISFIFO(found.st_mode):
            self._pipes[path] = found

    def discard(self, path: str) -> None:
        self._pending.pop(path, None)
        self._pipes.pop(path, None)

    def run(self) -> None:
        """Also reads the files whose signatures cannot be trusted."""
        acknowledged = (path for path in self._update.acknowledged if self._tree.record(path))
        for path in [*self._state.unsettled, *acknowledged]:
            self._pending.setdefault(path, _PendingRead())
        for path, result in self._state.source.read(self._requests(), self._state.limits.file):
            self._take(path, result)
        # A pipe is never opened: that may block, or wake up its writer.
        for path, found in self._pipes.items():
            if split(path)[0] in self._tree.folders:
                self._take(path, Reading(b"", found, fresh=False))
        self._store_batch()

    def _requests(self) -> Iterator[tuple[str, int]]:
        """The paths to read, with their sizes as far as known."""
        for path, (size, _) in self._in_order():
            self._check_stopped()
            if split(path)[0] not in self._tree.folders or path in self._pipes:
                continue
            if self._tree.state(path) is None and size > self._room():
                self._store_batch()  # contents that are in the store already take no room
                if size > self._room():
                    self._update.exclude(path, ExclusionReason.ROOM)
                    continue
            yield path, size

    def _in_order(self) -> list[tuple[str, _PendingRead]]:
        """By directory; smallest first where there may not be room for all, as sources matter more than data."""
        if sum(read.size for read in self._pending.values()) < self._room() // 2:
            return sorted(self._pending.items())
        return sorted(self._pending.items(), key=lambda item: (item[1].size, item[0]))

    def _room(self) -> int:
        return self._state.limits.total - self._state.copied - self._batch_size

    def _take(self, path: str, result: Reading | OSError) -> None:
        if isinstance(result, OSError):
            if result.errno in GONE:
                self._update.drop_file(path)
            else:
                self._update.exclude(path, ExclusionReason.UNREADABLE)
            return
        data, found, fresh = result
        if data is None:
            self._update.exclude(path, ExclusionReason.LARGE)
            return
        self._update.mark(path, unsettled=fresh, linked=found.st_nlink > 1)
        self._batch.append((path, found, data))
        self._batch_size += len(data)
        if self._batch_size >= _BATCH_BYTES or len(self._batch) >= _BATCH_FILES:
            self._store_batch()

    def _store_batch(self) -> None:
        batch, self._batch, self._batch_size = self._batch, [], 0
        blobs: list[bytes] = []
        records: list[tuple[str, bytes]] = []
        for path, found, data in batch:
            made = record(found, hashlib.sha256(data).digest())
            before = self._tree.state(path)
            if before is None or before.blob != state_of(made).blob:
                if self._state.copied + len(data) > self._state.limits.total:
                    self._update.exclude(path, ExclusionReason.ROOM)
                    continue
                self._state.copied += len(data)
                blobs.append(data)
            records.append((path, made))
        if blobs:
            self._state.blobs.put_blobs(blobs)
        for path, made in records:
            self._update.put_file(path, made, absorb=self._pending[path].absorb)
