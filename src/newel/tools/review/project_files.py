"""``search_project``, ``list_files`` and ``read_file``: find text in the project's files, list them, and read their lines."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import accumulate, takewhile
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from newel.agent.errors import ToolError
from newel.agent.formatting import pluralize
from newel.agent.ports import OnOutput, ToolResult
from newel.diff.unified import split_lines
from newel.tools.base import Parameters
from newel.tools.file_tool import not_found, run_in_thread_if_large
from newel.tools.review.base import ProjectLimits, ReadOnlyTool, ToolAnswer, json_result
from newel.tools.review.propose_edits import lines_hash
from newel.workspace.glob import Glob
from newel.workspace.port import Workspace
from newel.workspace.search import SearchQuery, search
from newel.workspace.walk import below, walk

Staged = Callable[[], Awaitable[Collection[str]]]
"""The relative paths of files whose content in the workspace differs from the host's disk."""

MAX_FILES: Final = 100_000
"""Files that a listing visits."""

_LOOKS_LIKE_REGEX: Final = re.compile(r"\.[*+?]|\\[A-Za-z.(){}\[\]|]|\w\|\w|^\^|\$$|\[[^\]]+\][*+]")

_STOPPED: Final = {
    "limit": "There are more matches than these {count}. Narrow the query or the glob, or raise limit (at most {cap}).",
    "room": "There are more matches than these {count}. Narrow the query or the glob.",
    "seconds": "The search timed out after {seconds} seconds. Narrow the glob to a folder.",
    "files": "Not all files were searched: there are too many. Narrow the glob to a folder.",
}

_GLOB: Final = (
    "Glob pattern: `*` matches within a name, `**` any folders, `{a,b}` either. Without `/` it matches at any depth. "
    "Hidden files only match if the dot is explicit: `.github/**`. Omit for all files."
)


class SearchParameters(Parameters, frozen=True):
    query: Annotated[
        str,
        Meta(
            description="Text to find within one line: literal, not a regular expression. "
            "Lower-case letters also match capitals."
        ),
    ]
    glob: Annotated[str, Meta(description=_GLOB)] = "**/*"
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Maximum number of results. Omit for the default."),
    ] = None


class SearchResult(msgspec.Struct, frozen=True):
    file_path: str
    start_line: int
    end_line: int
    snippet: str


class SearchAnswer(ToolAnswer, frozen=True):
    results: list[SearchResult]


class SearchTool(ReadOnlyTool[SearchParameters]):
    name = "search_project"
    label = "Search Project"
    parameters = SearchParameters

    def __init__(self, workspace: Workspace, limits: ProjectLimits, staged: Staged | None) -> None:
        super().__init__(workspace, limits)
        self._staged = staged
        self.description = (
            "Search the project's text files for a text. Returns the matches with the lines around them, "
            f"{limits.max_search_results_default} unless `limit` is given "
            f"(at most {limits.max_search_results_cap})."
        )

    async def preview(self, arguments: SearchParameters, /) -> str:
        return f"{arguments.query!r} in {arguments.glob}"

    async def execute(self, arguments: SearchParameters, _: OnOutput, /) -> ToolResult:
        limits = self._limits
        query = SearchQuery(
            text=arguments.query,
            glob=arguments.glob,
            limit=min(arguments.limit or limits.max_search_results_default, limits.max_search_results_cap),
            lines=limits.max_search_snippet_lines,
            room=limits.max_search_bytes,
            seconds=limits.max_search_seconds,
        )
        staged = await self._staged() if self._staged else ()
        try:
            result = await search(self._workspace, query, staged=staged)
        except ValueError as error:
            raise self.invalid(str(error)) from error
        results = [
            SearchResult(match.path, match.start, match.start + len(match.lines) - 1, match.snippet)
            for match in result.matches
        ]
        notice = ""
        if result.stopped:
            notice = _STOPPED[result.stopped].format(
                count=len(results), cap=limits.max_search_results_cap, seconds=limits.max_search_seconds
            )
        elif not results and _LOOKS_LIKE_REGEX.search(arguments.query):
            notice = "No matches. The query is literal, not a regular expression; search for plain text."
        return json_result(
            SearchAnswer(results=results, truncated=bool(result.stopped), notice=notice),
            query=arguments.query,
            glob=arguments.glob,
            results=len(results),
            truncated=bool(result.stopped),
        )


class ListParameters(Parameters, frozen=True):
    prefix: Annotated[
        str, Meta(description="Folder to list, relative to the project. Omit for the whole project.")
    ] = ""
    glob: Annotated[str, Meta(description=f"{_GLOB} It applies to the paths below `prefix`.")] = "**/*"


class ListAnswer(ToolAnswer, frozen=True):
    files: list[str]


class ListTool(ReadOnlyTool[ListParameters]):
    name = "list_files"
    label = "List Files"
    description = "List the files in a folder, recursively, by their paths relative to the project."
    parameters = ListParameters

    async def preview(self, arguments: ListParameters, /) -> str:
        return posixpath.join(arguments.prefix, arguments.glob)

    async def execute(self, arguments: ListParameters, _: OnOutput, /) -> ToolResult:
        try:
            glob = Glob(arguments.glob)
        except ValueError as error:
            raise self.invalid(str(error)) from error
        prefix = await self._folder(arguments.prefix)
        base = "/".join(filter(None, (prefix, glob.base)))
        walked = await walk(self._workspace, base, hidden=glob.names_hidden, limit=MAX_FILES)
        fitting = [path for path in walked.files if glob.matches(path[len(prefix) + 1 :] if prefix else path)]
        files = self._bound_list(fitting)
        cut = len(files) < len(fitting) or not walked.complete
        notice = "There are more files than these. Set prefix to a folder, or narrow the glob." if cut else ""
        if not files and prefix and not cut:
            notice = f"No file in {prefix} matches. The glob applies to the paths below it."
        return json_result(
            ListAnswer(files=files, truncated=cut, notice=notice),
            prefix=arguments.prefix,
            glob=arguments.glob,
            files=len(files),
            truncated=cut,
        )

    async def _folder(self, requested: str) -> str:
        """The prefix as a path of the project; empty for all of it."""
        prefix = await self._in_project("prefix", requested or ".")
        absolute = below(self._workspace, prefix)
        info = await self._workspace.stat(absolute)
        if info is None:
            raise await not_found(self._workspace, absolute, requested)
        if info.kind != "directory":
            raise ToolError(f"{requested} is a file, not a folder. Read it with read_file.")
        return "" if prefix == "." else prefix

    def _bound_list(self, files: list[str]) -> list[str]:
        few = files[: self._limits.max_listed_files]
        sizes = accumulate(len(path.encode()) + 3 for path in few)
        return few[: sum(1 for _ in takewhile(lambda size: size <= self._limits.max_listed_bytes, sizes))]


MAX_BYTES: Final = 32 << 20
"""Larger files cannot be read."""

_Positive = Annotated[int, Meta(ge=1)]


class ReadFileParameters(Parameters, frozen=True):
    file_path: Annotated[str, Meta(description="Path of the file, relative to the project")]
    start_line: Annotated[
        _Positive, Meta(description="First line, counted from 1. Omit to start at the beginning.")
    ] = 1
    end_line: Annotated[
        _Positive | None, Meta(description="Last line, inclusive. Omit to read as many as possible.")
    ] = None
    max_bytes: Annotated[
        _Positive | None, Meta(description="Maximum bytes to return. Omit for the default.")
    ] = None


class ReadAnswer(ToolAnswer, frozen=True):
    """``end_line`` is ``start_line`` - 1 for an empty file. ``expected_hash`` is the hash of the returned lines; a line that is cut counts
    as a whole. ``next_line`` is where to read on, if there is more.
    """

    file_path: str
    content: str
    start_line: int
    end_line: int
    total_lines: int
    file_hash: str
    expected_hash: str
    next_line: int | None = None


class ReadFileTool(ReadOnlyTool[ReadFileParameters]):
    name = "read_file"
    label = "Read File"
    parameters = ReadFileParameters

    def __init__(self, workspace: Workspace, limits: ProjectLimits) -> None:
        super().__init__(workspace, limits)
        self.description = (
            "Read lines of a UTF-8 text file. Returns at most "
            f"{limits.max_read_lines_default} lines unless end_line is given, and "
            f"{limits.max_read_bytes_default} bytes unless max_bytes is (at most {limits.max_read_bytes_cap}). "
            "Pass `expected_hash` to an edit of exactly the returned lines."
        )

    async def preview(self, arguments: ReadFileParameters, /) -> str:
        return arguments.file_path

    async def execute(self, arguments: ReadFileParameters, _: OnOutput, /) -> ToolResult:
        if arguments.end_line is not None and arguments.end_line < arguments.start_line:
            raise self.invalid(f"start_line {arguments.start_line} is after end_line {arguments.end_line}")
        path = await self._in_project("file_path", arguments.file_path)
        data = await self._content(path, arguments.file_path)
        answer = await run_in_thread_if_large(len(data), self._answer, path, data, arguments)
        return json_result(
            answer,
            filePath=path,
            startLine=answer.start_line,
            endLine=answer.end_line,
            totalLines=answer.total_lines,
            truncated=answer.truncated,
        )

    async def _content(self, path: str, requested: str) -> bytes:
        absolute = below(self._workspace, path)
        info = await self._workspace.stat(absolute)
        if info is None:
            raise await not_found(self._workspace, absolute, requested)
        if info.kind == "directory":
            raise ToolError(f"{requested} is a folder. List its files with list_files.")
        data = await self._workspace.read_bytes(absolute, size=MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ToolError(
                f"{requested} has more than {MAX_BYTES:,} bytes and cannot be read. Use search_project."
            )
        return data

    def _answer(self, path: str, data: bytes, arguments: ReadFileParameters) -> ReadAnswer:
        _check_text(data, path)
        lines = split_lines(data)
        first = arguments.start_line
        if first > max(1, len(lines)):
            raise ToolError(f"{path} has {pluralize(len(lines), 'line')}; there is no line {first}.")
        end = arguments.end_line or first - 1 + self._limits.max_read_lines_default
        room = min(
            arguments.max_bytes or self._limits.max_read_bytes_default, self._limits.max_read_bytes_cap
        )
        page = _fit_lines(lines[first - 1 : end], room)
        content = b"".join(page)[:room].decode(errors="ignore")  # the cut may split a character
        last = first - 1 + len(page)
        more = last < len(lines) and (arguments.end_line is None or last < arguments.end_line)
        cut = sum(map(len, page)) > room
        return ReadAnswer(
            file_path=path,
            content=content,
            start_line=first,
            end_line=last,
            total_lines=len(lines),
            file_hash=f"sha256:{hashlib.sha256(data).hexdigest()}",
            expected_hash=lines_hash([line.decode() for line in page]),
            next_line=last + 1 if more else None,
            truncated=more or cut,
            notice=_notice(first, last, len(lines), more=more, cut=cut),
        )


def _check_text(data: bytes, path: str) -> None:
    problem = "it contains a NUL byte" if b"\0" in data else ""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        problem = f"byte {error.start:,} is 0x{data[error.start]:02x}"
    if problem:
        raise ToolError(f"{path} is not UTF-8 text: {problem}. Only text can be read and edited here.")


def _fit_lines(lines: Sequence[bytes], room: int) -> Sequence[bytes]:
    """As many lines as fit, but at least one."""
    for count, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            return lines[: max(count, 1)]
    return lines


def _notice(first: int, last: int, total: int, *, more: bool, cut: bool) -> str:
    notices: list[str] = []
    if cut:
        notices.append(f"Line {first} is cut: it is longer than max_bytes.")
    if more:
        notices.append(f"Lines {first} to {last} of {total}. Read on with start_line={last + 1}.")
    return " ".join(notices)
