"""One scan of a project: compares signatures with those of the last scan, and reads what is new or changed."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from newel.workspace.snapshots.contents import ContentReader
from newel.workspace.snapshots.ignore_rules import IgnoreRule, is_never_covered
from newel.workspace.snapshots.port import GONE
from newel.workspace.snapshots.rule_history import RULE_FILE
from newel.workspace.snapshots.state import TreeUpdate
from newel.workspace.snapshots.tree import (
    ExclusionReason,
    FileStat,
    FolderState,
    folder_record,
    is_kept,
    join,
    signature,
    signature_of,
    split,
)

_Entry = tuple[str, FileStat]

_CLASSIFIED: Final = 8_192
"""New names to ask git about at a time: their stats take more memory than all else."""


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
    """Use once. ``recheck``: excluded names are classified again. ``check_stopped`` raises ``ScanCancelled`` once nobody waits
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
        self._next_level: list[DirectoryVisit] = []

    def run(self, visits: Iterable[DirectoryVisit]) -> None:
        """Raises ``ScanCancelled``, ``OSError`` if the root does not exist, and what the source and the store raise."""
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
                entries = self._restore(visit.path, folder, indexed, entries)
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
        self, path: str, folder: FolderState, indexed: Mapping[str, bytes], entries: Iterable[_Entry]
    ) -> list[_Entry]:
        """Restore the records of files that are unchanged since an earlier process put their contents into the store; returns the other
        entries. Git need not be asked about these files.
        """
        others: list[_Entry] = []
        acknowledged = self._update.acknowledged
        for entry in entries:
            name, status = entry
            record = indexed.get(name)
            if (
                record is None
                or not record.startswith(signature(status))
                or stat.S_ISDIR(status.st_mode)
                or name in folder.records
                or (acknowledged and join(path, name) in acknowledged)
            ):
                others.append(entry)
                continue
            self._tree.restore(folder, name, record)
            if status.st_nlink > 1:
                self._state.linked.add(join(path, name))
        return others

    def _entries(self, visit: DirectoryVisit) -> list[_Entry]:
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
        if (reason := self._tree.include(path)) is not None:
            self._note_deleted(path, reason)

    def _note_deleted(self, path: str, reason: ExclusionReason) -> None:
        if not self._update.report:
            return
        if reason is ExclusionReason.IGNORED:
            self._state.ignored_deleted.add(path)  # named at the end of the run, as changes of such files are
        else:
            self._state.notices.add(f"{path} was deleted. It was {reason.value} and cannot be restored.")

    def _drop(self, path: str) -> None:
        """Drop a file, or a folder with all below it. Contents go first: a folder's record is found through the folder above."""
        paths = [path]
        for folder in self._tree.below(path):
            self._source.unwatch(folder)
            state = self._tree.folders[folder]
            paths += [join(folder, name) for name in state.records]
            for name, reason in state.excluded.items():
                self._note_deleted(join(folder, name), reason)
        for each in reversed(paths):
            self._update.drop(each)
            self._contents.discard(each)

    # -- new names ----------------------------------------------------------------------------------

    def _classify_new(self) -> None:
        """Cover each new name, or exclude it. Git is asked once for all of them."""
        found, self._new = self._new, []
        rule_files: list[tuple[_NewEntry, str, str]] = []
        others: list[tuple[_NewEntry, str, str]] = []
        for entry in found:
            folder, name = split(entry.path)
            # It may have been replaced since: then the name is found again in the new one.
            if folder in self._tree.folders:
                (rule_files if name == RULE_FILE else others).append((entry, folder, name))
        self._cover_or_exclude(rule_files)
        self._contents.read_rule_files()  # what they say now matters for the other names
        self._cover_or_exclude(others)
        self._contents.read_small()

    def _cover_or_exclude(self, new: Sequence[tuple[_NewEntry, str, str]]) -> None:
        """Each entry with its directory and its name in it."""
        rules, folders = self._source.rules, self._tree.folders
        ignored = rules.excluded(
            ((entry.path, folders[folder].repository) for entry, folder, _ in new),
            blocked=self._state.blocked_repositories(),
        )
        for entry, parent, name in new:
            folder = folders[parent]
            if folder.excluded.get(name) is ExclusionReason.IGNORED and folder.repository in rules.failed:
                continue  # as before
            if entry.path in ignored and self._is_excluded(entry, name, ignored[entry.path]):
                self._tree.exclude(entry.path, ExclusionReason.IGNORED)
                self._state.ignored.add(entry.path + "/" if entry.is_folder else entry.path)
            elif (
                self._tree.file_count + self._contents.new_count >= self._state.limits.files
                or len(folders) >= self._state.limits.files
            ):
                self._stop_covering_new()
            elif entry.is_folder:
                mode = entry.found.st_mode
                self._update.put_folder(entry.path, mode, folder.repository, absorb=entry.absorb)
                self._next_level.append(DirectoryVisit(entry.path, None, entry.absorb))
            else:
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
