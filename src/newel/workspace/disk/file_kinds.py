"""Links, folders and named pipes: create, change and remove them by descriptor."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from newel.agent.errors import StaleFile
from newel.workspace.disk.dir_fd import FilePlace, open_place, temporary_name
from newel.workspace.disk.files import failure
from newel.workspace.port import FileNode, kept_mode, not_regular

_ITSELF: Final = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


def become(path: str, thing: FileNode | None, expect: FileNode | None) -> None:
    """See ``TrackedWorkspace.become``."""
    try:
        with open_place(path, resolved=True, make=expect is None) as place:
            current = _lstat_in(place)
            if current != expect:
                raise StaleFile(f"{path} was replaced by something else in the meantime.")
            _replace_node(place, current, thing)
            place.flush()
    except OSError as error:
        raise failure("remove" if thing is None else "write", path, error) from error


def _lstat_in(place: FilePlace) -> FileNode | None:
    try:
        mode = kept_mode(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None
    target = os.readlink(os.fsencode(place.name), dir_fd=place.folder) if stat.S_ISLNK(mode) else b""
    return FileNode(mode, target)


def _replace_node(place: FilePlace, current: FileNode | None, thing: FileNode | None) -> None:
    if current is not None and thing is not None and stat.S_IFMT(current.mode) == stat.S_IFMT(thing.mode):
        if stat.S_ISLNK(thing.mode):
            _link_over(place, thing.target)
        else:
            _chmod(place, thing.mode)
        return
    if any(node is not None and node.is_file for node in (current, thing)):
        # Regular files are written and removed by their content.
        raise not_regular("write", place.path, "other")
    if current is not None:
        remove = os.rmdir if stat.S_ISDIR(current.mode) else os.unlink
        remove(place.name, dir_fd=place.folder)
    if thing is not None:
        _make(place, thing)


def _make(place: FilePlace, thing: FileNode) -> None:
    if stat.S_ISLNK(thing.mode):
        os.symlink(thing.target, os.fsencode(place.name), dir_fd=place.folder)
        return
    if stat.S_ISDIR(thing.mode):
        os.mkdir(place.name, 0o700, dir_fd=place.folder)
    else:
        os.mkfifo(place.name, 0o600, dir_fd=place.folder)
    _chmod(place, thing.mode)


def _link_over(place: FilePlace, target: bytes) -> None:
    """Replace a link by another atomically."""
    beside = temporary_name()
    os.symlink(target, os.fsencode(beside), dir_fd=place.folder)
    try:
        os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except OSError:
        os.unlink(beside, dir_fd=place.folder)
        raise


def _chmod(place: FilePlace, mode: int) -> None:
    bits = stat.S_IMODE(mode)
    if not hasattr(os, "O_PATH"):
        os.chmod(place.name, bits, dir_fd=place.folder, follow_symlinks=False)
        return
    # A descriptor of the node itself: its name may belong to a link by now, and it may be unreadable.
    descriptor = os.open(place.name, _ITSELF, dir_fd=place.folder)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(bits)
    finally:
        os.close(descriptor)
