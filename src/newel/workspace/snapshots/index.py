"""What is known of a project's files, kept in a file: for the next process, and for whoever finds out what a killed one did.

It is a block with the records of all files, perhaps followed by blocks with those that became others. Each begins with its
length and its sum, so that one that was cut off is found out.
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
"""In the place of a record."""

Records = dict[str, dict[str, bytes]]
"""By directory and name."""

_Packed = dict[bytes, dict[bytes, bytes]]
"""Names may be no UTF-8."""


def packed(root: str, tree: FileTree, fresh: set[str]) -> bytes:
    """A block with the records of all files and folders; those of ``fresh`` ones with a signature that no file has."""
    return _block(
        root,
        {
            path: {
                name: without_times(made) if fresh and join(path, name) in fresh else made
                for name, made in folder.files.items()
            }
            | {name: folder_record(tree.folders[join(path, name)].mode) for name in folder.folders}
            for path, folder in tree.folders.items()
        },
    )


def packed_some(root: str, tree: FileTree, paths: Iterable[str]) -> bytes:
    """A block with the records of some files, to be put behind others."""
    some: Records = {}
    for path in paths:
        folder, name = split(path)
        made = tree.record(path)
        if made is None and path in tree.folders:
            made = folder_record(tree.folders[path].mode)
        some.setdefault(folder, {})[name] = _GONE if made is None else made
    return _block(root, some)


def save(index: Path, root: str, tree: FileTree, fresh: set[str]) -> None:
    """Keep the records for the next process, which is to read the ``fresh`` files again. Raises ``WorkspaceError``."""
    data = packed(root, tree, fresh)
    try:
        replace_file(index, data)
    except OSError as error:
        raise WorkspaceError(f"Cannot write {index}: {error.strerror or error}.") from error


def load(index: Path, root: str) -> Records | None:
    """The records that were kept; None if none were for this root, or none are whole."""
    with contextlib.suppress(OSError):
        found = _read(read_regular(index, None), os.fsencode(root))
        if found is not None:
            return {
                os.fsdecode(folder): {os.fsdecode(name): made for name, made in files.items()}
                for folder, files in found.items()
            }
    return None


def promised(index: Path) -> set[str]:
    """The contents that whoever reads an index takes to be in the store, by their hashes. Raises ``OSError``."""
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
    """Whose records they are, and the records; up to what is not whole."""
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
