"""The tree of a project's files: for each a signature, which reveals a change, and the hash of its content.

Symbolic links and named pipes are files, too: a link's content is its target, a pipe has none. A folder has its mode.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol

import msgspec

_SIGNATURE: Final = struct.Struct("<QQQQI")
_SIGNED: Final = _SIGNATURE.size
_TIMES: Final = 16
_WORD: Final = (1 << 64) - 1

EMPTY: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The SHA-256 of no bytes."""


class FileStat(Protocol):
    """The part of ``os.stat_result`` that scans use, links not followed."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_nlink(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ctime_ns(self) -> int: ...


class FileSnapshot(msgspec.Struct, frozen=True):
    """A file's content, as the SHA-256 in hexadecimal, and its mode: permission bits with set-user-ID and the like; with the
    file type bits unless it is a regular file.
    """

    blob: str
    mode: int


class ExclusionReason(Enum):
    """Why a name is not covered, as shown in notices."""

    IGNORED = "ignored"
    LARGE = "too large to record"
    ROOM = "beyond the space for copies"
    UNREADABLE = "not readable"
    SPECIAL = "a socket or a device"
    SECRET = "a file with secrets"  # noqa: S105 — a reason


class FolderState:
    """One directory. ``records`` has the files and folders in it (see ``file_record`` and ``folder_record``), ``excluded`` the names
    that are not covered. ``repository`` is the directory, relative to the root, whose Git repository applies here.
    """

    __slots__ = ("excluded", "records", "repository")

    def __init__(self, repository: str | None) -> None:
        self.records: dict[str, bytes] = {}
        self.excluded: dict[str, ExclusionReason] = {}
        self.repository = repository

    def names(self) -> set[str]:
        return {*self.records, *self.excluded}


class FileTree:
    """All covered directories by path, relative to the root, whose own path is empty. Each but the root also has a record in the
    directory above.
    """

    def __init__(self) -> None:
        self.folders: dict[str, FolderState] = {}
        self.changed_paths: set[str] | None = None
        """Files and folders whose records changed since they were last exported; None if they never were."""
        self._record_count = 0

    @property
    def file_count(self) -> int:
        return self._record_count - (len(self.folders) - 1)

    def state(self, path: str) -> FileSnapshot | None:
        """The state of a file or folder; None for the root."""
        record = self.record(path)
        return None if record is None else state_of(record)

    def record(self, path: str) -> bytes | None:
        folder, name = split(path)
        state = self.folders.get(folder)
        return state.records.get(name) if state else None

    def put(self, path: str, record: bytes) -> None:
        folder, name = split(path)
        state = self.folders[folder]
        self._record_count += name not in state.records
        state.records[name] = record
        state.excluded.pop(name, None)
        if self.changed_paths is not None:
            self.changed_paths.add(path)

    def exclude(self, path: str, reason: ExclusionReason) -> None:
        """Note that a name is not covered; it has no record."""
        folder, name = split(path)
        self.folders[folder].excluded[name] = reason
        if self.changed_paths is not None:
            self.changed_paths.add(path)

    def include(self, path: str) -> ExclusionReason | None:
        """The name may be covered again, or is gone; returns why it was not covered."""
        folder, name = split(path)
        if self.changed_paths is not None:
            self.changed_paths.add(path)
        return self.folders[folder].excluded.pop(name, None)

    def has(self, path: str) -> bool:
        """Whether there is something of that name, covered or not."""
        folder, name = split(path)
        state = self.folders.get(folder)
        return state is not None and (name in state.records or name in state.excluded)

    def exclusion(self, path: str) -> ExclusionReason | None:
        folder, name = split(path)
        state = self.folders.get(folder)
        return state.excluded.get(name) if state else None

    def restore(self, folder: FolderState, name: str, record: bytes) -> None:
        """Put a record that an earlier process exported."""
        folder.records[name] = record
        self._record_count += 1

    def drop(self, path: str) -> None:
        """Drop a file or an empty folder."""
        folder, name = split(path)
        state = self.folders.get(folder)
        if state and state.records.pop(name, None):
            self.folders.pop(path, None)
            self._record_count -= 1
            if self.changed_paths is not None:
                self.changed_paths.add(path)

    def below(self, path: str) -> Iterator[str]:
        """The directory and all below it, parents first."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            folder = self.folders.get(path)
            if folder is not None:
                yield path
                waiting += [join(path, name) for name in folder.records]


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def signature(stat: FileStat) -> bytes:
    """Differs whenever the file was written, replaced, or given other permission bits.

    A program can set the modification time, but not ``ctime``.
    """
    try:
        return _SIGNATURE.pack(
            stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino, stat.st_mode & 0xFFFFFFFF
        )
    except struct.error:  # times may be negative or huge, as programs can set any
        return _wrapped_signature(stat)


def _wrapped_signature(stat: FileStat) -> bytes:
    return _SIGNATURE.pack(
        stat.st_mtime_ns & _WORD,
        stat.st_ctime_ns & _WORD,
        stat.st_size & _WORD,
        stat.st_ino & _WORD,
        stat.st_mode & 0xFFFFFFFF,
    )


def file_record(status: FileStat, sha256: bytes) -> bytes:
    """A signature and a hash in 68 bytes, as there may be 200,000 records."""
    return signature(status) + sha256


def signature_of(record: bytes) -> bytes:
    return record[:_SIGNED]


def changed_at_ns(record: bytes) -> int:
    """``ctime``; 0 of a folder."""
    changed_ns: int = _SIGNATURE.unpack_from(record)[1]
    return changed_ns


def sha256_of(record: bytes) -> bytes:
    return record[_SIGNED:]


def with_stale_times(record: bytes) -> bytes:
    """A record with a signature that never matches."""
    return bytes(_TIMES) + record[_TIMES:]


def state_of(record: bytes) -> FileSnapshot:
    mode: int = _SIGNATURE.unpack_from(record)[4]
    return FileSnapshot(record[_SIGNED:].hex(), state_mode(mode))


def state_mode(mode: int) -> int:
    """The mode for ``FileSnapshot``: of a regular file the permission bits, of a link the file type."""
    if stat.S_ISREG(mode):
        return stat.S_IMODE(mode)
    return stat.S_IFLNK if stat.S_ISLNK(mode) else mode


def folder_record(mode: int) -> bytes:
    """A folder's record: it has a mode, but no times, as these change with every file in it."""
    return _SIGNATURE.pack(0, 0, 0, 0, mode & 0xFFFFFFFF) + bytes.fromhex(EMPTY)


def is_folder_record(record: bytes) -> bool:
    mode: int = _SIGNATURE.unpack_from(record)[4]
    return stat.S_ISDIR(mode)


def is_kept(mode: int) -> bool:
    """Whether a non-folder of this mode is covered: sockets and devices are not."""
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISFIFO(mode)
