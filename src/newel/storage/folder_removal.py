"""Removes folders in which an agent has worked: with closed folders, and thousands in one another."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as possible. Anything else than a folder stays. Blocks; raises nothing."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        with contextlib.suppress(OSError):
            if _is_folder(folder):
                folder.chmod(0o700)
                _empty(folder)
                folder.rmdir()


def _empty(folder: Path) -> None:
    """Folders move up into ``folder`` before they are removed, so their depth does not matter."""
    top = os.open(folder, _FOLDER)
    try:
        stuck: set[str] = set()
        while names := set(os.listdir(top)) - stuck:  # noqa: PTH208 — of an open folder
            for name in names:
                try:
                    _remove(name, top)
                except OSError:
                    stuck.add(name)
    finally:
        os.close(top)


def _remove(name: str, top: int) -> None:
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    place = os.open(name, _FOLDER, dir_fd=top)
    try:
        for each in os.listdir(place):  # noqa: PTH208 — as above
            with contextlib.suppress(OSError):  # the others can go
                if _is_folder(each, place):
                    os.chmod(each, 0o700, dir_fd=place)  # else it could not move
                    os.rename(each, os.urandom(16).hex(), src_dir_fd=place, dst_dir_fd=top)
                else:
                    os.unlink(each, dir_fd=place)
    finally:
        os.close(place)
    os.rmdir(name, dir_fd=top)


def _is_folder(name: str | Path, place: int | None = None) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
