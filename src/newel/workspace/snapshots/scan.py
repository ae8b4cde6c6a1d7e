"""One scan of a project: compares signatures with those of the last scan, and reads what is new or changed."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Iterable
from typing import NamedTuple

from newel.workspace.snapshots.content_reader import ContentReader
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS, NEVER, is_never_covered
from newel.workspace.snapshots.port import GONE, Entries, SnapshotSource
from newel.workspace.snapshots.state import TreeUpdate
from newel.workspace.snapshots.tree import (
    ExclusionReason,
    FileStat,
    FolderState,
    is_kept,
    join,
    signature,
    signed,
    split,
)


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
        self._contents = ContentReader(update, check_stopped)
        self._new: list[_NewEntry] = []
        self._new_files = 0
        self._next_level: list[DirectoryVisit] = []

    def run(self, visits: Iterable[DirectoryVisit]) -> None:
        """Raises ``Stopped``, ``OSError`` if the root does not exist, and what the source and the store raise."""
        try:
            self._source.start()
            level = list(visits)
            while level:
                self._source.prefetch(visit.path for visit in level if visit.path in self._tree.folders)
                for visit in level:
                    self._check_stopped()
                    self._visit(visit)
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
            for name, found in self._entries(visit):
                missing.discard(name)
                self._compare(visit, folder, name, found)
            for name in missing:
                self._remove_missing(folder, join(visit.path, name), name)
        except OSError as error:
            if not visit.path:
                raise
            if error.errno in GONE:
                self._drop_folder(visit.path)
            else:
                reason = error.strerror or error
                self._state.notices.add(f"Cannot read {visit.path}/ ({reason}): changes in it are unknown.")

    def _entries(self, visit: DirectoryVisit) -> Entries:
        """A failing disk gets a second try: a change in a directory that was not read cannot be undone."""
        try:
            return list(self._source.entries(visit.path, visit.names))
        except OSError as error:
            if error.errno in GONE:
                raise
            return list(self._source.entries(visit.path, visit.names))

    def _compare(self, visit: DirectoryVisit, folder: FolderState, name: str, found: FileStat) -> None:
        path = join(visit.path, name)
        if name == ".git" and folder.repository != visit.path:
            self._set_repository(visit.path, folder.repository)
        if is_never_covered(name) or path in self._source.excluded:
            return
        if stat.S_ISDIR(found.st_mode):
            self._drop_other_kind(folder, path, name, folder.folders)
            if name in folder.folders:
                if self._tree.folders[path].mode != found.st_mode:
                    self._update.set_folder_mode(path, found.st_mode)
                self._next_level.append(DirectoryVisit(path, None, visit.absorb))
                return
        elif is_kept(found.st_mode):
            self._drop_other_kind(folder, path, name, folder.files)
            record = folder.files.get(name)
            if record is not None:
                if signed(record) != signature(found):
                    self._contents.add(path, found, absorb=visit.absorb)
                return
        else:
            self._drop_other_kind(folder, path, name, None)
            self._exclude_special(folder, path, name, absorb=visit.absorb)
            return
        if self._state.is_full or (name in folder.excluded and not self._recheck):
            return
        self._new.append(_NewEntry(path, found, visit.absorb or name in folder.excluded))
        if len(self._new) > 2 * self._state.limits.files:
            self._stop_covering_new()

    def _exclude_special(self, folder: FolderState, path: str, name: str, *, absorb: bool) -> None:
        if self._update.report and not absorb and name not in folder.excluded:
            self._state.notices.add(f"{path} is now {ExclusionReason.SPECIAL.value}. This cannot be undone.")
        folder.excluded[name] = ExclusionReason.SPECIAL

    def _set_repository(self, path: str, before: str | None) -> None:
        """From this directory on the rules of another repository apply."""
        for below in self._tree.below(path):
            if self._tree.folders[below].repository == before:
                self._tree.folders[below].repository = path

    def _drop_other_kind(self, folder: FolderState, path: str, name: str, now: object) -> None:
        """Drop what had the name before if it was of another kind."""
        if now is not folder.files and name in folder.files:
            self._drop_file(path)
        if now is not folder.folders and name in folder.folders:
            self._drop_folder(path)
        if now is not None and folder.excluded.get(name) is ExclusionReason.SPECIAL:
            del folder.excluded[name]

    def _remove_missing(self, folder: FolderState, path: str, name: str) -> None:
        self._drop_other_kind(folder, path, name, None)
        reason = folder.excluded.pop(name, ExclusionReason.IGNORED)
        if self._update.report and reason is not ExclusionReason.IGNORED:
            self._state.notices.add(f"{path} was deleted. It was {reason.value} and cannot be restored.")

    def _drop_folder(self, path: str) -> None:
        for below in list(self._tree.below(path)):
            self._source.unwatch(below)
            for name in list(self._tree.folders[below].files):
                self._drop_file(join(below, name))
            self._update.drop_folder(below)

    def _drop_file(self, path: str) -> None:
        self._update.drop_file(path)
        self._contents.discard(path)

    # -- new names ----------------------------------------------------------------------------------

    def _classify_new(self) -> None:
        """Cover each new name, or exclude it. Git is asked once for all of them."""
        # The directory of a name may have been replaced since: then the name is found again in the new one.
        new = [(entry, *split(entry.path)) for entry in self._new]
        new = [(entry, folder, name) for entry, folder, name in new if folder in self._tree.folders]
        self._new = []
        ignored = self._source.rules.excluded(
            (entry.path, self._tree.folders[folder].repository) for entry, folder, _ in new
        )
        for entry, parent, name in new:
            folder = self._tree.folders[parent]
            if entry.path in ignored:
                folder.excluded[name] = ExclusionReason.IGNORED
                self._state.ignored.add(entry.path + "/" if entry.is_folder else entry.path)
            elif max(self._tree.count + self._new_files, len(self._tree.folders)) >= self._state.limits.files:
                self._stop_covering_new()
            elif entry.is_folder:
                new_folder = FolderState(folder.repository, entry.found.st_mode)
                self._update.put_folder(entry.path, new_folder, absorb=entry.absorb)
                self._next_level.append(DirectoryVisit(entry.path, None, entry.absorb))
            elif not self._restore_indexed(entry, self._state.indexed.get(parent, {}).get(name)):
                self._new_files += 1
                self._contents.add(entry.path, entry.found, absorb=entry.absorb)

    def _stop_covering_new(self) -> None:
        """From now on a new file looks like one that was not covered."""
        self._state.is_full = True
        self._state.notices.add(
            f"The project has more than {self._state.limits.files:,} files. Changes to the rest, and to new files, "
            "cannot be undone."
        )

    def _restore_indexed(self, entry: _NewEntry, record: bytes | None) -> bool:
        """Whether the file is unchanged since an earlier process put its content into the store."""
        if (
            record is None
            or signed(record) != signature(entry.found)
            or entry.path in self._update.acknowledged
        ):
            return False
        self._tree.put(entry.path, record)
        self._update.mark(entry.path, linked=entry.found.st_nlink > 1)
        return True


def modified_since(source: SnapshotSource, since_ns: int) -> list[str]:
    """The covered files whose content or permission bits changed since a moment on this machine's clock, and all folders.
    Needs no earlier scan: for the time after a crash. Blocks.
    """
    since_ns += source.clock_offset_ns()
    repository = source.rules.repository_of_root()
    skipped = NEVER if repository is not None else NEVER | BUILD_DIRS
    paths: list[str] = []
    try:
        source.start()
        level = [""]
        while level:
            source.prefetch(level)
            below: list[str] = []
            for folder in level:
                with contextlib.suppress(OSError):
                    for name, found in source.entries(folder, None):
                        path = join(folder, name)
                        if stat.S_ISDIR(found.st_mode):
                            below += [] if name in skipped else [path]
                            paths.append(path)
                        elif is_kept(found.st_mode) and found.st_ctime_ns >= since_ns:
                            paths.append(path)
            level = below
    finally:
        source.finish()
    paths = [path for path in paths if not is_never_covered(split(path)[1])]
    excluded = source.rules.excluded((path, repository) for path in paths)
    return [path for path in paths if path not in excluded and path not in source.excluded]
