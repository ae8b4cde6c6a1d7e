"""``search_project`` and ``list_files``: find text in the project's files, and list them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Awaitable, Callable, Collection
from itertools import accumulate, takewhile
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from newel.agent.errors import ToolError
from newel.agent.ports import OnOutput, ToolResult
from newel.tools.base import Parameters
from newel.tools.file_tool import not_found
from newel.tools.review.base import ProjectLimits, ReadOnlyTool, ToolAnswer, json_result
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
            found = await search(self._workspace, query, staged=staged)
        except ValueError as error:
            raise self.invalid(str(error)) from error
        results = [
            SearchResult(match.path, match.start, match.start + len(match.lines) - 1, match.snippet)
            for match in found.matches
        ]
        notice = ""
        if found.stopped:
            notice = _STOPPED[found.stopped].format(
                count=len(results), cap=limits.max_search_results_cap, seconds=limits.max_search_seconds
            )
        elif not results and _LOOKS_LIKE_REGEX.search(arguments.query):
            notice = "No matches. The query is literal, not a regular expression; search for plain text."
        return json_result(
            SearchAnswer(results=results, truncated=bool(found.stopped), notice=notice),
            query=arguments.query,
            glob=arguments.glob,
            results=len(results),
            truncated=bool(found.stopped),
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
        files = self._bounded(fitting)
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

    async def _folder(self, given: str) -> str:
        """The prefix as a path of the project; empty for all of it."""
        prefix = await self._in_project("prefix", given or ".")
        absolute = below(self._workspace, prefix)
        info = await self._workspace.stat(absolute)
        if info is None:
            raise await not_found(self._workspace, absolute, given)
        if info.kind != "directory":
            raise ToolError(f"{given} is a file, not a folder. Read it with read_file.")
        return "" if prefix == "." else prefix

    def _bounded(self, files: list[str]) -> list[str]:
        few = files[: self._limits.max_listed_files]
        sizes = accumulate(len(path.encode()) + 3 for path in few)
        return few[: sum(1 for _ in takewhile(lambda size: size <= self._limits.max_listed_bytes, sizes))]
