"""The base of these tools: read-only calls, and answers in JSON."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from newel.agent.errors import ToolError, WorkspaceError
from newel.agent.ports import ToolResult
from newel.tools.base import Parameters, TypedTool
from newel.workspace.glob import is_git, is_text
from newel.workspace.port import Workspace

_Count = Annotated[int, Meta(ge=1)]


class ProjectLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one call; sizes are in bytes of UTF-8. ``msgspec.convert`` validates settings."""

    max_search_results_default: _Count = 20
    max_search_results_cap: _Count = 50
    max_search_snippet_lines: _Count = 20
    max_search_bytes: _Count = 65_536
    max_search_seconds: _Count = 30

    max_read_bytes_default: _Count = 65_536
    max_read_bytes_cap: _Count = 262_144
    max_read_lines_default: _Count = 800

    max_listed_files: _Count = 1_000
    max_listed_bytes: _Count = 65_536

    max_question_characters: _Count = 4_000

    max_edits_per_proposal: _Count = 500
    max_proposal_bytes: _Count = 1_048_576


_IN_GIT: Final = "is in the .git folder; name a file of the project"

MAX_LENGTH: Final = 4_096
"""Characters of a path."""


def normalize(root: str, requested: str) -> str:
    """Normalize a relative path without following links: ``./a//b`` is ``a/b``, the project folder is ``.``.

    Raises ``ToolError`` for a path that is absolute, leads out of the project or into ``.git``, or is not valid.
    """
    if not requested or len(requested) > MAX_LENGTH or "\0" in requested or not is_text(requested):
        raise ToolError("the path is empty, too long, or contains invalid characters")
    path = PurePosixPath(requested)
    if path.is_absolute():
        inside = path.is_relative_to(root) and ".." not in path.parts
        hint = f": `{path.relative_to(root)}`" if inside else ", as in list_files"
        raise ToolError(f"`{requested}` is absolute; use the path relative to the project folder{hint}")
    if ".." in path.parts:
        raise ToolError(f"`{requested}` contains `..`; use the path relative to the project folder")
    if any(map(is_git, path.parts)):
        raise ToolError(f"`{requested}` {_IN_GIT}")
    return str(path)


async def in_project(workspace: Workspace, requested: str) -> str:
    """The canonical relative path of a file: as ``normalize``, with links followed. The file need not exist.

    Raises ``ToolError`` as ``normalize`` does, also for links that lead there.
    """
    path = normalize(workspace.root, requested)
    try:
        real = PurePosixPath(await workspace.resolve(str(PurePosixPath(workspace.root, path))))
    except WorkspaceError as error:
        raise ToolError(str(error).removesuffix(".")) from error
    if not real.is_relative_to(workspace.root) or not is_text(str(real)):
        raise ToolError(
            f"`{requested}` leads out of the project through a link; only files in the project are allowed"
        )
    relative = real.relative_to(workspace.root)
    if any(map(is_git, relative.parts)):
        raise ToolError(f"`{requested}` {_IN_GIT}")
    return str(relative)


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of answers. ``notice`` says what is left out, and how to get it."""

    truncated: bool = False
    notice: str = ""


def json_result(answer: ToolAnswer, **details: Any) -> ToolResult:
    """The answer for the model; ``details`` are for screens."""
    return ToolResult(msgspec.json.encode(answer).decode(), details=details)


P = TypeVar("P", bound=Parameters)


class ReadOnlyTool(TypedTool[P]):
    """A tool that changes nothing, so that its calls may overlap."""

    read_only = True

    def __init__(self, workspace: Workspace, limits: ProjectLimits) -> None:
        self._workspace = workspace
        self._limits = limits

    async def serial_key(self, _: P, /) -> None:
        return None

    async def _in_project(self, argument: str, requested: str) -> str:
        """See ``in_project``; the error is one of the call's arguments."""
        try:
            return await in_project(self._workspace, requested)
        except ToolError as error:
            raise self.invalid(f"argument `{argument}`: {error}") from error
