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


class FolderState:
    """One directory. ``files`` has records (see ``record``), ``excluded`` the names that are not covered. ``repository`` is the
    directory, relative to the root, whose Git repository applies here.
    """

    __slots__ = ("excluded", "files", "folders", "mode", "repository")

    def __init__(self, repository: str | None, mode: int = 0) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()
        self.excluded: dict[str, ExclusionReason] = {}
        self.mode = mode
        self.repository = repository

    def names(self) -> set[str]:
        return {*self.files, *self.folders, *self.excluded}


class FileTree:
    """All covered directories by path, relative to the root, whose own path is empty."""

    def __init__(self) -> None:
        self.folders: dict[str, FolderState] = {}
        self.count = 0
        """Of files."""
        self.changed_paths: set[str] | None = None
        """Files and folders whose records changed since they were last exported; None if they never were."""

    def state(self, path: str) -> FileSnapshot | None:
        """The state of a file or folder; None for the root."""
        made = self.record(path)
        if made is not None:
            return state_of(made)
        folder = self.folders.get(path) if path else None
        return None if folder is None else FileSnapshot(EMPTY, folder.mode)

    def record(self, path: str) -> bytes | None:
        """The record of a file."""
        folder, name = split(path)
        there = self.folders.get(folder)
        return there.files.get(name) if there else None

    def put(self, path: str, made: bytes) -> None:
        folder, name = split(path)
        there = self.folders[folder]
        self.count += name not in there.files
        there.files[name] = made
        there.excluded.pop(name, None)
        if self.changed_paths is not None:
            self.changed_paths.add(path)

    def drop(self, path: str) -> None:
        folder, name = split(path)
        there = self.folders.get(folder)
        if there and there.files.pop(name, None):
            self.count -= 1
            if self.changed_paths is not None:
                self.changed_paths.add(path)

    def put_folder(self, path: str, folder: FolderState) -> None:
        above, name = split(path)
        self.folders[above].folders.add(name)
        self.folders[above].excluded.pop(name, None)
        self.folders[path] = folder
        if self.changed_paths is not None:
            self.changed_paths.add(path)

    def set_mode(self, path: str, mode: int) -> None:
        """Set a folder's mode."""
        self.folders[path].mode = mode
        if self.changed_paths is not None:
            self.changed_paths.add(path)

    def drop_folder(self, path: str) -> None:
        del self.folders[path]
        above, name = split(path)
        if above in self.folders:
            self.folders[above].folders.discard(name)
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
                waiting += [join(path, name) for name in folder.folders]


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def signature(found: FileStat) -> bytes:
    """Differs whenever the file was written, replaced, or given other permission bits.

    A program can set the modification time, but not ``ctime``.
    """
    return _SIGNATURE.pack(
        found.st_mtime_ns & _WORD,  # times may be negative or huge, as programs can set any
        found.st_ctime_ns & _WORD,
        found.st_size & _WORD,
        found.st_ino & _WORD,
        found.st_mode & 0xFFFFFFFF,
    )


def record(found: FileStat, sha256: bytes) -> bytes:
    """A signature and a hash in 68 bytes, as there may be 200,000 records."""
    return signature(found) + sha256


def signed(made: bytes) -> bytes:
    return made[:_SIGNED]


def without_times(made: bytes) -> bytes:
    """A record with a signature that never matches."""
    return bytes(_TIMES) + made[_TIMES:]


def state_of(made: bytes) -> FileSnapshot:
    mode: int = _SIGNATURE.unpack_from(made)[4]
    return FileSnapshot(made[_SIGNED:].hex(), state_mode(mode))


def state_mode(mode: int) -> int:
    """The mode for ``FileSnapshot``: of a regular file the permission bits, of a link the file type."""
    if stat.S_ISREG(mode):
        return stat.S_IMODE(mode)
    return stat.S_IFLNK if stat.S_ISLNK(mode) else mode


def folder_record(mode: int) -> bytes:
    """A folder's record in an index, without times."""
    return _SIGNATURE.pack(0, 0, 0, 0, mode & 0xFFFFFFFF) + bytes.fromhex(EMPTY)


def is_kept(mode: int) -> bool:
    """Whether a non-folder of this mode is covered: sockets and devices are not."""
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISFIFO(mode)
