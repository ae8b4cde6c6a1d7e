"""One look at a project's files: which ones differ from what is known of them, and what they hold now."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from newel.workspace.snapshots.ignore_rules import is_never_covered
from newel.workspace.snapshots.port import GONE, Entries, Reading, Stopped
from newel.workspace.snapshots.state import ScanState
from newel.workspace.snapshots.tree import (
    ExclusionReason,
    FileSnapshot,
    FileStat,
    FolderState,
    is_kept,
    join,
    record,
    signature,
    signed,
    split,
    state_of,
)

_BATCH: Final = 8 << 20
_BATCH_FILES: Final = 512
"""So many bytes or files are put into the store at a time."""


class DirectoryVisit(NamedTuple):
    """A directory to look at: all of it, or some names. ``absorb``: what is found there was there before."""

    path: str
    names: set[str] | None
    absorb: bool


class _Unknown(NamedTuple):
    """``signed`` is the file's signature, None for a directory."""

    path: str
    signed: bytes | None
    found: FileStat
    absorb: bool


class Scan:
    """Use once. ``report``: what differs goes to ``project.changed``; otherwise it is taken as it is. ``again``: what
    was left out is judged anew. ``noted`` is how files were left by those who have accounted for it.
    """

    def __init__(
        self,
        project: ScanState,
        *,
        report: bool,
        again: bool,
        noted: Mapping[str, FileSnapshot | None],
        stopped: Callable[[], bool],
    ) -> None:
        self._project = project
        self._source = project.source
        self._tree = project.tree
        self._limits = project.limits
        self._report = report
        self._again = again
        self._noted = noted
        self._stopped = stopped
        self._unknown: list[_Unknown] = []
        self._next: list[DirectoryVisit] = []
        self._new = 0
        self._to_read: dict[str, tuple[int, bool]] = {}
        self._pipes: dict[str, FileStat] = {}
        self._batch: list[tuple[str, FileStat, bytes]] = []
        self._batch_size = 0

    def run(self, visits: Iterable[DirectoryVisit]) -> None:
        """Raises ``Stopped``, ``OSError`` if the root is not there, and what the source and the store raise."""
        try:
            self._source.begin()
            level = list(visits)
            while level:
                self._source.ahead(visit.path for visit in level if visit.path in self._tree.folders)
                for visit in level:
                    self._go_on()
                    self._visit(visit)
                self._judge()
                level, self._next = self._next, []
            for path in [*self._project.fresh, *(path for path in self._noted if self._tree.record(path))]:
                self._to_read.setdefault(path, (0, False))
            for path, result in self._source.read(self._wanted(), self._limits.file):
                self._take(path, result)
            for (
                path,
                found,
            ) in self._pipes.items():  # whoever opens one may wait for ever, or keep others from waiting
                if split(path)[0] in self._tree.folders:
                    self._take(path, Reading(b"", found, fresh=False))
            self._put_batch()
        finally:
            self._source.end()

    def _wanted(self) -> Iterator[tuple[str, int]]:
        """What to read, with its size as far as it is known."""
        for path, (size, _) in self._in_order():
            self._go_on()
            if split(path)[0] not in self._tree.folders or path in self._pipes:
                continue
            if self._tree.state(path) is None and size > self._room():
                self._put_batch()  # what is in there may take none
                if size > self._room():
                    self._leave_out(path, ExclusionReason.ROOM)
                    continue
            yield path, size

    def _room(self) -> int:
        return self._limits.total - self._project.spent - self._batch_size

    def _in_order(self) -> list[tuple[str, tuple[int, bool]]]:
        """What to read, by directory; but the small ones first where there may be no room for all: sources go before data."""
        room = self._limits.total - self._project.spent
        if sum(size for size, _ in self._to_read.values()) < room // 2:
            return sorted(self._to_read.items())
        return sorted(self._to_read.items(), key=lambda item: (item[1][0], item[0]))

    def _go_on(self) -> None:
        if self._stopped():
            raise Stopped

    # -- directories ------------------------------------------------------------------------------

    def _visit(self, visit: DirectoryVisit) -> None:
        folder = self._tree.folders.get(visit.path)
        if folder is None:
            return  # left out, or gone meanwhile
        try:
            self._look_into(visit, folder)
        except OSError as error:
            if not visit.path:
                raise
            if error.errno in GONE:
                self._folder_gone(visit.path)
            else:
                why = error.strerror or error
                self._project.tell(f"{visit.path}/ cannot be read ({why}): what changed there is not known.")

    def _look_into(self, visit: DirectoryVisit, folder: FolderState) -> None:
        missing = folder.names() if visit.names is None else folder.names() & visit.names
        for name, found in self._entries(visit):
            missing.discard(name)
            self._entry(visit, folder, name, found)
        for name in missing:
            self._missing(folder, join(visit.path, name), name)

    def _entries(self, visit: DirectoryVisit) -> Entries:
        """What is in a folder. A disk that fails is asked once more: what is not known of a folder cannot be undone."""
        try:
            return list(self._source.entries(visit.path, visit.names))
        except OSError as error:
            if error.errno in GONE:
                raise
            return list(self._source.entries(visit.path, visit.names))

    def _entry(self, visit: DirectoryVisit, folder: FolderState, name: str, found: FileStat) -> None:
        path = join(visit.path, name)
        if name == ".git" and folder.repository != visit.path:
            self._repository(visit.path, folder.repository)
        if is_never_covered(name) or path in self._source.left_out:
            return
        if stat.S_ISDIR(found.st_mode):
            self._replaced(folder, path, name, folder.folders)
            if name in folder.folders:
                self._folder_changed(path, found.st_mode)
                self._next.append(DirectoryVisit(path, None, visit.absorb))
                return
        elif is_kept(found.st_mode):
            self._replaced(folder, path, name, folder.files)
            made = folder.files.get(name)
            if made is not None:
                if signed(made) != signature(found):
                    self._read(path, found, absorb=visit.absorb)
                return
        else:
            self._replaced(folder, path, name, None)
            self._special(folder, path, name, absorb=visit.absorb)
            return
        if self._project.full or (name in folder.left_out and not self._again):
            return
        absorb = visit.absorb or name in folder.left_out
        is_folder = stat.S_ISDIR(found.st_mode)
        self._unknown.append(_Unknown(path, None if is_folder else signature(found), found, absorb))
        if len(self._unknown) > 2 * self._limits.files:
            self._no_more()

    def _read(self, path: str, found: FileStat, *, absorb: bool) -> None:
        self._to_read[path] = (found.st_size, absorb)
        if stat.S_ISFIFO(found.st_mode):
            self._pipes[path] = found

    def _folder_changed(self, path: str, mode: int) -> None:
        folder = self._tree.folders[path]
        if folder.mode != mode:
            before = self._before(path)
            self._tree.turn(path, mode)
            self._settle(path, before, self._tree.state(path), absorb=False)

    def _special(self, folder: FolderState, path: str, name: str, *, absorb: bool) -> None:
        if self._report and not absorb and name not in folder.left_out:
            self._project.tell(f"{path} is {ExclusionReason.SPECIAL.value} now. That cannot be undone.")
        folder.left_out[name] = ExclusionReason.SPECIAL

    def _repository(self, path: str, before: str | None) -> None:
        """Git's rules hold from this directory on."""
        for below in self._tree.below(path):
            if self._tree.folders[below].repository == before:
                self._tree.folders[below].repository = path

    def _replaced(self, folder: FolderState, path: str, name: str, now: object) -> None:
        """Forget what had the name before, if it was of another kind."""
        if now is not folder.files and name in folder.files:
            self._file_gone(path)
        if now is not folder.folders and name in folder.folders:
            self._folder_gone(path)
        if now is not None and folder.left_out.get(name) is ExclusionReason.SPECIAL:
            del folder.left_out[name]

    def _missing(self, folder: FolderState, path: str, name: str) -> None:
        self._replaced(folder, path, name, None)
        why = folder.left_out.pop(name, ExclusionReason.IGNORED)
        if self._report and why is not ExclusionReason.IGNORED:
            self._project.tell(f"{path} is gone. It was {why.value} and cannot be brought back.")

    def _folder_gone(self, path: str) -> None:
        for below in list(self._tree.below(path)):
            self._source.forget(below)
            for name in list(self._tree.folders[below].files):
                self._file_gone(join(below, name))
            before = self._before(below)
            self._tree.drop_folder(below)
            self._settle(below, before, None, absorb=not below)
        parent, name = split(path)
        if path and parent in self._tree.folders:
            self._tree.folders[parent].folders.discard(name)

    def _file_gone(self, path: str) -> None:
        before = self._before(path)
        self._tree.drop(path)
        self._settle(path, before, None, absorb=False)
        self._project.fresh.discard(path)
        self._project.linked.discard(path)
        self._to_read.pop(path, None)
        self._pipes.pop(path, None)

    # -- what is new ------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Take up what was not known so far, or leave it out."""
        unknown = [(each, *split(each.path)) for each in self._unknown]
        # What was found in a directory that another took the place of a moment later is found in that one.
        unknown = [each for each in unknown if each[1] in self._tree.folders]
        self._unknown = []
        asked = [(each.path, self._tree.folders[parent].repository) for each, parent, _ in unknown]
        out = self._source.rules.left_out(asked)
        for each, parent, name in unknown:
            folder = self._tree.folders[parent]
            if each.path in out:
                folder.left_out[name] = ExclusionReason.IGNORED
                self._project.ignored.add(each.path + "/" if each.signed is None else each.path)
            elif max(self._tree.count + self._new, len(self._tree.folders)) >= self._limits.files:
                self._no_more()
            elif each.signed is None:
                folder.left_out.pop(name, None)
                folder.folders.add(name)
                before = self._before(each.path)
                self._tree.put_folder(each.path, FolderState(folder.repository, each.found.st_mode))
                self._settle(each.path, before, self._tree.state(each.path), absorb=each.absorb)
                if self._report and not each.absorb:
                    self._project.new_folders.add(each.path)
                self._next.append(DirectoryVisit(each.path, None, each.absorb))
            elif not self._adopt(each, self._project.remembered.get(parent, {}).get(name)):
                self._new += 1
                self._read(each.path, each.found, absorb=each.absorb)

    def _no_more(self) -> None:
        """From now on nobody can tell a new file from one that was left out."""
        self._project.full = True
        self._project.tell(
            f"The project has more than {self._limits.files:,} files. Only so many are covered: changes to the others, "
            "and new files, cannot be undone."
        )

    def _adopt(self, file: _Unknown, made: bytes | None) -> bool:
        """Whether the file is as an earlier process left it, so that its content is in the store."""
        if made is None or signed(made) != file.signed or file.path in self._noted:
            return False
        self._tree.put(file.path, made)
        _set(self._project.linked, file.path, present=file.found.st_nlink > 1)
        return True

    # -- contents ---------------------------------------------------------------------------------

    def _take(self, path: str, result: Reading | OSError) -> None:
        if isinstance(result, OSError):
            if result.errno in GONE:
                self._file_gone(path)
            else:
                self._leave_out(path, ExclusionReason.UNREADABLE)
            return
        data, found, fresh = result
        if data is None:
            self._leave_out(path, ExclusionReason.LARGE)
            return
        _set(self._project.fresh, path, present=fresh)
        _set(self._project.linked, path, present=found.st_nlink > 1)
        self._batch.append((path, found, data))
        self._batch_size += len(data)
        if self._batch_size >= _BATCH or len(self._batch) >= _BATCH_FILES:
            self._put_batch()

    def _put_batch(self) -> None:
        batch, self._batch, self._batch_size = self._batch, [], 0
        put: list[bytes] = []
        kept: list[tuple[str, bytes]] = []
        for path, found, data in batch:
            made = record(found, hashlib.sha256(data).digest())
            before = self._tree.state(path)
            if before is None or before.blob != state_of(made).blob:
                if self._project.spent + len(data) > self._limits.total:
                    self._leave_out(path, ExclusionReason.ROOM)
                    continue
                self._project.spent += len(data)
                put.append(data)
            kept.append((path, made))
        if put:
            self._project.blobs.put_blobs(put)
        for path, made in kept:
            absorb = self._to_read[path][1]
            before = self._before(path)
            self._tree.put(path, made)
            self._settle(path, before, state_of(made), absorb=absorb)
            if split(path)[1] == ".gitignore" and before != state_of(made) and not absorb:
                self._project.rules_changed = True

    def _leave_out(self, path: str, why: ExclusionReason) -> None:
        """A file whose content cannot be kept. What it held before can still be read in the store, but no change
        of it can be told, as there is nothing to tell of what it became.
        """
        folder, name = split(path)
        known = self._tree.state(path) is not None
        self._tree.drop(path)
        self._project.changed.pop(path, None)
        self._project.fresh.discard(path)
        self._project.linked.discard(path)
        if self._tree.folders[folder].left_out.get(name) is not why:
            since = "From now on it is" if known else "It is"
            self._project.tell(f"{path} is {why.value}. {since} not covered: changes to it cannot be undone.")
        self._tree.folders[folder].left_out[name] = why

    # -- results ----------------------------------------------------------------------------------

    def _before(self, path: str) -> FileSnapshot | None:
        return self._noted[path] if path in self._noted else self._tree.state(path)

    def _settle(
        self, path: str, before: FileSnapshot | None, after: FileSnapshot | None, *, absorb: bool
    ) -> None:
        if self._report and not absorb and before != after:
            self._project.changed.setdefault(path, before)


def _set(names: set[str], name: str, *, present: bool) -> None:
    if present:
        names.add(name)
    else:
        names.discard(name)
