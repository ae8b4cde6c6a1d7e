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
from newel.workspace.snapshots.tree import FileTree, folder_record, join, split, state_of, without_times

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
                name: without_times(made) if unsettled and join(path, name) in unsettled else made
                for name, made in folder.files.items()
            }
            | {name: folder_record(tree.folders[join(path, name)].mode) for name in folder.folders}
            for path, folder in tree.folders.items()
        },
    )


def pack_some(root: str, tree: FileTree, paths: Iterable[str]) -> bytes:
    """A block with the records of some files, to be appended to others."""
    some: Records = {}
    for path in paths:
        folder, name = split(path)
        made = tree.record(path)
        if made is None and path in tree.folders:
            made = folder_record(tree.folders[path].mode)
        some.setdefault(folder, {})[name] = _GONE if made is None else made
    return _block(root, some)


def save(index: Path, root: str, tree: FileTree, unsettled: set[str]) -> None:
    """Save the records; the next process reads the ``unsettled`` files again. Raises ``WorkspaceError``."""
    data = pack_all(root, tree, unsettled)
    try:
        replace_file(index, data)
    except OSError as error:
        raise WorkspaceError(f"Cannot write {index}: {error.strerror or error}.") from error


def load(index: Path, root: str) -> Records | None:
    """The saved records; None if there are none for this root, or the file is damaged."""
    with contextlib.suppress(OSError):
        found = _read(read_regular(index, None), os.fsencode(root))
        if found is not None:
            return {
                os.fsdecode(folder): {os.fsdecode(name): made for name, made in files.items()}
                for folder, files in found.items()
            }
    return None


def referenced_blobs(index: Path) -> set[str]:
    """The hashes of all contents that an index refers to. Raises ``OSError``."""
    return {
        state_of(made).blob
        for _, folders in _blocks(read_regular(index, None))
        for files in folders.values()
        for made in files.values()
        if made != _GONE
    }


def _block(root: str, folders: Mapping[str, Mapping[str, bytes]]) -> bytes:
    raw = {
        os.fsencode(folder): {os.fsencode(name): made for name, made in files.items()}
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


def _read(data: bytes, root: bytes) -> _Packed | None:
    found: _Packed | None = None
    for of, folders in _blocks(data):
        if of != root:
            return None
        found = {} if found is None else found
        for folder, files in folders.items():
            found.setdefault(folder, {}).update(files)
    if found is None:
        return None
    return {
        folder: {name: made for name, made in files.items() if made != _GONE}
        for folder, files in found.items()
    }
