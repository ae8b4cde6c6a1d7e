"""One scan of a project: compares signatures with those of the last scan, and reads what is new or changed."""

from __future__ import annotations

import contextlib
import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from newel.workspace.snapshots.ignore_rules import IgnoreRule, is_never_covered
from newel.workspace.snapshots.port import DATA_FILE, GONE, Entries, Reading
from newel.workspace.snapshots.rule_history import RULE_FILE
from newel.workspace.snapshots.state import TreeUpdate
from newel.workspace.snapshots.tree import (
    ExclusionReason,
    FileStat,
    FolderState,
    file_record,
    folder_record,
    is_kept,
    join,
    sha256_of,
    signature,
    signature_of,
    split,
)

_CLASSIFIED: Final = 20_000
"""New names to ask git about at a time: their stats take more memory than all else."""

_BATCH_BYTES: Final = 8 << 20
_BATCH_FILES: Final = 4096
"""Put into the store at a time."""


class DirectoryVisit(NamedTuple):
    """A directory to compare: all of it, or some names. ``absorb``: its contents are not new."""

    path: str
    names: set[str] | None
    absorb: bool


class _NewEntry(NamedTuple):
    path: str
    found: FileStat
    absorb: bool

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.found.st_mode)


class Scan:
    """Use once. ``recheck``: excluded names are classified again. ``check_stopped`` raises ``Stopped`` once nobody waits
    for the scan any more.
    """

    def __init__(self, update: TreeUpdate, check_stopped: Callable[[], None], *, recheck: bool) -> None:
        self._update = update
        self._state = update.state
        self._source = update.state.source
        self._tree = update.state.tree
        self._recheck = recheck
        self._check_stopped = check_stopped
        self._contents = _ContentReader(update, check_stopped)
        self._new: list[_NewEntry] = []
        self._new_files = 0
        self._next_level: list[DirectoryVisit] = []

    def run(self, visits: Iterable[DirectoryVisit]) -> None:
        """Raises ``Stopped``, ``OSError`` if the root does not exist, and what the source and the store raise."""
        try:
            self._source.start()
            level = list(visits)
            while level:  # level by level, so that a host lists a whole level in one request
                self._source.prefetch(visit.path for visit in level if visit.path in self._tree.folders)
                for visit in level:
                    self._check_stopped()
                    self._visit(visit)
                    if len(self._new) >= _CLASSIFIED:
                        self._classify_new()
                self._classify_new()
                level, self._next_level = self._next_level, []
            self._contents.run()
        finally:
            self._source.finish()

    # -- directories ------------------------------------------------------------------------------

    def _visit(self, visit: DirectoryVisit) -> None:
        folder = self._tree.folders.get(visit.path)
        if folder is None:
            return  # excluded, or deleted meanwhile
        try:
            missing = folder.names() if visit.names is None else folder.names() & visit.names
            entries = self._entries(visit)
            if indexed := self._state.indexed.pop(visit.path, None):
                entries = [each for each in entries if not self._restore(visit.path, folder, indexed, *each)]
            for name, status in entries:
                missing.discard(name)
                self._compare(visit, folder, name, status)
            for name in missing:
                self._remove_missing(folder, join(visit.path, name), name)
        except OSError as error:
            if not visit.path:
                raise
            if error.errno in GONE:
                self._drop(visit.path)
            else:
                reason = error.strerror or error
                self._state.notices.add(f"Cannot read {visit.path}/ ({reason}): changes in it are unknown.")

    def _restore(
        self, path: str, folder: FolderState, indexed: Mapping[str, bytes], name: str, status: FileStat
    ) -> bool:
        """Whether a file is unchanged since an earlier process put its content into the store. Git need not be asked about it."""
        record = indexed.get(name)
        if record is None or signature_of(record) != signature(status):
            return False
        if stat.S_ISDIR(status.st_mode) or name in folder.records:
            return False
        if self._update.acknowledged and join(path, name) in self._update.acknowledged:
            return False
        self._tree.restore(folder, name, record)
        if status.st_nlink > 1:
            self._state.linked.add(join(path, name))
        return True

    def _entries(self, visit: DirectoryVisit) -> Entries:
        """A failing disk gets a second try: a change in a directory that was not read cannot be undone."""
        try:
            return list(self._source.entries(visit.path, visit.names))
        except OSError as error:
            if error.errno in GONE:
                raise
            return list(self._source.entries(visit.path, visit.names))

    def _compare(self, visit: DirectoryVisit, folder: FolderState, name: str, status: FileStat) -> None:
        path = join(visit.path, name)
        if name == ".git" and folder.repository != visit.path:
            self._set_repository(visit.path, folder.repository)
        if is_never_covered(name):
            self._state.uncovered.add(path)
            return
        if path in self._source.excluded:
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if not is_folder and not is_kept(status.st_mode):
            self._exclude_special(folder, path, name, absorb=visit.absorb)
            return
        self._drop_other_kind(folder, path, name, is_folder=is_folder)
        if name == RULE_FILE:
            self._state.note_rule_file(path, status.st_mode)
        record = folder.records.get(name)
        if record is not None and is_folder:
            if record != folder_record(status.st_mode):
                self._update.put(path, folder_record(status.st_mode))
            self._next_level.append(DirectoryVisit(path, None, visit.absorb))
        elif record is not None:
            if signature_of(record) != signature(status):
                self._contents.add(path, status, absorb=visit.absorb)
        elif not self._state.is_full and (self._recheck or name not in folder.excluded):
            self._new.append(_NewEntry(path, status, visit.absorb or name in folder.excluded))
            if len(self._new) > 2 * self._state.limits.files:
                self._stop_covering_new()

    def _exclude_special(self, folder: FolderState, path: str, name: str, *, absorb: bool) -> None:
        self._drop_other_kind(folder, path, name, is_folder=None)
        if self._update.report and not absorb and name not in folder.excluded:
            self._state.notices.add(f"{path} is now {ExclusionReason.SPECIAL.value}. This cannot be undone.")
        self._tree.exclude(path, ExclusionReason.SPECIAL)

    def _set_repository(self, path: str, before: str | None) -> None:
        """From this directory on the rules of another repository apply."""
        for below in self._tree.below(path):
            if self._tree.folders[below].repository == before:
                self._tree.folders[below].repository = path

    def _drop_other_kind(self, folder: FolderState, path: str, name: str, *, is_folder: bool | None) -> None:
        """Drop what had the name before, unless it was a folder or a file, too. None stands for neither."""
        if name in folder.records and (path in self._tree.folders) is not is_folder:
            self._drop(path)
        if is_folder is not None and folder.excluded.get(name) is ExclusionReason.SPECIAL:
            self._tree.include(path)

    def _remove_missing(self, folder: FolderState, path: str, name: str) -> None:
        self._drop_other_kind(folder, path, name, is_folder=None)
        reason = self._tree.include(path)
        if self._update.report and reason is not None and reason is not ExclusionReason.IGNORED:
            self._state.notices.add(f"{path} was deleted. It was {reason.value} and cannot be restored.")

    def _drop(self, path: str) -> None:
        """Drop a file, or a folder with all below it. Contents go first: a folder's record is found through the folder above."""
        paths = [path]
        for folder in self._tree.below(path):
            self._source.unwatch(folder)
            paths += [join(folder, name) for name in self._tree.folders[folder].records]
        for each in reversed(paths):
            self._update.drop(each)
            self._contents.discard(each)

    # -- new names ----------------------------------------------------------------------------------

    def _classify_new(self) -> None:
        """Cover each new name, or exclude it. Git is asked once for all of them."""
        # The directory of a name may have been replaced since: then the name is found again in the new one.
        new = [(entry, *split(entry.path)) for entry in self._new]
        new = [(entry, folder, name) for entry, folder, name in new if folder in self._tree.folders]
        self._new = []
        rule_files = [one for one in new if one[2] == RULE_FILE]
        self._cover_or_exclude(rule_files)
        self._contents.read_rule_files()  # what they say now matters for the other names
        self._cover_or_exclude([one for one in new if one[2] != RULE_FILE])

    def _cover_or_exclude(self, new: Sequence[tuple[_NewEntry, str, str]]) -> None:
        """Each entry with its directory and its name in it."""
        rules = self._source.rules
        ignored = rules.excluded(
            ((entry.path, self._tree.folders[folder].repository) for entry, folder, _ in new),
            blocked=self._state.blocked_repositories(),
        )
        for entry, parent, name in new:
            folder = self._tree.folders[parent]
            if folder.excluded.get(name) is ExclusionReason.IGNORED and folder.repository in rules.failed:
                continue  # as before
            if entry.path in ignored and self._is_excluded(entry, name, ignored[entry.path]):
                self._tree.exclude(entry.path, ExclusionReason.IGNORED)
                self._state.ignored.add(entry.path + "/" if entry.is_folder else entry.path)
            elif (
                max(self._tree.file_count + self._new_files, len(self._tree.folders))
                >= self._state.limits.files
            ):
                self._stop_covering_new()
            elif entry.is_folder:
                mode = entry.found.st_mode
                self._update.put_folder(entry.path, mode, folder.repository, absorb=entry.absorb)
                self._next_level.append(DirectoryVisit(entry.path, None, entry.absorb))
            else:
                self._new_files += 1
                self._contents.add(entry.path, entry.found, absorb=entry.absorb)

    def _is_excluded(self, entry: _NewEntry, name: str, rule: IgnoreRule | None) -> bool:
        """Whether a file that git ignores was so before, or by rules that were there before."""
        if entry.absorb:
            return True
        is_rule_file = name == RULE_FILE  # which may ignore itself
        return not (is_rule_file or self._state.rule_history.is_hidden_by_new_rule(entry.path, rule))

    def _stop_covering_new(self) -> None:
        """From now on a new file looks like one that was not covered."""
        self._state.is_full = True
        self._state.notices.add(
            f"The project has more than {self._state.limits.files:,} files. Changes to the rest, and to new files, "
            "cannot be undone."
        )


class _PendingRead(NamedTuple):
    """``size`` is in bytes, as far as known."""

    size: int = 0
    absorb: bool = False


class _ContentReader:
    """Reads the contents of new and changed files into the store, at the end of a scan. ``add`` files, then ``run``, once."""

    def __init__(self, update: TreeUpdate, check_stopped: Callable[[], None]) -> None:
        self._update = update
        self._state = update.state
        self._tree = update.state.tree
        self._check_stopped = check_stopped
        self._pending: dict[str, _PendingRead] = {}
        self._pipes: dict[str, FileStat] = {}
        self._batch: list[tuple[str, FileStat, bytes]] = []
        self._batch_size = 0
        self._batch_data = 0
        """Of ``_batch_size``, the bytes of files larger than ``DATA_FILE``."""

    def add(self, path: str, status: FileStat, *, absorb: bool) -> None:
        self._pending[path] = _PendingRead(status.st_size, absorb)
        if stat.S_ISFIFO(status.st_mode):
            self._pipes[path] = status

    def discard(self, path: str) -> None:
        self._pending.pop(path, None)
        self._pipes.pop(path, None)

    def run(self) -> None:
        """Also reads the files whose signatures cannot be trusted."""
        tree = self._tree
        acknowledged = (
            path for path in self._update.acknowledged if tree.record(path) and path not in tree.folders
        )
        for path in [*self._state.unsettled, *acknowledged]:
            self._pending.setdefault(path, _PendingRead())
        self._read(self._in_order())
        # A pipe is never opened: that may block, or wake up its writer.
        for path, status in self._pipes.items():
            if split(path)[0] in self._tree.folders:
                self._add_content(path, Reading(b"", status, fresh=False))
        self._store_batch()

    def read_rule_files(self) -> None:
        """Read the changed files with ignore rules before all others."""
        rule_files = [
            (path, read)
            for path, read in self._pending.items()
            if split(path)[1] == RULE_FILE and path not in self._pipes
        ]
        if rule_files:
            self._read(rule_files)
            self._store_batch()
            for path, _ in rule_files:
                self._pending.pop(path, None)

    def _read(self, files: Iterable[tuple[str, _PendingRead]]) -> None:
        for path, result in self._state.source.read(self._requests(files), self._state.limits.file):
            self._add_content(path, result)

    def _requests(self, files: Iterable[tuple[str, _PendingRead]]) -> Iterator[tuple[str, int]]:
        """The paths to read, with their sizes as far as known."""
        for path, (size, _) in files:
            self._check_stopped()
            if split(path)[0] not in self._tree.folders or path in self._pipes:
                continue
            if not self._has_room(size) and self._must_be_stored(path) and self._tree.record(path) is None:
                self._store_batch()  # contents that are in the store already take no room
                if not self._has_room(size):
                    self._update.exclude(path, ExclusionReason.ROOM)
                    continue
            yield path, size

    def _must_be_stored(self, path: str) -> bool:
        """Whether a later change could not be undone without this content. What a command makes can be undone without."""
        return self._pending[path].absorb or not self._update.report

    def _in_order(self) -> list[tuple[str, _PendingRead]]:
        """By directory; smallest first where there may not be room for all, as sources matter more than data."""
        if sum(read.size for read in self._pending.values()) < self._room() // 2:
            return sorted(self._pending.items())
        return sorted(self._pending.items(), key=lambda item: (item[1].size, item[0]))

    def _room(self) -> int:
        return self._state.limits.total - self._state.copied - self._batch_size

    def _has_room(self, size: int) -> bool:
        state = self._state
        data_room = state.limits.data - state.copied_data - self._batch_data if size > DATA_FILE else size
        return size <= min(self._room(), data_room)

    def _add_content(self, path: str, result: Reading | OSError) -> None:
        if isinstance(result, OSError):
            if result.errno in GONE:
                self._update.drop(path)
            else:
                self._update.exclude(path, ExclusionReason.UNREADABLE)
            return
        data, status, fresh = result
        if data is None:
            self._add_large(path)
            return
        self._update.mark(path, unsettled=fresh, linked=status.st_nlink > 1)
        if self._batch_size >= _BATCH_BYTES or len(self._batch) >= _BATCH_FILES:
            self._store_batch(flush=False)  # with the last one, which is never empty
        self._batch.append((path, status, data))
        self._batch_size += len(data)
        self._batch_data += len(data) if len(data) > DATA_FILE else 0

    def _add_large(self, path: str) -> None:
        known = self._tree.state(path) if path in self._state.unstored else None
        must_be_stored = self._must_be_stored(path)
        digest = None
        if known is not None or not must_be_stored:
            with contextlib.suppress(OSError):
                digest = self._state.source.digest(path)
        if digest is None or (must_be_stored and known and digest.sha256.hex() != known.blob):
            self._update.exclude(path, ExclusionReason.LARGE)
            return
        self._update.mark(path, unsettled=digest.fresh, linked=digest.found.st_nlink > 1)
        self._update.put(path, file_record(digest.found, digest.sha256))
        self._state.unstored.add(path)

    def _store_batch(self, *, flush: bool = True) -> None:
        batch, self._batch, self._batch_size, self._batch_data = self._batch, [], 0, 0
        blobs: list[bytes] = []
        records: list[tuple[str, bytes]] = []
        finder = self._state.secret_finder(len(batch))
        for path, status, data in batch:
            sha256 = hashlib.sha256(data).digest()
            before = self._tree.record(path)
            if before is None or sha256_of(before) != sha256:
                if self._must_be_stored(path) and finder.is_secret(path, data):
                    if not self._state.held.put(path, data):
                        self._update.exclude(path, ExclusionReason.SECRET)
                        continue
                elif self._has_room(len(data)):
                    self._state.count_copy(path, len(data))
                    blobs.append(data)
                elif self._must_be_stored(path):
                    self._update.exclude(path, ExclusionReason.ROOM)
                    continue
                else:
                    self._state.unstored.add(path)
            records.append((path, file_record(status, sha256)))
        if blobs:
            self._state.blobs.put_blobs(blobs, flush=flush)
        for path, record in records:
            self._update.put(path, record, absorb=self._pending[path].absorb)
