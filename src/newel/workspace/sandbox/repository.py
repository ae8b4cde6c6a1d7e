"""The git repository of a project, as far as the sandbox has to know it."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from typing import Final

import msgspec

from newel.workspace.sandbox.sandbox_disk import LOCAL_DISK, SandboxDisk, literal

_HOOKS: Final = rb'(?im)(?:^|\])\s*hookspath\s*=\s*"?([^"\n;#]+)'

MAX_SETTINGS: Final = 64 << 10
"""Bytes of a file of git's settings."""

MAX_POINTER: Final = 4096
"""Bytes of a file that names a folder of git."""


class SandboxRepository(msgspec.Struct, frozen=True, kw_only=True):
    """``top`` is the folder of its files, ``folder`` that of git for it (``.git``, or one below ``.git/worktrees``), and ``common`` what
    linked working trees share: objects, branches, settings, hooks. ``common`` equals ``folder`` where nothing is linked.
    """

    top: str
    folder: str
    common: str


def find_sandbox_repository(
    project: str, home: str, disk: SandboxDisk = LOCAL_DISK
) -> SandboxRepository | None:
    """The repository of a project; None without one, or for one that holds the home folder, which would become visible.

    A hostile ``.git`` file may name any folder. It counts only if that folder is a linked working tree that names the file in turn.
    """
    top = _find_top(project, disk)
    if top is None or (top != project and (top == "/" or f"{home}/".startswith(f"{top}/"))):
        return None
    link = f"{top}/.git"
    if disk.real(link) != link:
        return None
    if disk.is_folder(link):
        is_whole = disk.is_file(f"{link}/config") and not disk.exists(f"{link}/commondir")
        return SandboxRepository(top=top, folder=link, common=link) if is_whole else None
    with contextlib.suppress(ValueError):
        folder = _named(link, top, disk, prefix="gitdir: ")
        common = _named(f"{folder}/commondir", folder, disk)
        names_it = _named(f"{folder}/gitdir", folder, disk) == link
        is_linked = posixpath.dirname(folder) == f"{common}/worktrees"
        if names_it and is_linked and disk.is_file(f"{common}/config"):
            return SandboxRepository(top=top, folder=folder, common=common)
    return None


def find_hook_folders(repository: SandboxRepository, home: str, disk: SandboxDisk = LOCAL_DISK) -> list[str]:
    """The folders in which git looks for hooks besides its own, as the user's settings and the repository's name them. The files that they
    include are not read.
    """
    settings = [
        *(f"{home}/.gitconfig", f"{home}/.config/git/config"),
        *(f"{repository.common}/config", f"{repository.folder}/config.worktree"),
    ]
    named = [name.strip() for file in settings for name in re.findall(_HOOKS, disk.read(file, MAX_SETTINGS))]
    paths = [os.fsdecode(re.sub(rb"^~(?=/)", lambda _: os.fsencode(home), name)) for name in named]
    return [posixpath.normpath(posixpath.join(repository.top, path)) for path in paths]


def _find_top(folder: str, disk: SandboxDisk) -> str | None:
    places = [folder]
    while places[-1] != "/":
        places.append(posixpath.dirname(places[-1]))
    found = set(disk.match(literal(posixpath.join(place, ".git")) for place in places))
    return next((place for place in places if posixpath.join(place, ".git") in found), None)


def _named(file: str, base: str, disk: SandboxDisk, *, prefix: str = "") -> str:
    """The real path that a file holds. Raises ``ValueError``."""
    text = os.fsdecode(disk.read(file, MAX_POINTER)).rstrip("\n")
    named = text.removeprefix(prefix)
    if not text.startswith(prefix) or not named:
        raise ValueError(f"{file} does not name a folder")
    return disk.real(posixpath.join(base, named))
