"""``find``: lists the files whose paths match a pattern."""

from __future__ import annotations

import posixpath
from functools import partial
from typing import Annotated, Final

from msgspec import Meta

from newel.agent.errors import ToolError
from newel.agent.formatting import pluralize
from newel.agent.ports import OnOutput, Planned, ToolResult, Touch
from newel.tools.base import Parameters
from newel.tools.search.files import FileSearchTool, printable
from newel.workspace.glob import Glob

LIMIT: Final = 1_000

GLOB: Final = (
    "`*` matches within a name, `**` any folders, `{a,b}` either. Without `/` it matches at any depth. Hidden files only match if "
    "the dot is explicit: `.github/**`"
)


class FindParameters(Parameters, frozen=True):
    pattern: Annotated[str, Meta(description=f"Glob pattern: {GLOB}")]
    path: Annotated[str, Meta(description="Folder to search. Omit for the working folder.")] = "."
    limit: Annotated[
        Annotated[int, Meta(ge=1)], Meta(description=f"Maximum number of paths. Omit for {LIMIT}.")
    ] = LIMIT


class FindTool(FileSearchTool[FindParameters]):
    name = "find"
    label = "Find Files"
    description = (
        "Find files by their paths, without those that git ignores. Paths are relative to the folder."
    )
    parameters = FindParameters
    essential = ("pattern",)

    async def plan(self, arguments: FindParameters, /) -> Planned:
        glob, path = self._glob("pattern", arguments.pattern), await self._resolve(arguments.path)

        async def describe() -> str:
            return posixpath.join(arguments.path, arguments.pattern)

        return Planned(describe, partial(self._find, arguments, path, glob), [Touch(path, arguments.path)])

    async def _find(self, arguments: FindParameters, path: str, glob: Glob, _: OnOutput, /) -> ToolResult:
        if not await self._check_folder(path, arguments.path):
            raise ToolError(f"{arguments.path} is a file, not a folder. Read it with read.")
        listing = await self._files.find(path, glob)
        shown = self._fit([printable(name) for name in listing.files[: arguments.limit]])
        more = len(listing.files) - len(shown)
        notices = listing.notices()
        if more:
            notices.insert(
                0, f"… and {pluralize(more, 'file')} more. Narrow the pattern, or set path to a folder."
            )
        lines = [*shown, *(f"[{notice}]" for notice in notices)]
        return ToolResult(
            "\n".join(lines) or "No file matches.",
            details={"pattern": arguments.pattern, "files": len(shown), "truncated": bool(more)},
        )
