"""The submodules of a repository. Whenever git looks at the repository, it obeys the settings in each of their folders: those that a
command leaves in an empty one, too.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import struct
from collections.abc import Iterator
from typing import Final

from newel.workspace.sandbox.repository import SandboxRepository, read_pointer
from newel.workspace.sandbox.sandbox_disk import SandboxDisk, literal

MAX_INDEX: Final = 256 << 20
"""Bytes of an index that is read."""

MAX_MISSING: Final = 1_000
"""Submodules without a folder that are watched: each is looked at after each command."""

_GITLINK: Final = 0o160000
_MODES: Final = frozenset({0o100644, 0o100755, 0o120000, 0o040000, _GITLINK})
_MODE_AT: Final = 24
_HASH_AT: Final = 40


def find_submodule_settings(repository: SandboxRepository, folder: str, disk: SandboxDisk) -> list[str]:
    """What commands must not change in the submodules below ``folder``, and in theirs: ``.git``, also where there is none yet, and the
    whole folder of one that is not checked out.
    """
    found: list[str] = []
    missing = 0
    waiting = [(repository.top, repository.folder)]
    while waiting:
        top, git_folder = waiting.pop()
        for place in (posixpath.join(top, name) for name in _submodules(git_folder, disk)):
            if not place.startswith(f"{folder}/"):
                continue
            link = f"{place}/.git"
            if not disk.exists(place):
                missing += 1
                found += [link] if missing <= MAX_MISSING else []
            elif disk.real(place) == place:
                found.append(link)
                if not disk.exists(link):
                    found += [] if disk.match([f"{literal(place)}/*"]) else [place]
                elif own := _git_folder(place, link, disk):
                    waiting.append((place, own))
    return found


def _git_folder(place: str, link: str, disk: SandboxDisk) -> str:
    """The folder of git for a submodule; empty if ``.git`` is none, and names none."""
    if disk.is_folder(link):
        return link
    with contextlib.suppress(ValueError):
        return read_pointer(link, place, disk, prefix="gitdir: ")
    return ""


def _submodules(git_folder: str, disk: SandboxDisk) -> list[str]:
    """The submodules in an index, and in the file that it may share with others."""
    indexes = [f"{git_folder}/index", *disk.match([f"{literal(git_folder)}/sharedindex.*"])]
    return [os.fsdecode(path) for index in indexes for path in find_gitlinks(disk.read(index, MAX_INDEX))]


def find_gitlinks(index: bytes) -> list[bytes]:
    """The paths of the submodules in an index of git; none for one that cannot be read."""
    if _GITLINK.to_bytes(4) not in index:  # as nearly always: to read all entries takes time
        return []
    for hash_size in (20, 32):
        try:
            return [path for mode, path in _entries(index, hash_size) if mode == _GITLINK]
        except (ValueError, IndexError, struct.error):
            continue
    return []


def _entries(index: bytes, hash_size: int) -> Iterator[tuple[int, bytes]]:
    """The mode and the path of each entry. Raises ``ValueError``, ``IndexError`` and ``struct.error`` for another format."""
    signature, version, count = struct.unpack_from(">4sII", index)
    if signature != b"DIRC" or version not in {2, 3, 4}:
        raise ValueError("not an index")
    at, path = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", index, at + _MODE_AT)
        (flags,) = struct.unpack_from(">H", index, at + _HASH_AT + hash_size)
        if mode not in _MODES:
            raise ValueError("not an entry")
        name_at = at + _HASH_AT + hash_size + (4 if flags & 0x4000 else 2)
        kept = b""
        if version == 4:  # each path is the one before without its end, and another end
            dropped, name_at = _number(index, name_at)
            kept = path[: len(path) - dropped]
        end = index.index(b"\0", name_at)
        path = kept + index[name_at:end]
        yield mode, path
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8


def _number(index: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value, more = index[at] & 127, index[at] & 128
    while more:
        at += 1
        value, more = ((value + 1) << 7) + (index[at] & 127), index[at] & 128
    return value, at + 1
