"""The snapshot index: records of a project's files, for the next process and for recovery after a crash.

A block with the records of all files may be followed by blocks with changed ones. Each starts with its length and checksum, so
that a truncated block is detected.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import WorkspaceError
from newel.storage.files import read_regular, replace_file
from newel.workspace.snapshots.tree import FileTree, join, split, state_of, with_stale_times

_VERSION: Final = 3
_HEAD: Final = struct.Struct("<Q32s")
_GONE: Final = b""
"""The record of a deleted file."""

Records = dict[str, dict[str, bytes]]
"""By directory and name."""

_Packed = dict[bytes, dict[bytes, bytes]]
"""In bytes, as names need not be UTF-8."""


def pack_all(root: str, tree: FileTree, unsettled: set[str]) -> bytes:
    """A block with the records of all files and folders; ``unsettled`` files get a signature that never matches."""
    return _block(
        root,
        {
            path: {
                name: with_stale_times(record) if unsettled and join(path, name) in unsettled else record
                for name, record in folder.records.items()
            }
            for path, folder in tree.folders.items()
        },
    )


def pack_some(root: str, tree: FileTree, paths: Iterable[str]) -> bytes:
    """A block with the records of some files, to be appended to others."""
    some: Records = {}
    for path in paths:
        folder, name = split(path)
        some.setdefault(folder, {})[name] = tree.record(path) or _GONE
    return _block(root, some)


def save(index: Path, root: str, tree: FileTree, unsettled: set[str]) -> None:
    """Save the records; the next process reads the ``unsettled`` files again. Raises ``WorkspaceError``."""
    data = pack_all(root, tree, unsettled)
    try:
        replace_file(index, data)
    except OSError as error:
        raise WorkspaceError(f"Cannot write {index}: {error.strerror or error}.") from error


def load(index: Path, root: str) -> Records:
    """The saved records; empty if there are none for this root, or the file is damaged."""
    packed: _Packed = {}
    with contextlib.suppress(OSError):
        for owner, folders in _blocks(read_regular(index, None)):
            if owner != os.fsencode(root):
                return {}
            for folder, files in folders.items():
                packed.setdefault(folder, {}).update(files)
    records: Records = {}
    while packed:  # piece by piece, so that both never are in memory as a whole
        folder, files = packed.popitem()
        records[os.fsdecode(folder)] = {
            os.fsdecode(name): record for name, record in files.items() if record != _GONE
        }
    return records


def referenced_blobs(index: Path) -> set[str]:
    """The hashes of all contents that an index refers to. Raises ``OSError``."""
    return {
        state_of(record).blob
        for _, folders in _blocks(read_regular(index, None))
        for files in folders.values()
        for record in files.values()
        if record != _GONE
    }


def _block(root: str, folders: Mapping[str, Mapping[str, bytes]]) -> bytes:
    raw = {
        os.fsencode(folder): {os.fsencode(name): record for name, record in files.items()}
        for folder, files in folders.items()
    }
    data = msgspec.msgpack.encode((_VERSION, os.fsencode(root), raw))
    return _HEAD.pack(len(data), hashlib.sha256(data).digest()) + data


def _blocks(data: bytes) -> Iterable[tuple[bytes, _Packed]]:
    """The root and the records of each block, up to the first damaged one."""
    at = 0
    with contextlib.suppress(struct.error, msgspec.MsgspecError):
        while at < len(data):
            size, sum_ = _HEAD.unpack_from(data, at)
            at += _HEAD.size + size
            block = data[at - size : at]
            if hashlib.sha256(block).digest() != sum_:
                return
            version, root, folders = msgspec.msgpack.decode(block, type=tuple[int, bytes, _Packed])
            if version != _VERSION:
                return
            yield root, folders
