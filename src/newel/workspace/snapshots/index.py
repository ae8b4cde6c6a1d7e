"""The snapshot index: records of a project's files, for the next process and for recovery after a crash.

A block with the records of all files may be followed by blocks with changed ones. Each starts with its length and checksum, so
that a truncated block is detected. A name that is not covered has the reason in place of a record.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.agent.errors import WorkspaceError
from newel.storage.files import read_regular, replace_file
from newel.workspace.snapshots.tree import (
    ExclusionReason,
    FileTree,
    join,
    split,
    state_of,
    with_stale_times,
)

_VERSION: Final = 4
_HEAD: Final = struct.Struct("<Q32s")
_MAP: Final = struct.Struct(">BI")
_GONE: Final = b""
"""The record of a deleted file."""

Records = dict[str, dict[str, bytes]]
"""By directory and name."""

_Packed = dict[bytes, dict[bytes, bytes]]
"""In bytes, as names need not be UTF-8."""

_Block = tuple[int, bytes, _Packed, bool]

_REASONS: Final = {
    b"i": ExclusionReason.IGNORED,
    b"l": ExclusionReason.LARGE,
    b"r": ExclusionReason.ROOM,
    b"u": ExclusionReason.UNREADABLE,
    b"s": ExclusionReason.SPECIAL,
    b"k": ExclusionReason.SECRET,
}
"""What stands in place of a record for a name that is not covered."""

_CODES: Final = {reason: code for code, reason in _REASONS.items()}


class SavedTree(NamedTuple):
    """A tree as a process saved it; without ``records`` it is unknown. ``is_full``: there were more files than it has. ``excluded`` are
    the names that were not covered, by directory.
    """

    records: Records
    excluded: dict[str, dict[str, ExclusionReason]]
    is_full: bool


UNKNOWN: Final = SavedTree({}, {}, is_full=False)


def pack_all(
    root: str, tree: FileTree, unsettled: set[str], *, held: Collection[str] = (), is_full: bool = False
) -> bytearray:
    """A block with the records of all files and folders; ``unsettled`` files get a signature that never matches. For another process
    the ``held`` ones, whose contents are in no store, are not covered.
    """
    held_in: dict[str, list[str]] = {}
    for path in held:
        folder, name = split(path)
        held_in.setdefault(folder, []).append(name)

    def folders() -> Iterator[tuple[str, dict[str, bytes]]]:
        for path, folder in tree.folders.items():
            records = {
                name: with_stale_times(record) if unsettled and join(path, name) in unsettled else record
                for name, record in folder.records.items()
            }
            records.update((name, _CODES[reason]) for name, reason in folder.excluded.items())
            records.update((name, _CODES[ExclusionReason.SECRET]) for name in held_in.get(path, ()))
            yield path, records

    return _block(root, folders(), len(tree.folders), is_full=is_full)


def pack_some(
    root: str,
    tree: FileTree,
    paths: Iterable[str],
    *,
    held: Collection[str] = (),
    is_full: bool = False,
) -> bytearray:
    """A block with the records of some files, to be appended to others."""
    some: Records = {}
    for path in paths:
        folder, name = split(path)
        reason = ExclusionReason.SECRET if path in held else tree.exclusion(path)
        some.setdefault(folder, {})[name] = _CODES[reason] if reason else (tree.record(path) or _GONE)
    return _block(root, some.items(), len(some), is_full=is_full)


def save(index: Path, root: str, tree: FileTree, unsettled: set[str], *, held: Collection[str] = ()) -> None:
    """Save the records; the next process reads the ``unsettled`` and the ``held`` files again. Raises ``WorkspaceError``."""
    data = pack_all(root, tree, unsettled, held=held)
    try:
        replace_file(index, data)
    except OSError as error:
        raise WorkspaceError(f"Cannot write {index}: {error.strerror or error}.") from error


def load(index: Path, root: str) -> SavedTree:
    """The saved tree; empty if there is none for this root, or the file is damaged."""
    packed: _Packed = {}
    is_full = False
    with contextlib.suppress(OSError):
        for owner, folders, is_full in _blocks(read_regular(index, None)):  # noqa: B007 — the last one counts
            if owner != os.fsencode(root):
                return UNKNOWN
            for folder, files in folders.items():
                packed.setdefault(folder, {}).update(files)
    saved = SavedTree({}, {}, is_full)
    while packed:  # piece by piece, so that both never are in memory as a whole
        folder, files = packed.popitem()
        path = os.fsdecode(folder)
        saved.records[path] = {os.fsdecode(name): record for name, record in files.items() if len(record) > 1}
        if excluded := {
            os.fsdecode(name): _REASONS[record] for name, record in files.items() if record in _REASONS
        }:
            saved.excluded[path] = excluded
    return saved


def referenced_blobs(index: Path) -> set[str]:
    """The hashes of all contents that an index refers to. Raises ``OSError``."""
    return {
        state_of(record).blob
        for _, folders, _ in _blocks(read_regular(index, None))
        for files in folders.values()
        for record in files.values()
        if len(record) > 1
    }


def _block(
    root: str, folders: Iterable[tuple[str, Mapping[str, bytes]]], count: int, *, is_full: bool
) -> bytearray:
    """MessagePack of an array of four, whose third member, a map of ``count`` folders, is encoded folder by folder: all at once it
    would take four times its size.
    """
    encode = msgspec.msgpack.encode
    data = bytearray(_HEAD.size)
    data += b"\x94" + encode(_VERSION) + encode(os.fsencode(root)) + _MAP.pack(0xDF, count)
    for folder, files in folders:
        data += encode(os.fsencode(folder))
        data += encode({os.fsencode(name): record for name, record in files.items()})
    data += encode(is_full)
    sum_ = hashlib.sha256(memoryview(data)[_HEAD.size :])
    _HEAD.pack_into(data, 0, len(data) - _HEAD.size, sum_.digest())
    return data


def _blocks(data: bytes) -> Iterable[tuple[bytes, _Packed, bool]]:
    """The root, the records, and whether there were more files, of each block, up to the first damaged one."""
    at = 0
    view = memoryview(data)
    with contextlib.suppress(struct.error, msgspec.MsgspecError):
        while at < len(data):
            size, sum_ = _HEAD.unpack_from(data, at)
            at += _HEAD.size + size
            block = view[at - size : at]  # not a copy: it may have 20 MB
            if hashlib.sha256(block).digest() != sum_:
                return
            version, root, folders, is_full = msgspec.msgpack.decode(block, type=_Block)
            if version != _VERSION:
                return
            yield root, folders, is_full
