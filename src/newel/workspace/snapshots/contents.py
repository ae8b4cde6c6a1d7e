"""Reads the contents of the files that a scan found new or changed into the store, and their records into the tree."""

from __future__ import annotations

import contextlib
import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from newel.workspace.snapshots.port import DATA_FILE, GONE, Reading
from newel.workspace.snapshots.rule_history import RULE_FILE
from newel.workspace.snapshots.state import TreeUpdate
from newel.workspace.snapshots.tree import ExclusionReason, FileStat, file_record, sha256_of, split

_BATCH_BYTES: Final = 16 << 20
_BATCH_FILES: Final = 6_144
"""Put into the store at a time. In its index neighbours are rare, so that many small transactions write much more."""

_MAX_WAITING: Final = 8_192
"""Files that wait to be read until the scan is over: their names and stats take more memory than all else."""

_SMALL_FILE: Final = 64 << 10
"""In bytes. Such files are read before the scan is over if too many wait."""


class _PendingRead(NamedTuple):
    """``size`` is in bytes, as far as known. ``is_new``: the tree has no record of the file."""

    size: int = 0
    absorb: bool = False
    is_new: bool = False


class ContentReader:
    """``add`` files, then ``run``, once."""

    def __init__(self, update: TreeUpdate, check_stopped: Callable[[], None]) -> None:
        self._update = update
        self._state = update.state
        self._tree = update.state.tree
        self._check_stopped = check_stopped
        self._unsettled = set(self._state.unsettled)
        self._waiting: dict[str, _PendingRead] = {}
        self._unrecorded: dict[str, _PendingRead] = {}
        """Files that were read, but whose records are not in the tree yet."""
        self._pipes: dict[str, FileStat] = {}
        self._batch: list[tuple[str, _PendingRead, FileStat, bytes]] = []
        """Files that were read."""
        self._batch_size = 0
        self._batch_data = 0
        """Of ``_batch_size``, the bytes of files larger than ``DATA_FILE``."""
        self.new_count = 0
        """Files that were added and are not in the tree yet."""

    def add(self, path: str, status: FileStat, *, absorb: bool) -> None:
        if path in self._waiting or path in self._unrecorded:
            self.discard(path)
        is_new = self._tree.record(path) is None
        self.new_count += is_new
        self._waiting[path] = _PendingRead(status.st_size, absorb, is_new)
        if stat.S_ISFIFO(status.st_mode):
            self._pipes[path] = status

    def discard(self, path: str) -> None:
        request = self._waiting.pop(path, None) or self._unrecorded.pop(path, None)
        if request is not None:
            self.new_count -= request.is_new
            self._pipes.pop(path, None)

    def run(self) -> None:
        """Also reads the files whose signatures cannot be trusted."""
        tree = self._tree
        unsettled = (path for path in self._state.unsettled if path in self._unsettled)
        acknowledged = (
            path for path in self._update.acknowledged if tree.record(path) and path not in tree.folders
        )
        for path in [*unsettled, *acknowledged]:
            if path not in self._unrecorded:
                self._waiting.setdefault(path, _PendingRead())
        self._read(self._in_order())
        # A pipe is never opened: that may block, or wake up its writer.
        for path, status in list(self._pipes.items()):
            if split(path)[0] in self._tree.folders:
                self._add_content(path, Reading(b"", status, fresh=False))
        self._store_batch()

    def read_rule_files(self) -> None:
        """Read the changed files with ignore rules before all others."""
        rule_files = [item for item in self._waiting.items() if split(item[0])[1] == RULE_FILE]
        if rule_files:
            self._read(rule_files)
            self._store_batch()

    def read_small(self) -> None:
        """Read small files already if many wait and there is room for all of them."""
        if len(self._waiting) < _MAX_WAITING:
            return
        small = [item for item in self._waiting.items() if item[1].size <= _SMALL_FILE]
        if sum(request.size for _, request in small) < self._room() // 2:
            self._read(small)  # those of one directory follow each other

    def _read(self, files: Iterable[tuple[str, _PendingRead]]) -> None:
        for path, result in self._state.source.read(self._requests(files), self._state.limits.file):
            self._add_content(path, result)

    def _requests(self, files: Iterable[tuple[str, _PendingRead]]) -> Iterator[tuple[str, int]]:
        """The paths to read, with their sizes as far as known."""
        for path, request in files:
            self._check_stopped()
            if split(path)[0] not in self._tree.folders or path in self._pipes:
                continue
            if request.is_new and not self._has_room(request.size) and self._must_be_stored(request):
                self._store_batch()  # contents that are in the store already take no room
                if not self._has_room(request.size):
                    self._exclude(path, ExclusionReason.ROOM)
                    continue
            yield path, request.size

    def _must_be_stored(self, request: _PendingRead) -> bool:
        """Whether a later change could not be undone without this content. What a command makes can be undone without."""
        return request.absorb or not self._update.report

    def _in_order(self) -> list[tuple[str, _PendingRead]]:
        """By directory; smallest first where there may not be room for all, as sources matter more than data."""
        if sum(request.size for request in self._waiting.values()) < self._room() // 2:
            return sorted(self._waiting.items())
        return sorted(self._waiting.items(), key=lambda item: (item[1].size, item[0]))

    def _room(self) -> int:
        return self._state.limits.total - self._state.copied - self._batch_size

    def _has_room(self, size: int) -> bool:
        if size > DATA_FILE:
            data_room = self._state.limits.data - self._state.copied_data - self._batch_data
            return size <= data_room and size <= self._room()
        return size <= self._room()

    def _exclude(self, path: str, reason: ExclusionReason) -> None:
        self.discard(path)
        self._update.exclude(path, reason)

    def _add_content(self, path: str, result: Reading | OSError) -> None:
        if isinstance(result, OSError):
            if result.errno in GONE:
                self.discard(path)
                self._update.drop(path)
            else:
                self._exclude(path, ExclusionReason.UNREADABLE)
            return
        data, status, fresh = result
        if data is None and stat.S_ISFIFO(status.st_mode):
            data = b""  # a tool tried to write it, or it has just taken a file's place; see `run`
        if data is None:
            self._add_large(path)
            return
        self._update.mark(path, unsettled=fresh, linked=status.st_nlink > 1)
        if self._batch_size >= _BATCH_BYTES or len(self._batch) >= _BATCH_FILES:
            self._store_batch(flush=False)  # with the last one, which is never empty
        request = self._unrecorded[path] = self._waiting.pop(path)
        self._batch.append((path, request, status, data))
        self._batch_size += len(data)
        self._batch_data += len(data) if len(data) > DATA_FILE else 0

    def _add_large(self, path: str) -> None:
        known = self._tree.state(path) if path in self._state.unstored else None
        must_be_stored = self._must_be_stored(self._waiting[path])
        digest = None
        if known is not None or not must_be_stored:
            with contextlib.suppress(OSError):
                digest = self._state.source.digest(path)
        if digest is None or (must_be_stored and known and digest.sha256.hex() != known.blob):
            self._exclude(path, ExclusionReason.LARGE)
            return
        self.discard(path)
        self._update.mark(path, unsettled=digest.fresh, linked=digest.found.st_nlink > 1)
        self._update.put(path, file_record(digest.found, digest.sha256))
        self._state.unstored.add(path)

    def _store_batch(self, *, flush: bool = True) -> None:
        batch, self._batch, self._batch_size, self._batch_data = self._batch, [], 0, 0
        blobs: list[bytes] = []
        names: list[str] = []
        records: list[tuple[str, _PendingRead, bytes]] = []
        finder = self._state.secret_finder(len(batch))
        for path, request, status, data in batch:
            sha256 = hashlib.sha256(data).digest()
            before = None if request.is_new else self._tree.record(path)
            if before is None or sha256_of(before) != sha256:
                if self._must_be_stored(request) and finder.is_secret(path, data):
                    if not self._state.held.put(path, data):
                        self._exclude(path, ExclusionReason.SECRET)
                        continue
                elif self._has_room(len(data)):
                    self._state.count_copy(path, len(data))
                    blobs.append(data)
                    names.append(sha256.hex())
                elif self._must_be_stored(request):
                    self._exclude(path, ExclusionReason.ROOM)
                    continue
                else:
                    self._state.unstored.add(path)
            records.append((path, request, file_record(status, sha256)))
        if blobs:
            self._state.blobs.put_blobs(blobs, names=names, flush=flush)
        for path, request, record in records:
            # Else the folder, or the file in it, was replaced meanwhile.
            if self._unrecorded.get(path) is request and split(path)[0] in self._tree.folders:
                self.discard(path)
                self._update.put(path, record, absorb=request.absorb)
