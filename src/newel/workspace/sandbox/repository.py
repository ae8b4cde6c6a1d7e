"""The git repository of a project, as far as the sandbox has to know it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import msgspec

from newel.workspace.git import find_repository

MAX_POINTER: Final = 4096
"""Bytes of a file that names a folder of git."""


class SandboxRepository(msgspec.Struct, frozen=True, kw_only=True):
    """``top`` is the folder of its files, ``folder`` that of git for it (``.git``, or one below ``.git/worktrees``), and ``common`` what
    linked working trees share: objects, branches, settings, hooks. ``common`` equals ``folder`` where nothing is linked.
    """

    top: str
    folder: str
    common: str


def find_sandbox_repository(project: str, home: str) -> SandboxRepository | None:
    """The repository of a project; None without one, or for one that holds the home folder, which would become visible.

    A hostile ``.git`` file may name any folder. It counts only if that folder is a linked working tree that names the file in turn.
    """
    top = find_repository(project)
    if top is None or (top != project and (top == "/" or f"{home}/".startswith(f"{top}/"))):
        return None
    link = f"{top}/.git"
    if os.path.realpath(link) != link:
        return None
    if Path(link).is_dir():
        is_whole = Path(link, "config").is_file() and not os.path.lexists(f"{link}/commondir")
        return SandboxRepository(top=top, folder=link, common=link) if is_whole else None
    with contextlib.suppress(OSError, ValueError):
        folder = _named(link, top, prefix="gitdir: ")
        common = _named(f"{folder}/commondir", folder)
        names_it = _named(f"{folder}/gitdir", folder) == link
        if names_it and Path(folder).parent == Path(common, "worktrees") and Path(common, "config").is_file():
            return SandboxRepository(top=top, folder=folder, common=common)
    return None


def _named(file: str, base: str, *, prefix: str = "") -> str:
    """The real path that a file holds. Raises ``OSError`` and ``ValueError``."""
    with Path(file).open("rb") as source:
        text = os.fsdecode(source.read(MAX_POINTER)).rstrip("\n")
    if not text.startswith(prefix):
        raise ValueError(f"{file} does not name a folder")
    return os.path.realpath(os.path.join(base, text.removeprefix(prefix)))  # noqa: PTH118 — may be any bytes
