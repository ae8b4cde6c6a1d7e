"""Gives the model the ``AGENTS.md`` (or ``CLAUDE.md``) of a folder below the project's, with the result of the first tool that touches a
file there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, cast

import msgspec

from newel.agent.errors import WorkspaceError
from newel.agent.messages import AppMessage, AssistantMessage, CustomMessage, ToolCall, ToolResultMessage
from newel.agent.ports import Shorten, ToolResult
from newel.agent.transform import COMPACTION
from newel.context.file_reader import IsPrivate, read_head, resolve_in_project
from newel.context.instructions import FILE_NAMES, as_block
from newel.workspace.port import Workspace

MOST: Final = 16 * 1024
"""Bytes of one file."""
MOST_GIVEN: Final = 64 * 1024
"""Bytes of all of them in a conversation, until it is summarized."""
MAX_DEPTH: Final = 20
DETAIL: Final = "instructions"
"""In the details of a result, the paths of the files that it contains."""

_OTHERS: Final = frozenset({".git", "site-packages", "vendor"})
"""Besides what is built, folders with the work of others: what a dependency tells agents is for those who work on it."""

TOOLS: Final = frozenset({"read", "edit", "write"})

ABOUT: Final = "[Instructions for files in this folder and below; they are given once.]"


class NestedInstructions:
    """Implements ``newel.agent.ports.Shorten``: what ``inner`` makes of a result, and the instructions behind it.

    ``messages`` gives the conversation: it tells what the model has been given already, also after a resume, a rewind or a summary.
    """

    def __init__(
        self,
        inner: Shorten,
        workspace: Workspace,
        messages: Callable[[], Sequence[AppMessage]],
        is_private: IsPrivate,
    ) -> None:
        self._inner = inner
        self._workspace = workspace
        self._messages = messages
        self._is_private = is_private
        self._files: dict[str, str] = {}
        """The file of each folder that was looked at; empty if it has none."""
        self._pending: dict[str, str] = {}
        """What was given by calls whose results are not in the conversation yet: the file by the call."""

    async def __call__(self, call: ToolCall, result: ToolResult, /) -> ToolResult:
        result = await self._inner(call, result)
        named = result.details.get("filePath")
        if call.name not in TOOLS or result.is_error or not isinstance(named, str):
            return result
        try:
            return await self._with_instructions(call, named, result)
        except WorkspaceError:  # the result of a call must not be lost
            return result

    async def _with_instructions(self, call: ToolCall, named: str, result: ToolResult) -> ToolResult:
        touched = posixpath.normpath(posixpath.join(self._workspace.root, named))
        files = [file for file in await self._above(touched) if file != touched]
        if not files:
            return result
        given, used = self._given()
        blocks: dict[str, str] = {}
        for file in files:
            if file not in given and used < MOST_GIVEN and (text := await self._text(file)):
                blocks[file] = as_block(file, text)
                self._pending[file] = call.id
                used += len(text)
        if not blocks:
            return result
        return msgspec.structs.replace(
            result,
            output="\n\n".join([result.output, ABOUT, *blocks.values()]),
            details={**result.details, DETAIL: list(blocks)},
        )

    async def _text(self, file: str) -> str:
        """The instructions in a file; empty if it cannot be used."""
        root = self._workspace.root
        try:
            path = await resolve_in_project(self._workspace, file, root, is_private=self._is_private)
            head = await read_head(self._workspace, path, MOST)
        except WorkspaceError:
            return ""
        text, cut = head.text(MOST)
        if not head.is_text or self._is_private(path):
            return ""
        return (
            f"{text}\n[Truncated: {cut:,} bytes are omitted. Read the rest from the file.]"
            if cut
            else text.strip()
        )

    async def _above(self, path: str) -> list[str]:
        """The files of the folders around a path, below the workspace's root, the outermost first."""
        root = PurePosixPath(self._workspace.root)
        if not PurePosixPath(path).is_relative_to(root):
            return []
        from newel.workspace.snapshots.ignore_rules import BUILD_DIRS

        folders = [str(folder) for folder in PurePosixPath(path).parents if folder.is_relative_to(root)]
        folders = folders[-1 - MAX_DEPTH : -1][::-1]
        if not (_OTHERS | BUILD_DIRS).isdisjoint(PurePosixPath(path).relative_to(root).parts):
            return []
        if unknown := [folder for folder in folders if folder not in self._files]:
            paths = [f"{folder}/{name}" for folder in unknown for name in FILE_NAMES]
            infos = await self._workspace.stats(paths)
            found = [
                path if info is not None and info.kind == "file" else ""
                for path, info in zip(paths, infos, strict=True)
            ]
            for index, folder in enumerate(unknown):
                of_folder = found[index * len(FILE_NAMES) : (index + 1) * len(FILE_NAMES)]
                self._files[folder] = next(filter(None, of_folder), "")
        return [file for folder in folders if (file := self._files[folder])]

    def _given(self) -> tuple[set[str], int]:
        """The files that the model has in its context, and about how many bytes they have."""
        given: set[str] = set()
        used = 0
        answered: set[str] = set()
        is_open: set[str] = set()
        for message in reversed(self._messages()):
            if isinstance(message, CustomMessage) and message.name == COMPACTION:
                break
            if isinstance(message, ToolResultMessage):
                answered.add(message.tool_call_id)
                if files := _files_in(message.details):
                    given.update(files)
                    used += min(len(message.output), MOST * len(files))
            elif isinstance(message, AssistantMessage) and not is_open:
                is_open = {each.id for each in message.tool_calls} - answered
        self._pending = {file: id_ for file, id_ in self._pending.items() if id_ in is_open}
        return given | set(self._pending), used


def _files_in(details: Mapping[str, Any]) -> list[str]:
    files = details.get(DETAIL)
    return (
        [file for file in cast("list[object]", files) if isinstance(file, str)]
        if isinstance(files, list)
        else []
    )
