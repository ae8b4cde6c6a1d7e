"""The files of a folder as a tree of git: exact bytes and links, without any rule of the folder's repository.

What git does not keep is in ``FolderModes``: exact modes, and empty folders. The folder is hostile, and processes may still change it:
each folder is opened by name in the one above, without following links, and a file that vanishes meanwhile is not there.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.fleet.errors import SnapshotError
from newel.fleet.pack import FILE, LINK, PROGRAM, TREE, GitTreeEntry, PackWriter
from newel.fleet.snapshot_report import ReportBuilder
from newel.workspace.disk.dir_fd import is_temporary_file

_MAX_DEPTH: Final = 200
"""Each level is an open folder, and a call."""

_SETTLED_NS: Final = 2_000_000_000
"""A file that changed so shortly before it was read may change again without another time; some file systems count seconds."""

_TRIES: Final = 3

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

FILE_BITS: Final = 0o777
FOLDER_BITS: Final = 0o3777
"""A folder's setgid bit is inherited, and its sticky bit protects; a file's setuid bit would give rights on another machine."""


class KnownFile(NamedTuple):
    """A file that was read before: if its signature is the same, its content is the object ``oid``."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int
    oid: bytes


class FolderModes(msgspec.Struct, frozen=True):
    """The modes of files, programs (executable for the owner) and folders: the usual one of each kind, and ``others`` by path.
    Paths are decoded as Latin-1, as their bytes may be anything.
    """

    file: int = 0o644
    program: int = 0o755
    folder: int = 0o755
    others: dict[str, int] = {}
    empty: list[str] = []


class ScanRules(NamedTuple):
    """``ignored`` are paths that stay here; ``build_dirs`` names of folders that do, wherever they are. ``ignored_in`` gives the ignored
    paths of a repository inside. ``limit`` bounds the bytes of a file, and ``is_secret`` tells which files stay for what they hold.
    """

    ignored: Collection[bytes] = frozenset()
    build_dirs: Collection[bytes] = frozenset()
    ignored_in: Callable[[bytes], Collection[bytes]] = lambda _: ()
    limit: int = 1 << 40
    is_secret: Callable[[bytes], bool] = lambda _: False


class FolderScan:
    """Writes the tree of a folder. ``known`` are the files of an earlier scan; ``files`` those of this one whose signatures can be trusted.
    ``seen`` are all objects of the tree.
    """

    def __init__(
        self,
        writer: PackWriter,
        known: Mapping[bytes, KnownFile],
        rules: ScanRules,
        report: ReportBuilder,
    ) -> None:
        self._writer = writer
        self._known = known
        self._rules = rules
        self._ignored = set(rules.ignored)
        self._settled_ns = time.time_ns() - _SETTLED_NS
        self._modes: dict[int, dict[bytes, int]] = {FILE: {}, PROGRAM: {}, TREE: {}}
        self._empty: list[bytes] = []
        self.files: dict[bytes, KnownFile] = {}
        self.seen: set[bytes] = set()
        self._report = report

    def run(self, root: Path) -> bytes:
        """The tree's name. Blocks. Raises ``SnapshotError`` if the folder cannot be read."""
        try:
            descriptor = os.open(root, _FOLDER)
        except OSError as error:
            raise SnapshotError(f"The job's folder {root} cannot be read: {error.strerror}.") from error
        try:
            entries = self._entries(descriptor, b"", 0)
        finally:
            os.close(descriptor)
        return self._add_tree(entries)

    @property
    def modes(self) -> FolderModes:
        usual = {kind: _most_common(modes, kind) for kind, modes in self._modes.items()}
        others = {
            path.decode("latin-1"): mode
            for kind, modes in self._modes.items()
            for path, mode in modes.items()
            if mode != usual[kind]
        }
        return FolderModes(
            file=usual[FILE],
            program=usual[PROGRAM],
            folder=usual[TREE],
            others=dict(sorted(others.items())),
            empty=sorted(path.decode("latin-1") for path in self._empty),
        )

    def _entries(self, folder: int, prefix: bytes, depth: int) -> list[GitTreeEntry]:
        found: list[GitTreeEntry] = []
        listed = list(_list(folder))
        if prefix and any(name == b".git" for name, _ in listed):
            self._report.leave_out(prefix, "repository")
            self._ignored.update(self._rules.ignored_in(prefix[:-1]))
        for name, status in listed:
            path = prefix + name
            if path in self._ignored or is_temporary_file(os.fsdecode(name)):
                continue
            if not stat.S_ISDIR(status.st_mode) and self._rules.is_secret(path):
                self._report.leave_out(path, "secret")
                continue
            if name.lower() == b".git":
                if name != b".git":
                    self._report.leave_out(path, "name")
                continue
            entry = self._entry(folder, name, path, status, depth)
            if entry is not None:
                found.append(entry)
        return found

    def _entry(
        self, folder: int, name: bytes, path: bytes, status: os.stat_result, depth: int
    ) -> GitTreeEntry | None:
        try:
            if stat.S_ISDIR(status.st_mode):
                return self._folder(folder, name, path, status, depth + 1)
            if stat.S_ISREG(status.st_mode):
                return self._file(folder, name, path, status)
            if stat.S_ISLNK(status.st_mode):
                return GitTreeEntry(name, LINK, self._add_blob(os.readlink(name, dir_fd=folder)))
        except (FileNotFoundError, NotADirectoryError):  # it vanished
            return None
        except OSError:
            self._report.leave_out(path, "unreadable")
            return None
        self._report.leave_out(path, "special")
        return None

    def _folder(
        self, parent: int, name: bytes, path: bytes, status: os.stat_result, depth: int
    ) -> GitTreeEntry | None:
        if name in self._rules.build_dirs:
            self._report.leave_out(path + b"/", "ignored")
            return None
        if depth > _MAX_DEPTH:
            self._report.leave_out(path + b"/", "deep")
            return None
        descriptor = os.open(name, _FOLDER, dir_fd=parent)
        try:
            entries = self._entries(descriptor, path + b"/", depth)
        finally:
            os.close(descriptor)
        self._modes[TREE][path] = status.st_mode & FOLDER_BITS
        if not entries:
            self._empty.append(path)
            return None
        return GitTreeEntry(name, TREE, self._add_tree(entries))

    def _file(self, folder: int, name: bytes, path: bytes, status: os.stat_result) -> GitTreeEntry | None:
        known = self._known.get(path)
        if known is not None and known[:5] == _signature(status):
            self.seen.add(known.oid)
            return self._found(name, path, status, known)
        read = _read(folder, name, self._rules.limit)
        if read is None:
            self._report.leave_out(path, "special")
            return None
        data, status, steady = read
        if data is None:
            self._report.leave_out(path, "large", status.st_size)
            return None
        read_file = KnownFile(*_signature(status), self._add_blob(data))
        trusted = steady and max(status.st_mtime_ns, status.st_ctime_ns) < self._settled_ns
        return self._found(name, path, status, read_file, is_trusted=trusted)

    def _found(
        self, name: bytes, path: bytes, status: os.stat_result, file: KnownFile, *, is_trusted: bool = True
    ) -> GitTreeEntry:
        if is_trusted:
            self.files[path] = file
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            self._report.leave_out(path, "privileged")
        kind = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
        self._modes[kind][path] = status.st_mode & FILE_BITS
        self._report.files += 1
        self._report.size += file.size
        return GitTreeEntry(name, kind, file.oid)

    def _add_blob(self, data: bytes) -> bytes:
        oid = self._writer.add("blob", data)
        self.seen.add(oid)
        return oid

    def _add_tree(self, entries: list[GitTreeEntry]) -> bytes:
        oid = self._writer.tree(entries)
        self.seen.add(oid)
        return oid


def _list(folder: int) -> Iterator[tuple[bytes, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                yield os.fsencode(entry.name), entry.stat(follow_symlinks=False)


def _read(folder: int, name: bytes, limit: int) -> tuple[bytes | None, os.stat_result, bool] | None:
    """A file's content, None if it is too large; its status, and whether it stayed the same meanwhile. None if it is no file any more."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        data, steady = b"", False
        for _ in range(_TRIES):
            before = status
            data = os.pread(descriptor, min(status.st_size, limit) + 1, 0)
            while len(data) not in {before.st_size, limit + 1} and (more := _more(descriptor, data, limit)):
                data += more
            status = os.fstat(descriptor)
            if steady := _signature(before) == _signature(status):
                break
        return (None if len(data) > limit else data), status, steady
    finally:
        os.close(descriptor)


def _more(descriptor: int, data: bytes, limit: int) -> bytes:
    return os.pread(descriptor, min(limit + 1 - len(data), 1 << 20), len(data))


def _signature(status: os.stat_result) -> tuple[int, int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode


def _most_common(modes: Mapping[bytes, int], kind: int) -> int:
    counted = Counter(modes.values())
    return max(counted, key=lambda mode: (counted[mode], mode)) if counted else _USUAL[kind]


_USUAL: Final = {FILE: 0o644, PROGRAM: 0o755, TREE: 0o755}
