"""Paths as a model gives them: names of files in the project, and of nothing else."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from newel.agent.errors import ToolError, WorkspaceError
from newel.workspace.glob import is_git, is_text
from newel.workspace.port import Workspace

_GITS_OWN: Final = "is in git's own folder; name a file of the project"

LONGEST: Final = 4_096
"""Characters of a path."""


def by_its_words(root: str, given: str) -> str:
    """The relative path that ``given`` is if no link is in it: ``./a//b`` is ``a/b``, the project's own folder ``.``.

    Raises ``ToolError`` for what is absolute, leads out of the project or into ``.git``, or is no name at all.
    """
    if not given or len(given) > LONGEST or "\0" in given or not is_text(given):
        raise ToolError("the path is empty, too long, or holds characters that no file name has")
    path = PurePosixPath(given)
    if path.is_absolute():
        inside = path.is_relative_to(root) and ".." not in path.parts
        hint = f": `{path.relative_to(root)}`" if inside else ", as list_files shows it"
        raise ToolError(f"`{given}` is absolute; give the path relative to the project's folder{hint}")
    if ".." in path.parts:
        raise ToolError(f"`{given}` has `..` in it; give the path from the project's folder down")
    if any(map(is_git, path.parts)):
        raise ToolError(f"`{given}` {_GITS_OWN}")
    return str(path)


async def in_project(workspace: Workspace, given: str) -> str:
    """The one relative path of what ``given`` names: as ``by_its_words``, and a link to ``a/b`` is ``a/b``. It need not exist.

    Raises ``ToolError`` as that does, also for links that lead there.
    """
    path = by_its_words(workspace.root, given)
    try:
        real = PurePosixPath(await workspace.resolve(str(PurePosixPath(workspace.root, path))))
    except WorkspaceError as error:
        raise ToolError(str(error).removesuffix(".")) from error
    if not real.is_relative_to(workspace.root) or not is_text(str(real)):
        raise ToolError(
            f"`{given}` leads out of the project by a link; only files in the project can be named"
        )
    relative = real.relative_to(workspace.root)
    if any(map(is_git, relative.parts)):
        raise ToolError(f"`{given}` {_GITS_OWN}")
    return str(relative)
