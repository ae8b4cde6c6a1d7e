"""Validates paths from a model: they must name files in the project."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from newel.agent.errors import ToolError, WorkspaceError
from newel.workspace.glob import is_git, is_text
from newel.workspace.port import Workspace

_IN_GIT: Final = "is in the .git folder; name a file of the project"

MAX_LENGTH: Final = 4_096
"""Characters of a path."""


def normalize(root: str, given: str) -> str:
    """Normalize a relative path without following links: ``./a//b`` is ``a/b``, the project folder is ``.``.

    Raises ``ToolError`` for a path that is absolute, leads out of the project or into ``.git``, or is not valid.
    """
    if not given or len(given) > MAX_LENGTH or "\0" in given or not is_text(given):
        raise ToolError("the path is empty, too long, or contains invalid characters")
    path = PurePosixPath(given)
    if path.is_absolute():
        inside = path.is_relative_to(root) and ".." not in path.parts
        hint = f": `{path.relative_to(root)}`" if inside else ", as in list_files"
        raise ToolError(f"`{given}` is absolute; use the path relative to the project folder{hint}")
    if ".." in path.parts:
        raise ToolError(f"`{given}` contains `..`; use the path relative to the project folder")
    if any(map(is_git, path.parts)):
        raise ToolError(f"`{given}` {_IN_GIT}")
    return str(path)


async def in_project(workspace: Workspace, given: str) -> str:
    """The canonical relative path of a file: as ``normalize``, with links followed. The file need not exist.

    Raises ``ToolError`` as ``normalize`` does, also for links that lead there.
    """
    path = normalize(workspace.root, given)
    try:
        real = PurePosixPath(await workspace.resolve(str(PurePosixPath(workspace.root, path))))
    except WorkspaceError as error:
        raise ToolError(str(error).removesuffix(".")) from error
    if not real.is_relative_to(workspace.root) or not is_text(str(real)):
        raise ToolError(
            f"`{given}` leads out of the project through a link; only files in the project are allowed"
        )
    relative = real.relative_to(workspace.root)
    if any(map(is_git, relative.parts)):
        raise ToolError(f"`{given}` {_IN_GIT}")
    return str(relative)
