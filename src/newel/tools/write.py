"""``write``: creates a file, or replaces its whole content."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from newel.agent.errors import StaleFile, ToolError
from newel.agent.formatting import pluralize
from newel.agent.ports import ToolResult
from newel.tools.file_tool import (
    BOM,
    ChangingTool,
    FileEdit,
    FileParameters,
    FileTracker,
    encode_text,
    is_other_encoding,
    run_in_thread_if_large,
    sha256,
)
from newel.workspace.port import ABSENT, Workspace

MAX_COMPARED_BYTES: Final = 1_000_000
"""A longer old content is not compared with the new one."""

FEW_LINES: Final = 3
"""A file with fewer lines is quickly written again."""

NO_FILE: Final = "none"
"""A digest that matches no file: used to have the workspace refuse to replace something that is not a regular file."""


class WriteParameters(FileParameters, frozen=True):
    file_path: Annotated[str, Meta(description="Path to file to create/overwrite")]
    content: Annotated[str, Meta(description="Full file contents to write")]


class WriteTool(ChangingTool[WriteParameters]):
    name = "write"
    label = "Write File"
    description = "Create a file, or replace its whole content. Missing directories are created."
    parameters = WriteParameters

    def __init__(self, workspace: Workspace, tracker: FileTracker) -> None:
        super().__init__(workspace, tracker)
        self._asked_about: set[str] = set()
        self._asked_about_encoding: set[str] = set()

    async def apply(self, change: FileEdit, arguments: WriteParameters, path: str, /) -> ToolResult:
        name = arguments.file_path
        try:
            written = await self._workspace.write_bytes(path, change.data, expect=change.expect)
        except StaleFile as error:
            raise _stale(name) from error
        self._tracker.saw(path, written.sha256)
        self._asked_about.discard(path)
        self._asked_about_encoding.discard(path)
        is_new = change.expect == ABSENT
        return ToolResult(
            f"{'Created new file' if is_new else 'Overwrote'} {name} ({pluralize(len(change.data), 'byte')})",
            details={
                "filePath": name,
                "size": len(change.data),
                "isNew": is_new,
                "diff": change.diff(name),
            },
        )

    async def prepare(self, arguments: WriteParameters, path: str, /) -> FileEdit:
        from newel.diff.unified import DiffBlock, compare, split_lines

        data = encode_text(arguments.content, "content")
        new = split_lines(data)
        info = await self._workspace.stat(path)
        if info is None or info.kind != "file":  # anything else than a file is refused when it is written
            return FileEdit(
                ABSENT if info is None else NO_FILE, data, None, [DiffBlock(0, 0, new)] if new else []
            )
        content = await self._workspace.read_bytes(path, size=MAX_COMPARED_BYTES + 1)
        digest = (
            sha256(content) if len(content) <= MAX_COMPARED_BYTES else await self._digest(path, info.size)
        )
        if self._tracker.last_seen(path) not in {None, digest}:
            raise _stale(arguments.file_path)
        if content.startswith(BOM) and not data.startswith(BOM):
            data = BOM + data  # `read` does not show it, so the model cannot repeat it
            new = split_lines(data)
        if len(content) > MAX_COMPARED_BYTES:
            size = max(info.size, len(content))  # files in /proc report no size
            note = f"({size:,} bytes, not compared)\n".encode()
            return FileEdit(digest, data, old=[note], blocks=[DiffBlock(0, 1, new)])
        if not arguments.content.isascii() and is_other_encoding(content):
            self._ask_about_encoding(path, arguments.file_path)
        old = split_lines(content)
        blocks = await run_in_thread_if_large(len(content) + len(data), compare, old, new)
        change = FileEdit(digest, data, old=old, blocks=blocks)
        is_known = self._tracker.last_seen(path) is not None or self._tracker.was_printed(content)
        self._ask_about_loss(change, path, arguments.file_path, is_known)
        return change

    def _ask_about_encoding(self, path: str, name: str) -> None:
        """Refuse once to turn a file into UTF-8: the programs that read it may expect its old encoding."""
        if path in self._asked_about_encoding:
            return
        self._asked_about_encoding.add(path)
        raise ToolError(
            f"Not written: {name} is not in UTF-8, which `write` would make of it. To keep its encoding, write it with bash: python3 "
            f'with open({name!r}, "w", encoding=..., newline=""). If it is to become UTF-8, send this call again.'
        )

    def _ask_about_loss(self, change: FileEdit, path: str, name: str, is_known: bool) -> None:
        """Refuse once to drop most of a file: models that should add a line, or leave out what they did not change, write only
        a part, and those that have not read a file invent it. The same call passes if it is repeated.
        """
        lines = len(change.old or ())
        kept = lines - sum(block.end - block.start for block in change.blocks)
        written = kept + sum(len(block.new) for block in change.blocks)
        is_loss = kept * 3 < lines and (written * 2 < lines or not is_known)
        if lines < FEW_LINES or not is_loss or path in self._asked_about:
            return
        self._asked_about.add(path)
        how = "use `edit`" if is_known else "read the file first, then use `edit`"
        raise ToolError(
            f"Not written: {name} has {pluralize(lines, 'line')}, and this content keeps {kept} of them. `write` replaces the "
            f"whole file. To change or add something, {how}. If the other lines are to go, send this call again."
        )

    async def _digest(self, path: str, size: int) -> str:
        """The SHA-256 of a long file. It is wrong for a file that grows meanwhile, so that nothing is written."""
        import hashlib

        seen, position, block = hashlib.sha256(), 0, b" "
        while block and position <= size:
            block = await self._workspace.read_bytes(path, start=position, size=MAX_COMPARED_BYTES)
            position += len(block)
            seen.update(block)
        return seen.hexdigest()


def _stale(name: str) -> StaleFile:
    return StaleFile(
        f"{name} changed on disk since you last saw it. Nothing was written. "
        "Read it, then write again if that is still right."
    )
