"""Reading the beginning of a file that somebody else wrote, on whatever host it is: bounded, and never waiting."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.port import FileInfo, Workspace


class WorkspaceFolder(NamedTuple):
    """A folder and the host that it is on; ``path`` is absolute."""

    workspace: Workspace
    path: str


class Head(msgspec.Struct, frozen=True):
    """The first bytes of a file, and its whole ``size`` in bytes."""

    data: bytes
    size: int

    @property
    def is_text(self) -> bool:
        """No NUL in the first 8 KiB, which is how git tells too."""
        return b"\0" not in self.data[:8192]

    def text(self, limit: int) -> tuple[str, int]:
        """At most ``limit`` bytes as text, and how many bytes of the file are not in it. A cut falls on a
        line's end if one is near. Bytes that are not UTF-8 become U+FFFD; a byte order mark goes.
        """
        data = self.data[:limit]
        if len(data) < self.size:
            data = data[: data.rfind(b"\n", len(data) // 2) + 1] or data
        whole = len(data) >= self.size
        text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(data, final=whole)
        return text, max(self.size - len(data), 0)


async def read_head(workspace: Workspace, path: str, limit: int) -> Head:
    """The first ``limit`` bytes of a regular file; ``path`` is absolute, links are followed. One request, and a
    second one where there is more. Raises ``WorkspaceError`` for all that is no file which can be read, and if it is
    ``HostUnavailable`` no other file of that host can.
    """
    data = await workspace.read_bytes(path, size=limit + 1)
    if len(data) <= limit:
        return Head(data, len(data))
    info = await workspace.stat(path)
    return Head(data[:limit], max(info.size if info else 0, len(data)))


def ancestors(root: str) -> tuple[list[str], list[str]]:
    """The folders from a workspace's root upwards, and for each what says that a project begins there."""
    here = PurePosixPath(root)
    folders = [here, *here.parents]
    return [str(folder) for folder in folders], [str(folder / ".git") for folder in folders]


def project_depth(marks: Sequence[FileInfo | None]) -> int:
    """Which of the folders upwards is the project's root: the first that is marked; without one, the first."""
    return next((depth for depth, mark in enumerate(marks) if mark is not None), 0)


async def resolve_in_project(workspace: Workspace, path: str, bounds: str | None = None) -> str:
    """The file that one of a project's leads to, ``bounds`` being the project's root if it is known. Raises ``WorkspaceError``
    if it leads out of the project: who clones a repository does not mean to send a file of their own to a model.
    """
    resolved = await workspace.resolve(path)
    if not PurePosixPath(resolved).is_relative_to(bounds or workspace.root):
        if bounds is None:
            folders, marks = ancestors(workspace.root)
            return await resolve_in_project(
                workspace, path, folders[project_depth(await workspace.stats(marks))]
            )
        raise WorkspaceError(f"{path} is a link to a file outside the project and is not followed.")
    return resolved
