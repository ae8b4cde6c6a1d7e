"""Lists the files below a folder of a workspace, on any host."""

from __future__ import annotations

import posixpath
from typing import NamedTuple

import anyio.lowlevel

from newel.agent.errors import WorkspaceError
from newel.workspace.glob import is_text, left_out
from newel.workspace.port import Workspace


class FileListing(NamedTuple):
    """Paths relative to the workspace's root, in order; not ``complete`` if there are more."""

    files: list[str]
    complete: bool


def below(workspace: Workspace, path: str) -> str:
    """The absolute path of one that is relative to the root; an empty one is the root."""
    return posixpath.join(workspace.root, path) if path else workspace.root


def path_sort_key(path: str) -> list[str]:
    """Sorts paths so that a folder's files stand together."""
    return path.split("/")


async def walk(workspace: Workspace, base: str = "", *, hidden: bool = False, limit: int) -> FileListing:
    """All regular files below ``base``, a path relative to the root; at most ``limit`` of them.

    Skips files of git and the system, names that are not UTF-8, links, unreadable folders, and unless ``hidden`` names with a
    leading dot.
    """
    if not await has_no_links(workspace, below(workspace, base)):
        return FileListing([], complete=True)
    files: list[str] = []
    pending = [(base, True)]
    while pending:
        path, is_folder = pending.pop()
        if not is_folder:
            if len(files) == limit:
                return FileListing(files, complete=False)
            files.append(path)
            continue
        await anyio.lowlevel.checkpoint()
        absolute = below(workspace, path)
        try:
            entries = await workspace.list(absolute, limit=limit)
        except WorkspaceError:
            continue
        pending += [
            (posixpath.join(path, entry.name), entry.kind == "directory")
            for entry in reversed(entries)
            if entry.kind != "other"
            and not entry.is_link
            and not left_out(entry.name)
            and (hidden or not entry.name.startswith("."))
            and is_text(entry.name)
        ]
    return FileListing(files, complete=True)


async def has_no_links(workspace: Workspace, absolute: str) -> bool:
    """Whether a path has no links, and no ``.`` or ``..``."""
    return await workspace.resolve(absolute) == absolute
