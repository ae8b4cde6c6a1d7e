"""Bounded reads of the files that become part of a prompt, on any host."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.port import FileInfo, Workspace

IsPrivate = Callable[[str], bool]
"""Whether a real path may be read only after approval."""


class WorkspaceFolder(msgspec.Struct, frozen=True):
    """A folder and its workspace; ``path`` is absolute."""

    workspace: Workspace
    path: str


class Head(msgspec.Struct, frozen=True):
    """The first bytes of a file, and its total ``size`` in bytes."""

    data: bytes
    size: int

    @property
    def is_text(self) -> bool:
        """No NUL in the first 8 KiB, as git decides."""
        return b"\0" not in self.data[:8192]

    def text(self, limit: int) -> tuple[str, int]:
        """At most ``limit`` bytes as text, and the number of bytes left out. It ends with a line if one ends nearby. Bytes that
        are not UTF-8 become U+FFFD; a byte order mark is removed.
        """
        data = self.data[:limit]
        if len(data) < self.size:
            data = data[: data.rfind(b"\n", len(data) // 2) + 1] or data
        whole = len(data) >= self.size
        text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(data, final=whole)
        return text, max(self.size - len(data), 0)


async def read_head(workspace: Workspace, path: str, limit: int) -> Head:
    """Read the first ``limit`` bytes of a regular file with one request, or two for a longer file. ``path`` is real: if a link is in it by
    now, this is not the file that was judged. Raises ``WorkspaceError``.
    """
    data = await workspace.read_bytes(path, size=limit + 1, nofollow=True)
    if len(data) <= limit:
        return Head(data, len(data))
    info = await workspace.stat(path)
    return Head(data[:limit], max(info.size if info else 0, len(data)))


def ancestors(root: str) -> tuple[list[str], list[str]]:
    """The folders from a workspace's root upwards, and for each the path of the ``.git`` that marks a project's root."""
    current = PurePosixPath(root)
    folders = [current, *current.parents]
    return [str(folder) for folder in folders], [str(folder / ".git") for folder in folders]


def project_depth(marks: Sequence[FileInfo | None]) -> int:
    """The index of the first marked folder, the project's root; 0 if none is marked."""
    return next((depth for depth, mark in enumerate(marks) if mark is not None), 0)


def none_private(_: str) -> bool:
    return False


async def resolve_in_project(
    workspace: Workspace, path: str, bounds: str | None = None, *, is_private: IsPrivate = none_private
) -> str:
    """Resolve links in the path of a project's file; ``bounds`` is the project's root if known. Raises ``WorkspaceError`` for a
    link out of the project, or to a file that ``is_private``: a cloned repository must not send the user's own files to a model.
    """
    resolved = await workspace.resolve(path)
    if resolved != path and is_private(resolved):
        raise WorkspaceError(
            f"{path} is a link to {resolved}, which often holds secrets, and is not followed."
        )
    if not PurePosixPath(resolved).is_relative_to(bounds or workspace.root):
        if bounds is None:
            folders, marks = ancestors(workspace.root)
            return await resolve_in_project(
                workspace, path, folders[project_depth(await workspace.stats(marks))], is_private=is_private
            )
        raise WorkspaceError(f"{path} is a link to a file outside the project and is not followed.")
    return resolved
