"""``read``: a file's lines with their numbers, an image, or the names in a directory."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Annotated, Final

import anyio.lowlevel
import anyio.to_thread
from msgspec import Meta

from newel.agent.errors import HostUnavailable, ToolError, WorkspaceError
from newel.agent.formatting import pluralize
from newel.agent.ports import OnOutput, Planned, ToolResult, Touch
from newel.tools.file_tool import FileParameters, FileTool
from newel.tools.images import LARGEST_FILE, mime_type, picture
from newel.tools.line_pager import LONGEST_LINE, Page
from newel.tools.paths import named, not_found
from newel.tools.text import BOM
from newel.tools.tracker import FileTracker
from newel.workspace.port import Workspace

LINES: Final = 5_000
"""Lines of one call."""

ROOM: Final = 256 * 1024
"""Bytes of one call's output, at most."""

NAMES: Final = 500
"""Names of a directory that are shown."""

BLOCK: Final = 1 << 20
"""Bytes that are held of a file at a time."""

LOOKED_AT: Final = 8_192
"""Bytes at the beginning of a file among which a NUL makes it binary, as in ``git diff``."""


# The bounds are told to the model but not enforced: more lines than a page has are a page.
_Offset = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
_Limit = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": LINES})]


class ReadParameters(FileParameters, frozen=True):
    file_path: Annotated[str, Meta(description="Path to file to read (relative or absolute)")]
    offset: Annotated[
        _Offset | None,
        Meta(description="Line number to start reading from (1-indexed). Omit to read from beginning."),
    ] = None
    limit: Annotated[
        _Limit | None,
        Meta(description=f"Maximum number of lines to read. Omit to read entire file (max {LINES} lines)."),
    ] = None


class ReadTool(FileTool[ReadParameters]):
    name = "read"
    label = "Read File"
    description = (
        f"Read file contents, with line numbers. For files >{LINES} lines, use offset and limit to read in "
        "chunks. Images are shown as images, a directory as its names."
    )
    read_only = True
    parameters = ReadParameters

    def __init__(self, workspace: Workspace, tracker: FileTracker, *, room: int = ROOM) -> None:
        """``room`` is how many bytes of output a call may have."""
        super().__init__(workspace, tracker)
        self._room = min(room, ROOM)

    async def plan(self, arguments: ReadParameters, /) -> Planned:
        path = await self._workspace.resolve(arguments.file_path)

        async def describe() -> str:
            return arguments.file_path

        return Planned(describe, partial(self._read, arguments, path), [Touch(path, arguments.file_path)])

    async def _read(self, arguments: ReadParameters, path: str, _: OnOutput, /) -> ToolResult:
        try:  # a file, mostly, which is asked for once: it may be far away
            head = await self._workspace.read_bytes(path, size=BLOCK)
        except HostUnavailable:
            raise
        except WorkspaceError as error:
            info = await self._workspace.stat(path)
            if info is None:
                raise await not_found(self._workspace, path, arguments.file_path) from error
            if info.kind == "directory":
                return await self._directory(path, arguments.file_path)
            raise
        if kind := mime_type(head):
            return await self._image(path, arguments.file_path, kind)
        if b"\0" in head[:LOOKED_AT]:
            name = shlex.quote(arguments.file_path)
            raise ToolError(
                f"Cannot read binary file '{arguments.file_path}'. Use bash tool if you need to inspect: "
                f'bash(command="file {name}") or bash(command="xxd {name} | head")'
            )
        return await self._text(path, arguments, head)

    async def _text(self, path: str, arguments: ReadParameters, head: bytes) -> ToolResult:
        import hashlib

        first = max(1, arguments.offset or 1)
        page = Page(first, max(1, min(arguments.limit or LINES, LINES)), self._room)
        seen = hashlib.sha256(head)
        page.add(head.removeprefix(BOM))
        block, position = head, len(head)
        while len(block) == BLOCK:
            await anyio.lowlevel.checkpoint()
            block = await self._workspace.read_bytes(path, start=position, size=BLOCK)
            position += len(block)
            seen.update(block)
            page.add(block)
        page.finish()
        if first > max(1, page.total):
            raise ToolError(
                f"Offset {first} is beyond the end of {arguments.file_path}, "
                f"which has {pluralize(page.total, 'line')}."
            )
        self._tracker.saw(path, seen.hexdigest())
        truncated = page.last < page.total and (
            page.full or arguments.limit is None or arguments.limit > LINES
        )
        return ToolResult(
            "\n".join([*_warnings(page, arguments, truncated=truncated), *page.lines])
            or "The file is empty.",
            details={
                "filePath": arguments.file_path,
                "totalLines": page.total,
                "linesRead": len(page.lines),
                "offset": arguments.offset or 0,
                "truncated": truncated,
            },
        )

    async def _image(self, path: str, name: str, kind: str) -> ToolResult:
        data = await self._workspace.read_bytes(path, size=LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ToolError(
                f"{name} is an image of more than {LARGEST_FILE:,} bytes, which are the most that can be read."
            )
        image = await anyio.to_thread.run_sync(picture, data, kind, name)
        text = f"{name}: {kind}, {image.width} x {image.height} pixels, {pluralize(len(data), 'byte')}"
        if image.scaled:
            text += f", shown at {image.scaled[0]} x {image.scaled[1]}"
        return ToolResult(
            text,
            images=[image.content],
            details={
                "filePath": name,
                "mimeType": kind,
                "width": image.width,
                "height": image.height,
                "size": len(data),
            },
        )

    async def _directory(self, path: str, name: str) -> ToolResult:
        names = [named(entry) for entry in await self._workspace.list(path)]
        text = "\n".join([f"{name} is a directory with {pluralize(len(names), 'name')}:", *names[:NAMES]])
        if len(names) > NAMES:
            text += f"\n… and {len(names) - NAMES:,} more."
        text += f'\nRead one of its files, or look closer with bash(command="ls -la {shlex.quote(name)}").'
        return ToolResult(
            text, details={"filePath": name, "entries": len(names), "truncated": len(names) > NAMES}
        )


def _warnings(page: Page, arguments: ReadParameters, *, truncated: bool) -> list[str]:
    """What the page leaves out, and how to go on."""
    warnings: list[str] = []
    if truncated:
        shown = f"lines {page.first}-{page.last}" if page.first > 1 else f"first {len(page.lines)}"
        warnings.append(
            f"WARNING: File has {page.total} lines, showing {shown}. "
            f"Use offset and limit parameters to read more. Next: offset={page.last + 1}."
        )
    if page.cut:
        numbers = ", ".join(map(str, page.cut[:10])) + (" …" if len(page.cut) > 10 else "")
        name = shlex.quote(arguments.file_path)
        warnings.append(
            f"WARNING: Lines over {LONGEST_LINE} characters are cut: {numbers}. To see more of one: "
            f'bash(command="sed -n {page.cut[0]}p {name} | cut -c {LONGEST_LINE + 1}-{2 * LONGEST_LINE}")'
        )
    return warnings
