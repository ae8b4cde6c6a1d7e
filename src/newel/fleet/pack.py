"""Git objects made here: their names, trees, and a pack file that git then checks and takes.

Git's own ``add`` would run filters and convert line ends as a hostile repository says, and it refuses a whole batch for one file that
vanished. To name and compress the bytes here is exact, and as fast.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from typing import IO, Final, Literal, NamedTuple

Kind = Literal["commit", "tree", "blob", "tag"]

_NUMBERS: Final[dict[Kind, int]] = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}

_PROBE: Final = 4096
"""Bytes."""

TREE: Final = 0o040000
FILE: Final = 0o100644
PROGRAM: Final = 0o100755
LINK: Final = 0o120000


class GitTreeEntry(NamedTuple):
    """``oid`` is an object's name as bytes."""

    name: bytes
    mode: int
    oid: bytes


def object_name(kind: Kind, data: bytes, form: str) -> bytes:
    """The name of an object in a repository of the format ``form``, ``sha1`` or ``sha256``, as bytes."""
    digest = hashlib.new(form, b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.digest()


def tree_data(entries: Iterable[GitTreeEntry]) -> bytes:
    ordered = sorted(entries, key=lambda entry: entry.name + b"/" if entry.mode == TREE else entry.name)
    return b"".join(b"%o %s\0%s" % (entry.mode, entry.name, entry.oid) for entry in ordered)


class PackWriter:
    """Writes objects into a file that is empty, and can be read. ``known`` are objects that need not be written; those that are, are
    added to ``written``.
    """

    def __init__(self, file: IO[bytes], form: str, known: set[bytes]) -> None:
        self._file = file
        self.form = form
        self._known = known
        self.written: set[bytes] = set()
        file.write(b"PACK\0\0\0\2\0\0\0\0")

    def add(self, kind: Kind, data: bytes) -> bytes:
        """Write an object, unless it is known; returns its name."""
        oid = object_name(kind, data, self.form)
        if oid not in self._known and oid not in self.written:
            self._file.write(_header(_NUMBERS[kind], len(data)) + _compress(data))
            self.written.add(oid)
        return oid

    def tree(self, entries: Iterable[GitTreeEntry]) -> bytes:
        return self.add("tree", tree_data(entries))

    def finish(self) -> None:
        """Complete the pack, and go back to its start."""
        self._file.seek(8)
        self._file.write(len(self.written).to_bytes(4, "big"))
        self._file.seek(0)
        checksum = hashlib.new(self.form, usedforsecurity=False)
        while piece := self._file.read(1 << 20):
            checksum.update(piece)
        self._file.write(checksum.digest())
        self._file.flush()
        self._file.seek(0)


def _compress(data: bytes) -> bytes:
    """Data that is compressed already, as in a ledger, is only wrapped: to try would take most of the time of a snapshot."""
    start = data[:_PROBE]
    is_packed = len(data) > _PROBE and len(zlib.compress(start, 1)) > _PROBE * 0.95
    return zlib.compress(data, 0 if is_packed else 1)


def _header(number: int, size: int) -> bytes:
    """The kind and the size of an object in a pack: seven bits a byte, the first with the kind and four bits."""
    out = bytearray()
    byte, size = (number << 4) | (size & 15), size >> 4
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)
