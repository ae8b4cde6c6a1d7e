"""The git repository of a project, as far as the sandbox has to know it."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from newel.workspace.git import run_git
from newel.workspace.git_settings import MAX_SETTINGS, find_named_files
from newel.workspace.sandbox.sandbox_disk import LOCAL_DISK, SandboxDisk, literal

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
        folder = read_pointer(link, top, disk, prefix="gitdir: ")
        common = read_pointer(f"{folder}/commondir", folder, disk)
        names_it = read_pointer(f"{folder}/gitdir", folder, disk) == link
        is_linked = posixpath.dirname(folder) == f"{common}/worktrees"
        if names_it and is_linked and disk.is_file(f"{common}/config"):
            return SandboxRepository(top=top, folder=folder, common=common)
    return None


def find_git_settings(
    repository: SandboxRepository, folder: str, home: str, environ: Mapping[str, str], disk: SandboxDisk
) -> list[str]:
    """What git obeys in a folder, besides its own: folders of hooks, files of settings, and programs such as filters, as the settings of
    the system, of the user and of the repository name them. What git alone can tell, ``ask_for_hook_folders`` finds.
    """
    of_user = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    settings = [
        environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig",
        environ.get("GIT_CONFIG_GLOBAL") or f"{home}/.gitconfig",
        *(f"{home}/.gitconfig", f"{of_user}/git/config"),
        *(f"{repository.common}/config", f"{repository.folder}/config.worktree"),
    ]
    named = find_named_files(settings, home, lambda file: disk.read(file, MAX_SETTINGS))
    programs = _in_folder(folder, repository, named.programs)
    return [
        *_in_folder(folder, repository, [*named.hooks, *settings, *named.included]),
        *(path for path in programs if not _is_installed(path) and not disk.is_folder(path)),
    ]


def _is_installed(program: str) -> bool:
    """Whether a program is in a folder of packages, which commands may have to replace."""
    from newel.workspace.snapshots.ignore_rules import BUILD_DIRS

    return not BUILD_DIRS.isdisjoint(program.split("/"))


def ask_for_hook_folders(repository: SandboxRepository, folder: str) -> list[str]:
    """The folders of hooks in a folder that git of this machine finds with the user's environment: it knows all ways to write them.
    Blocks.
    """
    words = ("config", "--null", "--type=path", "--get-all", "core.hooksPath")
    answer = run_git(repository.top, *words, with_settings=True) or b""
    return _in_folder(folder, repository, os.fsdecode(answer).split("\0")[:-1])


def _in_folder(folder: str, repository: SandboxRepository, named: Iterable[str]) -> list[str]:
    paths = [posixpath.normpath(posixpath.join(repository.top, path)) for path in named if path]
    own = (f"{repository.folder}/", f"{repository.common}/")  # protected as a whole
    return [
        path
        for path in dict.fromkeys(paths)
        if path.startswith(f"{folder}/") and not f"{path}/".startswith(own)
    ]


def _find_top(folder: str, disk: SandboxDisk) -> str | None:
    places = [folder]
    while places[-1] != "/":
        places.append(posixpath.dirname(places[-1]))
    found = set(disk.match(literal(posixpath.join(place, ".git")) for place in places))
    return next((place for place in places if posixpath.join(place, ".git") in found), None)


def read_pointer(file: str, base: str, disk: SandboxDisk, *, prefix: str = "") -> str:
    """The real path that a file holds. Raises ``ValueError``."""
    text = os.fsdecode(disk.read(file, MAX_POINTER)).rstrip("\n")
    named = text.removeprefix(prefix)
    if not text.startswith(prefix) or not named:
        raise ValueError(f"{file} does not name a folder")
    return disk.real(posixpath.join(base, named))
