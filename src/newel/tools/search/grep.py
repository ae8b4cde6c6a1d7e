"""``grep``: finds lines that match a regular expression."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import Annotated, Final, Literal

import anyio
import msgspec
from msgspec import Meta

from newel.agent.errors import ToolError, WorkspaceError
from newel.agent.ports import OnOutput, Planned, ToolResult, Touch
from newel.concurrency import task_group
from newel.tools.base import Parameters
from newel.tools.search import regex_worker_main
from newel.tools.search.files import FileSearchTool, Listing, ProjectFiles, printable
from newel.tools.search.find import GLOB
from newel.tools.search.regex_worker_main import compile_pattern
from newel.workspace.glob import Glob

LIMIT: Final = 200
"""Matching lines."""

MOST: Final = 2_000
"""Of them, if the model asks for more."""

LARGEST_FILE: Final = 8 << 20
"""Bytes; larger files are skipped."""

LONGEST_PATTERN: Final = 1_000

SECONDS: Final = 30.0

READS_AT_ONCE: Final = 16
"""Files that are read concurrently, because a host may be far away."""

BATCH: Final = 16 << 20
"""Bytes of texts for one process."""

WORKER_ROOM: Final = 4 << 20
"""Bytes of its output."""

BINARY_CHECK_BYTES: Final = 8_192

Output = Literal["content", "files", "count"]


class GrepParameters(Parameters, frozen=True):
    pattern: Annotated[
        str, Meta(description="Regular expression, in the syntax of Python; it matches within a line")
    ]
    path: Annotated[str, Meta(description="File or folder to search. Omit for the working folder.")] = "."
    glob: Annotated[str, Meta(description=f"Only files whose paths match: {GLOB}. Omit for all files.")] = (
        "**/*"
    )
    ignore_case: Annotated[bool, Meta(description="Ignore the case of letters")] = False
    literal: Annotated[bool, Meta(description="The pattern is plain text, not a regular expression")] = False
    context: Annotated[
        Annotated[int, Meta(ge=0, le=20)], Meta(description="Lines to show before and after each match")
    ] = 0
    output: Annotated[
        Output,
        Meta(
            description="content: the lines (default); files: only the paths; count: matching lines of each file",
            extra_json_schema={"type": "string"},
        ),
    ] = "content"
    limit: Annotated[
        Annotated[int, Meta(ge=1)], Meta(description=f"Maximum number of lines or paths. Omit for {LIMIT}.")
    ] = LIMIT


class FileMatches(msgspec.Struct, frozen=True):
    """The matches of a file: ``numbers`` of the matching lines, counted from 1, and the lines to show by their numbers."""

    path: str
    numbers: list[int]
    lines: dict[int, str]


class _FoundLines(msgspec.Struct, frozen=True):
    index: int
    numbers: list[int]
    lines: dict[int, str]


class GrepTool(FileSearchTool[GrepParameters]):
    name = "grep"
    label = "Search Text"
    description = (
        "Search the text files of a folder, without those that git ignores, for a regular expression. Lines are shown as "
        "path:number:line."
    )
    parameters = GrepParameters
    essential = ("pattern",)

    def __init__(self, files: ProjectFiles, *, room: int, seconds: float = SECONDS) -> None:
        super().__init__(files, room=room)
        self._seconds = seconds

    async def plan(self, arguments: GrepParameters, /) -> Planned:
        self._check_pattern(arguments)
        glob, path = self._glob("glob", arguments.glob), await self._resolve(arguments.path)

        async def describe() -> str:
            return f"{arguments.pattern} in {posixpath.join(arguments.path, arguments.glob)}"

        return Planned(describe, partial(self._grep, arguments, path, glob), [Touch(path, arguments.path)])

    def _check_pattern(self, arguments: GrepParameters) -> None:
        if not arguments.pattern or len(arguments.pattern) > LONGEST_PATTERN:
            raise self.invalid(f"argument `pattern`: it must have 1 to {LONGEST_PATTERN:,} characters")
        try:
            compile_pattern(arguments.pattern, ignore_case=arguments.ignore_case, literal=arguments.literal)
        except (re.error, OverflowError, RecursionError) as error:
            raise self.invalid(
                f"argument `pattern`: {error}. Escape special characters with a backslash, or set literal"
            ) from error

    async def _grep(self, arguments: GrepParameters, path: str, glob: Glob, _: OnOutput, /) -> ToolResult:
        if await self._check_folder(path, arguments.path):
            folder, listing = path, await self._files.find(path, glob)
        else:  # the user may allow a file that often holds secrets, and is asked by its name
            folder, listing = posixpath.dirname(path), Listing([posixpath.basename(path)], 0, complete=True)
        limit = min(arguments.limit, MOST)
        found: list[FileMatches] = []
        stopped = ""
        with anyio.move_on_after(self._seconds) as timer:
            async for texts in self._batches(folder, listing.files):
                found += await _search(texts, arguments, limit)
                if _count(found, arguments.output) > limit:
                    stopped = f"There are more matches than these {limit:,}. Narrow the pattern or the glob, or set path."
                    break
        if timer.cancelled_caught:
            stopped = f"The search was stopped after {self._seconds:g} seconds. Simplify the pattern, set path to a folder, or narrow the glob."
        return self._result(arguments, found, limit, [*([stopped] if stopped else []), *listing.notices()])

    async def _batches(self, folder: str, names: Sequence[str]) -> AsyncGenerator[dict[str, bytes]]:
        """The texts of files by their names, as many at a time as one process searches."""
        texts: dict[str, bytes] = {}
        for start in range(0, len(names), READS_AT_ONCE):
            texts |= await self._read_files(folder, names[start : start + READS_AT_ONCE])
            if sum(map(len, texts.values())) > BATCH:
                yield texts
                texts = {}
        if texts:
            yield texts

    async def _read_files(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """The texts among some files, in their order."""
        texts: dict[str, bytes] = {}

        async def read(name: str) -> None:
            try:
                data = await self._workspace.read_bytes(
                    posixpath.join(folder, name), size=LARGEST_FILE + 1, nofollow=True
                )
            except WorkspaceError:  # gone, a link, or not readable
                return
            if len(data) <= LARGEST_FILE and b"\0" not in data[:BINARY_CHECK_BYTES]:
                texts[name] = data

        async with task_group() as group:
            for name in names:
                group.start_soon(read, name)
        return {name: texts[name] for name in names if name in texts}

    def _result(
        self, arguments: GrepParameters, found: Sequence[FileMatches], limit: int, notices: list[str]
    ) -> ToolResult:
        match arguments.output:
            case "files":
                lines = [printable(each.path) for each in found[:limit]]
            case "count":
                lines = [f"{printable(each.path)}:{len(each.numbers)}" for each in found[:limit]]
            case _:
                lines = list(_content(found, limit, arguments.context))
        shown = self._fit(lines)
        if len(shown) < len(lines):
            notices = [
                "There is no room for the other matches. Narrow the pattern or the glob, or set path.",
                *notices,
            ]
        text = "\n".join([*(shown or ["No match."]), *(f"[{notice}]" for notice in notices)])
        return ToolResult(
            text,
            details={
                "pattern": arguments.pattern,
                "files": len(found),
                "matches": sum(len(each.numbers) for each in found),
                "truncated": bool(notices),
            },
        )


async def _search(texts: dict[str, bytes], arguments: GrepParameters, limit: int) -> list[FileMatches]:
    """Search texts in a process, which ends with a cancellation. Raises ``ToolError``."""
    from newel.workspace.port import TimeLimit
    from newel.workspace.process.environment import child_env
    from newel.workspace.process.output import Output, OutputLimits
    from newel.workspace.process.runner import ChildProcess, to_completed, wait_for_exit

    task = {
        "pattern": arguments.pattern,
        "ignore_case": arguments.ignore_case,
        "literal": arguments.literal,
        "context": arguments.context,
        "limit": limit,
        "counts_lines": arguments.output == "content",
        "room": WORKER_ROOM,
        "sizes": [len(data) for data in texts.values()],
    }
    stdin = b"".join([msgspec.json.encode(task), b"\n", *texts.values()])
    program = [sys.executable, "-I", "-S", regex_worker_main.__file__]
    output = Output(OutputLimits(output=2 * WORKER_ROOM), None)
    child = ChildProcess(program, "/", child_env(os.environ), output, stdin=stdin)
    done = to_completed(output, await wait_for_exit(child, TimeLimit(None)))
    if done.exit_code != 0:
        (*_, reason) = ("", *done.stderr.splitlines())
        raise ToolError(f"The search failed: {reason or f'exit code {done.exit_code}'}.")
    names = list(texts)
    found = [msgspec.json.decode(line, type=_FoundLines, strict=False) for line in done.stdout.splitlines()]
    return [FileMatches(names[each.index], each.numbers, each.lines) for each in found]


def _count(found: Sequence[FileMatches], output: Output) -> int:
    return sum(len(each.numbers) for each in found) if output == "content" else len(found)


def _content(found: Sequence[FileMatches], limit: int, context: int) -> Iterator[str]:
    """The lines as ``grep -n`` shows them: at most ``limit`` matching ones."""
    for each in found:
        matching = each.numbers[:limit]
        limit -= len(matching)
        near = {number + offset for number in matching for offset in range(-context, context + 1)}
        before = 0
        for number in sorted(near & each.lines.keys()):
            if context and before and number > before + 1:
                yield "--"
            mark = ":" if number in each.numbers else "-"
            yield f"{printable(each.path)}{mark}{number}{mark}{each.lines[number]}"
            before = number
