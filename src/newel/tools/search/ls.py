"""``ls``: lists a folder."""

from __future__ import annotations

import posixpath
from functools import partial
from typing import Annotated, Final

from msgspec import Meta

from newel.agent.errors import ToolError
from newel.agent.formatting import pluralize
from newel.agent.ports import OnOutput, Planned, ToolResult, Touch
from newel.text.format import format_size
from newel.tools.base import Parameters
from newel.tools.search.files import FileSearchTool, printable
from newel.workspace.port import DirectoryEntry, FileInfo

LIMIT: Final = 500


class LsParameters(Parameters, frozen=True):
    path: Annotated[str, Meta(description="Folder to list. Omit for the working folder.")] = "."
    limit: Annotated[
        Annotated[int, Meta(ge=1)], Meta(description=f"Maximum number of names. Omit for {LIMIT}.")
    ] = LIMIT


class LsTool(FileSearchTool[LsParameters]):
    name = "ls"
    label = "List Folder"
    description = (
        "List a folder, hidden names included: folders end with /, links with @, files have their size."
    )
    parameters = LsParameters

    async def plan(self, arguments: LsParameters, /) -> Planned:
        path = await self._resolve(arguments.path)

        async def describe() -> str:
            return arguments.path

        return Planned(describe, partial(self._list, arguments, path), [Touch(path, arguments.path)])

    async def _list(self, arguments: LsParameters, path: str, _: OnOutput, /) -> ToolResult:
        if not await self._check_folder(path, arguments.path):
            raise ToolError(f"{arguments.path} is a file, not a folder. Read it with read.")
        entries = await self._workspace.list(path)
        shown = entries[: arguments.limit]
        infos = await self._workspace.stats([posixpath.join(path, entry.name) for entry in shown])
        lines = self._fit([_line(entry, info) for entry, info in zip(shown, infos, strict=True)])
        more = len(entries) - len(lines)
        if more:
            lines.append(f"[… and {pluralize(more, 'name')} more. Raise limit, or use find with a pattern.]")
        return ToolResult(
            "\n".join(lines) or "The folder is empty.",
            details={"path": arguments.path, "entries": len(entries), "truncated": bool(more)},
        )


def _line(entry: DirectoryEntry, info: FileInfo | None) -> str:
    name = printable(entry.name)
    if entry.is_link:
        return f"{name}@"
    if entry.kind == "directory":
        return f"{name}/"
    return f"{name}  {format_size(info.size)}" if info is not None and entry.kind == "file" else name
