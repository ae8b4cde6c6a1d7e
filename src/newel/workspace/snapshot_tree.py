"""What is known of a project's files: a signature that tells whether one was touched, and the hash of its content."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol

import msgspec

_SIGNATURE: Final = struct.Struct("<QQQQI")
_SIGNED: Final = _SIGNATURE.size
_TIMES: Final = 16
_WORD: Final = (1 << 64) - 1


class Stat(Protocol):
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


class State(msgspec.Struct, frozen=True):
    """A file's content, by the SHA-256 of its bytes in hexadecimal, and its permission bits."""

    blob: str
    mode: int


class Why(Enum):
    """Why something is not covered, as a notice says it."""

    IGNORED = "ignored"
    LARGE = "too large to be kept"
    ROOM = "beyond the room for copies"
    UNREADABLE = "not readable"
    SPECIAL = "no regular file"


class Folder:
    """One directory. ``files`` holds records (see ``record``), ``links`` a signature, ``left_out`` the names that are
    known and not covered. ``repository`` is the directory, relative to the root, whose ``.git`` rules here.
    """

    __slots__ = ("files", "folders", "left_out", "links", "repository")

    def __init__(self, repository: str | None) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()
        self.links: dict[str, bytes] = {}
        self.left_out: dict[str, Why] = {}
        self.repository = repository

    def names(self) -> set[str]:
        return {*self.files, *self.folders, *self.links, *self.left_out}


class Tree:
    """All covered directories by their path, relative to the root; the root's own is empty."""

    def __init__(self) -> None:
        self.folders: dict[str, Folder] = {}
        self.count = 0
        """Of files."""
        self.news: set[str] | None = None
        """The files whose records became others, if somebody wants to know."""

    def state(self, path: str) -> State | None:
        folder, name = split(path)
        there = self.folders.get(folder)
        found = there.files.get(name) if there else None
        return None if found is None else state_of(found)

    def put(self, path: str, made: bytes) -> None:
        folder, name = split(path)
        there = self.folders[folder]
        self.count += name not in there.files
        there.files[name] = made
        there.left_out.pop(name, None)
        if self.news is not None:
            self.news.add(path)

    def drop(self, path: str) -> None:
        folder, name = split(path)
        there = self.folders.get(folder)
        if there and there.files.pop(name, None):
            self.count -= 1
            if self.news is not None:
                self.news.add(path)

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


def signature(found: Stat) -> bytes:
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


def record(found: Stat, sha256: bytes) -> bytes:
    """A signature and a content's hash in 68 bytes: there may be 200,000 of them."""
    return signature(found) + sha256


def signed(made: bytes) -> bytes:
    return made[:_SIGNED]


def without_times(made: bytes) -> bytes:
    """A record with a signature that no file has."""
    return bytes(_TIMES) + made[_TIMES:]


def state_of(made: bytes) -> State:
    mode: int = _SIGNATURE.unpack_from(made)[4]
    return State(made[_SIGNED:].hex(), mode & 0o777)
