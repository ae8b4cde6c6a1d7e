"""``read_file``: lines of a text file as they are, with the hashes that an edit of them can name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from newel.agent.errors import ToolError
from newel.agent.formatting import pluralize
from newel.agent.ports import OnOutput, ToolResult
from newel.diff.unified import split_lines
from newel.tools.base import Parameters
from newel.tools.file_tool import aside
from newel.tools.paths import not_found
from newel.tools.review.base import LookingTool, ToolAnswer, answered
from newel.tools.review.limits import ProjectLimits
from newel.tools.review.proposed_edit import lines_hash
from newel.workspace.port import Workspace
from newel.workspace.walk import below

LARGEST: Final = 32 << 20
"""Bytes of a file that can be read."""

_Positive = Annotated[int, Meta(ge=1)]


class ReadFileParameters(Parameters, frozen=True):
    file_path: Annotated[str, Meta(description="Path of the file, relative to the project")]
    start_line: Annotated[
        _Positive, Meta(description="First line, counted from 1. Omit for the beginning.")
    ] = 1
    end_line: Annotated[
        _Positive | None, Meta(description="Last line, itself included. Omit for as many as one call gives.")
    ] = None
    max_bytes: Annotated[
        _Positive | None, Meta(description="Most bytes to return. Omit for the default.")
    ] = None


class ReadAnswer(ToolAnswer, frozen=True):
    """``end_line`` is ``start_line`` - 1 of an empty file. ``expected_hash`` is that of the lines which are shown, and of
    a line that is cut as a whole. ``next_line`` is where to go on, if there is more.
    """

    file_path: str
    content: str
    start_line: int
    end_line: int
    total_lines: int
    file_hash: str
    expected_hash: str
    next_line: int | None = None


class ReadFileTool(LookingTool[ReadFileParameters]):
    name = "read_file"
    label = "Read File"
    parameters = ReadFileParameters

    def __init__(self, workspace: Workspace, limits: ProjectLimits) -> None:
        super().__init__(workspace, limits)
        self.description = (
            "Read lines of a UTF-8 text file. Returns at most "
            f"{limits.max_read_lines_default} lines unless end_line says otherwise, and "
            f"{limits.max_read_bytes_default} bytes unless max_bytes does (at most {limits.max_read_bytes_cap}). "
            "`expected_hash` is what an edit of exactly the returned lines may name."
        )

    async def preview(self, arguments: ReadFileParameters, /) -> str:
        return arguments.file_path

    async def execute(self, arguments: ReadFileParameters, _: OnOutput, /) -> ToolResult:
        if arguments.end_line is not None and arguments.end_line < arguments.start_line:
            raise self.invalid(
                f"the lines {arguments.start_line} to {arguments.end_line} are reversed; start_line comes first"
            )
        path = await self._in_project("file_path", arguments.file_path)
        data = await self._content(path, arguments.file_path)
        answer = await aside(len(data), self._answer, path, data, arguments)
        return answered(
            answer,
            filePath=path,
            startLine=answer.start_line,
            endLine=answer.end_line,
            totalLines=answer.total_lines,
            truncated=answer.truncated,
        )

    async def _content(self, path: str, given: str) -> bytes:
        absolute = below(self._workspace, path)
        info = await self._workspace.stat(absolute)
        if info is None:
            raise await not_found(self._workspace, absolute, given)
        if info.kind == "directory":
            raise ToolError(f"{given} is a folder. List its files with list_files.")
        data = await self._workspace.read_bytes(absolute, size=LARGEST + 1)
        if len(data) > LARGEST:
            raise ToolError(
                f"{given} has more than {LARGEST:,} bytes and cannot be read. Use search_project."
            )
        return data

    def _answer(self, path: str, data: bytes, arguments: ReadFileParameters) -> ReadAnswer:
        _check_text(data, path)
        lines = split_lines(data)
        first = arguments.start_line
        if first > max(1, len(lines)):
            raise ToolError(f"{path} has {pluralize(len(lines), 'line')}; there is no line {first}.")
        wanted = arguments.end_line or first - 1 + self._limits.max_read_lines_default
        room = min(
            arguments.max_bytes or self._limits.max_read_bytes_default, self._limits.max_read_bytes_cap
        )
        shown = _fitting(lines[first - 1 : wanted], room)
        content = b"".join(shown)[:room].decode(errors="ignore")  # a cut may go through a character
        last = first - 1 + len(shown)
        more = last < len(lines) and (arguments.end_line is None or last < arguments.end_line)
        cut = sum(map(len, shown)) > room
        return ReadAnswer(
            file_path=path,
            content=content,
            start_line=first,
            end_line=last,
            total_lines=len(lines),
            file_hash=f"sha256:{hashlib.sha256(data).hexdigest()}",
            expected_hash=lines_hash([line.decode() for line in shown]),
            next_line=last + 1 if more else None,
            truncated=more or cut,
            notice=_notice(first, last, len(lines), more=more, cut=cut),
        )


def _check_text(data: bytes, path: str) -> None:
    problem = "it holds a NUL byte" if b"\0" in data else ""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        problem = f"byte {error.start:,} is 0x{data[error.start]:02x}"
    if problem:
        raise ToolError(f"{path} is not UTF-8 text: {problem}. Only text can be read and edited here.")


def _fitting(lines: Sequence[bytes], room: int) -> Sequence[bytes]:
    """As many lines as fit, but one in any case."""
    for count, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            return lines[: max(count, 1)]
    return lines


def _notice(first: int, last: int, total: int, *, more: bool, cut: bool) -> str:
    words: list[str] = []
    if cut:
        words.append(f"Line {first} is cut: it is longer than max_bytes.")
    if more:
        words.append(f"Lines {first} to {last} of {total}. Go on with start_line={last + 1}.")
    return " ".join(words)
