"""``write``: create a file, or replace all that is in one."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from newel.agent.errors import StaleFile
from newel.agent.formatting import pluralize
from newel.agent.ports import ToolResult
from newel.diff.unified import DiffBlock, compare, describe_diff, split_lines, unified_diff
from newel.tools.file_tool import ChangingTool, FileParameters, aside, sha256
from newel.tools.text import BOM, DIFF_SHOWN, encoded
from newel.workspace.port import ABSENT

COMPARED: Final = 1_000_000
"""Bytes of an old content that is compared with the new one."""

NO_FILE: Final = "none"
"""Expected of what is no regular file: nothing is written in its place, whatever it becomes."""


class WriteParameters(FileParameters, frozen=True):
    file_path: Annotated[str, Meta(description="Path to file to create/overwrite")]
    content: Annotated[str, Meta(description="Full file contents to write")]


class _WritePlan(msgspec.Struct, frozen=True):
    """A write that has been thought through: ``old`` is None for a new file."""

    expect: str
    data: bytes
    old: list[bytes] | None
    blocks: list[DiffBlock[bytes]]

    @property
    def size(self) -> int:
        return len(self.data)

    def described(self, name: str, /) -> str:
        return describe_diff(name, self.old, self.blocks)


class WriteTool(ChangingTool[WriteParameters, _WritePlan]):
    name = "write"
    label = "Write File"
    description = "Create a new file or completely replace existing file contents. Makes missing directories."
    parameters = WriteParameters

    async def make(self, plan: _WritePlan, arguments: WriteParameters, path: str, /) -> ToolResult:
        name = arguments.file_path
        try:
            written = await self._workspace.write_bytes(path, plan.data, expect=plan.expect)
        except StaleFile as error:
            raise _stale(name) from error
        self._tracker.saw(path, written)
        is_new = plan.expect == ABSENT
        return ToolResult(
            f"{'Created new file' if is_new else 'Overwrote'} {name} ({pluralize(len(plan.data), 'byte')})",
            details={
                "filePath": name,
                "size": len(plan.data),
                "isNew": is_new,
                "diff": unified_diff(name, plan.old, plan.blocks, limit=DIFF_SHOWN),
            },
        )

    async def think(self, arguments: WriteParameters, path: str, /) -> _WritePlan:
        data = encoded(arguments.content, "content")
        new = split_lines(data)
        info = await self._workspace.stat(path)
        if info is None or info.kind != "file":  # what is no file is refused when it comes to writing
            return _WritePlan(
                ABSENT if info is None else NO_FILE, data, None, [DiffBlock(0, 0, new)] if new else []
            )
        content = await self._workspace.read_bytes(path, size=COMPARED + 1)
        found = sha256(content) if len(content) <= COMPARED else await self._digest(path, info.size)
        if self._tracker.last_seen(path) not in {None, found}:
            raise _stale(arguments.file_path)
        if content.startswith(BOM) and not data.startswith(BOM):
            data = BOM + data  # `read` does not show it, so the model could not repeat it
            new = split_lines(data)
        if len(content) > COMPARED:
            size = max(info.size, len(content))  # a file in /proc says that it has none
            note = f"({size:,} bytes that are not compared)\n".encode()
            return _WritePlan(found, data, old=[note], blocks=[DiffBlock(0, 1, new)])
        old = split_lines(content)
        blocks = await aside(len(content) + len(data), compare, old, new)
        return _WritePlan(found, data, old=old, blocks=blocks)

    async def _digest(self, path: str, size: int) -> str:
        """The SHA-256 of a long file. Of one that is longer than it said it is not the file's, so that nothing is written."""
        import hashlib

        seen, position, block = hashlib.sha256(), 0, b" "
        while block and position <= size:
            block = await self._workspace.read_bytes(path, start=position, size=COMPARED)
            position += len(block)
            seen.update(block)
        return seen.hexdigest()


def _stale(name: str) -> StaleFile:
    return StaleFile(
        f"{name} changed on disk since you last saw it. Nothing was written. "
        "Read it, then write again if that is still right."
    )
