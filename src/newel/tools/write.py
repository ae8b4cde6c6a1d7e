"""``write``: create a file, or replace all that is in one."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from newel.agent.errors import StaleFile
from newel.agent.ports import OnOutput, ToolResult
from newel.tools.diff import Block, compare, described, lines_of, unified
from newel.tools.file_tool import FileParameters, FileTool, aside
from newel.tools.text import DIFF_SHOWN, encoded, plural
from newel.workspace.port import ABSENT

COMPARED: Final = 1_000_000
"""Bytes of an old content that is compared with the new one."""


class WriteParameters(FileParameters, frozen=True):
    file_path: Annotated[str, Meta(description="Path to file to create/overwrite")]
    content: Annotated[str, Meta(description="Full file contents to write")]


class _Plan(msgspec.Struct, frozen=True):
    """A write that has been thought through: ``old`` is None for a new file."""

    path: str
    data: bytes
    is_new: bool
    old: list[bytes] | None
    blocks: list[Block[bytes]]


class WriteTool(FileTool[WriteParameters]):
    name = "write"
    label = "Write File"
    description = "Create a new file or completely replace existing file contents. Makes missing directories."
    read_only = False
    parameters = WriteParameters

    async def preview(self, arguments: WriteParameters, /) -> str:
        plan = await self._plan(arguments)
        return await aside(len(plan.data), described, arguments.file_path, plan.old, plan.blocks)

    async def execute(self, arguments: WriteParameters, _: OnOutput, /) -> ToolResult:
        plan = await self._plan(arguments)
        expect = ABSENT if plan.is_new else self._tracker.last_seen(plan.path)
        try:
            sha256 = await self._workspace.write_bytes(plan.path, plan.data, expect=expect)
        except StaleFile as error:
            raise StaleFile(
                f"{arguments.file_path} changed on disk since you last saw it. Nothing was written. "
                "Read it, then write again if that is still right."
            ) from error
        self._tracker.saw(plan.path, sha256)
        done = "Created new file" if plan.is_new else "Overwrote"
        return ToolResult(
            f"{done} {arguments.file_path} ({plural(len(plan.data), 'byte')})",
            details={
                "filePath": arguments.file_path,
                "size": len(plan.data),
                "isNew": plan.is_new,
                "diff": unified(arguments.file_path, plan.old, plan.blocks, limit=DIFF_SHOWN),
            },
        )

    async def _plan(self, arguments: WriteParameters) -> _Plan:
        path = await self._workspace.resolve(arguments.file_path)
        data = encoded(arguments.content, "content")
        new = lines_of(data)
        info = await self._workspace.stat(path)
        if info is None or info.kind != "file":  # what is no file is refused when it comes to writing
            return _Plan(path, data, info is None, None, [Block(0, 0, new)] if new else [])
        content = await self._workspace.read_bytes(path, size=COMPARED + 1)
        if len(content) > COMPARED:
            size = max(info.size, len(content))  # a file in /proc says that it has none
            note = f"({size:,} bytes that are not compared)\n".encode()
            return _Plan(path, data, is_new=False, old=[note], blocks=[Block(0, 1, new)])
        old = lines_of(content)
        blocks = await aside(len(content) + len(data), compare, old, new)
        return _Plan(path, data, is_new=False, old=old, blocks=blocks)
