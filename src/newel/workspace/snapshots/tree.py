"""What is known of a project's files: a signature that tells whether one was touched, and the hash of its content.

Symbolic links and named pipes are files here: a link's content is its target, a pipe has none. A folder has its mode.
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
    """What ``os.stat_result`` tells of a name, links not followed."""

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
    """A file's content, by the SHA-256 of its bytes in hexadecimal, and its mode: permission bits with those of set-user-id
    and the like, and of what is no regular file also the bits of its kind.
    """

    blob: str
    mode: int


class ExclusionReason(Enum):
    """Why something is not covered, as a notice says it."""

    IGNORED = "ignored"
    LARGE = "too large to record"
    ROOM = "beyond the space for copies"
    UNREADABLE = "not readable"
    SPECIAL = "a socket or a device"


class FolderState:
    """One directory. ``files`` holds records (see ``record``), ``excluded`` the names that are known and not covered.
    ``repository`` is the directory, relative to the root, whose ``.git`` rules here; ``mode`` is its own.
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
    """All covered directories by their path, relative to the root; the root's own is empty."""

    def __init__(self) -> None:
        self.folders: dict[str, FolderState] = {}
        self.count = 0
        """Of files."""
        self.changed_paths: set[str] | None = None
        """The files and folders whose records became others, if somebody wants to know."""

    def state(self, path: str) -> FileSnapshot | None:
        """Of a file or a folder; that of the root is not covered."""
        made = self.record(path)
        if made is not None:
            return state_of(made)
        folder = self.folders.get(path) if path else None
        return None if folder is None else FileSnapshot(EMPTY, folder.mode)

    def record(self, path: str) -> bytes | None:
        """Of a file."""
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
        """A folder has another mode."""
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
        """The directory and all below it, those deepest last."""
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
    """What is another whenever the file was written, replaced, or given other permission bits since.

    A program can set a file's time of modification, but not ``ctime``.
    """
    return _SIGNATURE.pack(
        found.st_mtime_ns & _WORD,  # a file may be of any year, if somebody says so
        found.st_ctime_ns & _WORD,
        found.st_size & _WORD,
        found.st_ino & _WORD,
        found.st_mode & 0xFFFFFFFF,
    )


def record(found: FileStat, sha256: bytes) -> bytes:
    """A signature and a content's hash in 68 bytes: there may be 200,000 of them."""
    return signature(found) + sha256


def signed(made: bytes) -> bytes:
    return made[:_SIGNED]


def without_times(made: bytes) -> bytes:
    """A record with a signature that no file has."""
    return bytes(_TIMES) + made[_TIMES:]


def state_of(made: bytes) -> FileSnapshot:
    mode: int = _SIGNATURE.unpack_from(made)[4]
    return FileSnapshot(made[_SIGNED:].hex(), state_mode(mode))


def state_mode(mode: int) -> int:
    """As a state has it: of a regular file only the bits, of a link only its kind."""
    if stat.S_ISREG(mode):
        return stat.S_IMODE(mode)
    return stat.S_IFLNK if stat.S_ISLNK(mode) else mode


def folder_record(mode: int) -> bytes:
    """A folder's record in an index: nobody asks for its times."""
    return _SIGNATURE.pack(0, 0, 0, 0, mode & 0xFFFFFFFF) + bytes.fromhex(EMPTY)


def is_kept(mode: int) -> bool:
    """Whether what has this mode is covered, beside folders: sockets and devices are not."""
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISFIFO(mode)
