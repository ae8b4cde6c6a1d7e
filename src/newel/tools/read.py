"""``read``: shows the numbered lines of a file, an image, or the names in a directory."""

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
from newel.tools.file_tool import BOM, FileParameters, FileTool, FileTracker, entry_label, not_found
from newel.workspace.port import Workspace

LONGEST_LINE: Final = 2_000
"""Characters of a line that are shown; the rest is cut."""

_KEPT: Final = 4 * LONGEST_LINE + 4
"""Bytes of a line that are needed: at most four for each character, and one more character to tell whether it is cut."""


class Page:
    """The lines from number ``first`` on (counted from 1), as ``cat -n`` shows them: at most ``limit``, and as many as fit into
    ``room`` bytes, but at least one. Pass the whole file to ``add`` block by block, then call ``finish``.
    """

    def __init__(self, first: int, limit: int, room: int) -> None:
        self.first = first
        self.lines: list[str] = []
        self.total = 0
        """The number of lines in the file, once finished."""
        self.cut: list[int] = []
        """The numbers of lines that are cut."""
        self.full = False
        """Whether there was no room for another line."""
        self._limit = limit
        self._room = room
        self._line = 1
        self._begun = False
        self._kept = bytearray()
        self._size = 0

    @property
    def last(self) -> int:
        """The number of the last line on the page."""
        return self.first + len(self.lines) - 1

    @property
    def _complete(self) -> bool:
        return self.full or len(self.lines) == self._limit

    def add(self, block: bytes) -> None:
        if not block:
            return
        self._begun = not block.endswith(b"\n")
        line = self._line
        self._line += block.count(b"\n")
        if self._line < self.first or self._complete:
            return  # not on the page: only count its lines
        for index, piece in enumerate(block.split(b"\n")):
            if index:
                if line >= self.first:
                    self._show(line)
                line += 1
            if line >= self.first:
                if self._complete:
                    return
                self._size += len(piece)
                self._kept += piece[: _KEPT - len(self._kept)]

    def finish(self) -> None:
        """Add the last line if it has no line end."""
        self.total = self._line - 1 + self._begun
        if self._begun and self._line >= self.first and not self._complete:
            self._show(self._line)

    def _show(self, number: int) -> None:
        tail = bytes(self._kept)
        text = (tail.removesuffix(b"\r") if len(tail) == self._size else tail).decode(errors="replace")
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}… [cut: this line has {self._size:,} bytes]"
            self.cut.append(number)
        numbered = f"{number:6}\t{text}"
        self._kept.clear()
        self._size = 0
        self._room -= len(numbered.encode()) + 1
        if self._room < 0 and self.lines:
            self.full = True
            self.cut = [line for line in self.cut if line != number]
        else:
            self.lines.append(numbered)


LINES: Final = 5_000
"""Lines of one call."""

ROOM: Final = 256 * 1024
"""Bytes of one call's output, at most."""

NAMES: Final = 500
"""Names in a directory that are listed."""

BLOCK: Final = 1 << 20
"""Bytes of a file that are in memory at a time."""

BINARY_CHECK_BYTES: Final = 8_192
"""A NUL among so many first bytes makes a file binary, as in ``git diff``."""


# In the schema only: a larger limit is not an error, and gets one page.
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
        "chunks. Also shows images, and lists the names in a directory."
    )
    read_only = True
    parameters = ReadParameters

    def __init__(self, workspace: Workspace, tracker: FileTracker, *, room: int = ROOM) -> None:
        """``room`` is the most bytes of output of one call."""
        super().__init__(workspace, tracker)
        self._room = min(room, ROOM)

    async def plan(self, arguments: ReadParameters, /) -> Planned:
        path = await self._workspace.resolve(arguments.file_path)

        async def describe() -> str:
            return arguments.file_path

        return Planned(describe, partial(self._read, arguments, path), [Touch(path, arguments.file_path)])

    async def _read(self, arguments: ReadParameters, path: str, _: OnOutput, /) -> ToolResult:
        from newel.tools.images import mime_type

        try:  # first, as most paths are files, and each request to a host takes time
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
        if b"\0" in head[:BINARY_CHECK_BYTES]:
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
        from newel.tools.images import LARGEST_FILE, picture

        data = await self._workspace.read_bytes(path, size=LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ToolError(f"{name} is an image of more than {LARGEST_FILE:,} bytes, which is the limit.")
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
        names = [entry_label(entry) for entry in await self._workspace.list(path)]
        text = "\n".join([f"{name} is a directory with {pluralize(len(names), 'name')}:", *names[:NAMES]])
        if len(names) > NAMES:
            text += f"\n… and {len(names) - NAMES:,} more."
        text += f'\nRead one of its files, or look closer with bash(command="ls -la {shlex.quote(name)}").'
        return ToolResult(
            text, details={"filePath": name, "entries": len(names), "truncated": len(names) > NAMES}
        )


def _warnings(page: Page, arguments: ReadParameters, *, truncated: bool) -> list[str]:
    """What the page leaves out, and how to read on."""
    warnings: list[str] = []
    if truncated:
        range_text = f"lines {page.first}-{page.last}" if page.first > 1 else f"first {len(page.lines)}"
        warnings.append(
            f"WARNING: File has {page.total} lines, showing {range_text}. "
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
