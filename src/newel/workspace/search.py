"""Searches a workspace's files for a text.

``rg`` on the workspace's host, or else ``grep``, finds candidate files; without both, all files are candidates. The candidates
are then searched here, through the port, so that the result does not depend on the tool, and is about the content that the
port reads.
"""

from __future__ import annotations

import io
import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.glob import Glob, is_text
from newel.workspace.port import Workspace
from newel.workspace.walk import FileListing, below, has_no_links, path_sort_key, walk

LARGEST_FILE: Final = 8 << 20
"""Bytes; larger files are skipped."""

LONGEST_LINE: Final = 500
"""Characters; longer lines are shortened."""

LONGEST_TEXT: Final = 500
"""Characters of the text to search for."""

MOST_FILES: Final = 100_000
"""Candidates without ``rg`` and ``grep``."""

CONTEXT: Final = 4
"""Lines shown before and after a match."""

_OWN_PATH: Final = (
    'set -f; IFS=:; own=; for d in $PATH; do case $d in "$PWD"|"$PWD"/*|[!/]*|"") ;; *) own=$own:$d ;; esac; done; '
    "PATH=${own#:}; unset IFS; set +f; "
)
"""No search runs a program of the project, as tools that read run unasked."""

_GREP: Final = (
    "command -v grep >/dev/null && command -v find >/dev/null || exit 127; cd -- {base} 2>/dev/null || exit 0; "
    "export LC_ALL=C; z=--null; grep -q $z -e . /dev/null 2>/dev/null; [ $? -le 1 ] || z=; "
    "find . {left_out} -prune -o -type f -exec grep -l $z -F {words} -- {{}} + 2>/dev/null; exit 0"
)
"""Searches files as ``rg`` does. Names end with a NUL if ``grep`` supports it."""

_BATCH: Final = 32
"""Files that are checked concurrently: as many as usually need to be read, because a host may be far away."""

_INLINE: Final = 64 * 1024
"""Bytes up to which searching a file is cheaper than handing it to a thread."""


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search: a literal text within one line; without capitals it ignores case.

    ``glob`` is a pattern of paths (see ``Glob``). ``limit`` bounds the matches, ``lines`` the lines of each,
    ``room`` the bytes of all snippets, ``seconds`` the time.
    """

    text: str
    glob: str = "**/*"
    limit: int = 20
    lines: int = 20
    room: int = 64 * 1024
    seconds: float = 30


class Match(msgspec.Struct, frozen=True):
    """Lines around one or more matches: ``start`` counts from 1, ``lines`` include their ends, ``snippet`` is their
    text for display, with ``…`` where a line was too long.
    """

    path: str
    start: int
    lines: tuple[str, ...]
    snippet: str


class SearchMatches(msgspec.Struct, frozen=True):
    """Matches in the order of their paths and lines. ``stopped`` is the limit that ended the search early."""

    matches: list[Match]
    stopped: Literal["", "limit", "room", "seconds", "files"] = ""


async def search(workspace: Workspace, query: SearchQuery, *, staged: Collection[str] = ()) -> SearchMatches:
    """Search the UTF-8 files that a glob matches, up to 8 MiB each, links not followed.

    ``staged`` are the relative paths of files whose content differs between the port and the host's disk. Raises
    ``ValueError`` with the reason for an invalid text or glob.
    """
    needle, glob = _SearchText(query.text), Glob(query.glob)
    matches: list[Match] = []
    room = query.room
    with anyio.move_on_after(query.seconds):
        candidates = await _candidates(workspace, needle, glob)
        paths = [
            path for path in sorted({*candidates.files, *staged}, key=path_sort_key) if glob.matches(path)
        ]
        for start in range(0, len(paths), _BATCH):
            for path in await _searchable(workspace, paths[start : start + _BATCH]):
                for match in await _search_file(workspace, path, needle, query):
                    room -= len(match.snippet.encode())
                    if len(matches) == query.limit or (room < 0 and matches):
                        return SearchMatches(matches, "limit" if len(matches) == query.limit else "room")
                    matches.append(match)
        return SearchMatches(matches, "" if candidates.complete else "files")
    return SearchMatches(matches, "seconds")


class _SearchText:
    """The text as an expression: ``regex`` in bytes, ``for_rg`` in the syntax of ``rg``, ``for_grep`` as options
    with which any ``grep -F`` finds at least the files that contain it.

    Letters are written in both cases instead of using a flag, because engines differ in what they consider one
    letter.
    """

    def __init__(self, text: str) -> None:
        if not text.strip():
            raise ValueError("the text to search for is empty")
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"the text to search for is longer than {LONGEST_TEXT} characters")
        if not is_text(text) or not {"\r", "\n", "\0"}.isdisjoint(text):
            raise ValueError("the text to search for must be one line; search for one of its lines")
        small = text == text.lower()
        letters = [
            {letter, letter.upper()} if small and len(letter.upper()) == 1 else {letter} for letter in text
        ]
        self.regex = re.compile(
            b"".join(b"(?:%b)" % b"|".join(re.escape(form.encode()) for form in forms) for forms in letters)
        )
        self.for_rg = "".join(f"[{''.join(map(_code_point, forms))}]" for forms in letters)
        self.for_grep = ["-i", "-e", text] if small and text.isascii() else None if small else ["-e", text]


def _code_point(letter: str) -> str:
    return rf"\x{{{ord(letter):x}}}"


async def _candidates(workspace: Workspace, needle: _SearchText, glob: Glob) -> FileListing:
    """The files that may contain the text."""
    if not await has_no_links(workspace, below(workspace, glob.base)):
        return FileListing([], complete=True)
    for named in (_rg_candidates, _grep_candidates):
        if (candidates := await named(workspace, needle, glob)) is not None:
            return FileListing(candidates, complete=True)
    return await walk(workspace, glob.base, hidden=glob.names_hidden, limit=MOST_FILES)


async def _rg_candidates(workspace: Workspace, needle: _SearchText, glob: Glob) -> list[str] | None:
    """The files that ``rg`` reports; None without ``rg``, after an error, or if it reports more files than can be
    passed on: then the text is so common that reading file by file soon finds enough matches.
    """
    arguments = [
        *("rg", "--no-config", "--no-ignore", *(["--hidden"] if glob.names_hidden else [])),
        *("--encoding=none", "--glob=!.git", "--files-with-matches", "--null"),
        *(f"--regexp={needle.for_rg}", "--", f"./{glob.base}"),
    ]
    done = await workspace.run(f"{_OWN_PATH}exec {shlex.join(arguments)}")
    if done.exit_code not in {0, 1} or done.truncated:
        return None
    return [path.removeprefix("./") for path in done.stdout.split("\0")[:-1]]


async def _grep_candidates(workspace: Workspace, needle: _SearchText, glob: Glob) -> list[str] | None:
    """None as for ``rg``, and for a text that not every ``grep`` finds in all its forms."""
    if needle.for_grep is None:
        return None
    left_out = "-name .git" if glob.names_hidden else "-name '.?*'"
    done = await workspace.run(
        _OWN_PATH
        + _GREP.format(
            base=shlex.quote(f"./{glob.base}"), left_out=left_out, words=shlex.join(needle.for_grep)
        )
    )
    if done.exit_code != 0 or done.truncated:
        return None
    named = done.stdout.split("\0" if "\0" in done.stdout else "\n")[:-1]
    return [posixpath.join(glob.base, path.removeprefix("./")) for path in named]


async def _searchable(workspace: Workspace, paths: Sequence[str]) -> list[str]:
    """The candidates that are files of a suitable size."""
    # One request for all of them: a candidate may be a link, a device, or gone.
    infos = await workspace.stats([below(workspace, path) for path in paths])
    return [
        path
        for path, info in zip(paths, infos, strict=True)
        if info is not None and info.kind == "file" and info.size <= LARGEST_FILE
    ]


async def _search_file(
    workspace: Workspace, path: str, needle: _SearchText, query: SearchQuery
) -> list[Match]:
    """The matches in a file, at most one more than wanted; none if it is gone, not text, or not readable."""
    absolute = below(workspace, path)
    await anyio.lowlevel.checkpoint()  # a short file is read at once
    try:
        if not await has_no_links(workspace, absolute):
            return []
        data = await workspace.read_bytes(absolute, size=LARGEST_FILE)
    except WorkspaceError:
        return []
    if len(data) <= _INLINE:
        return _matches(path, data, needle, query)
    return await anyio.to_thread.run_sync(_matches, path, data, needle, query, abandon_on_cancel=True)


def _matches(path: str, data: bytes, needle: _SearchText, query: SearchQuery) -> list[Match]:
    if b"\0" in data or needle.regex.search(data) is None or not _is_utf8(data):
        return []
    lines = io.BytesIO(data).readlines()
    matches: list[Match] = []
    for start, end in _snippet_ranges(lines, needle, query.lines):
        if len(matches) > query.limit:
            break
        snippet = "".join(_display_line(line, needle) for line in lines[start:end])
        matches.append(Match(path, start + 1, tuple(line.decode() for line in lines[start:end]), snippet))
    return matches


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _snippet_ranges(lines: Sequence[bytes], needle: _SearchText, most: int) -> Iterator[tuple[int, int]]:
    """The lines ``start:end`` around each match; nearby matches share a snippet of at most ``most`` lines."""
    context = min(CONTEXT, (most - 1) // 2)
    start = end = 0
    for number, line in enumerate(lines):
        if needle.regex.search(line) is None:
            continue
        behind = min(number + context + 1, len(lines))
        if end and number - context <= end and behind - start <= most:
            end = behind
        elif number >= end:
            if end:
                yield start, end
            start, end = max(number - context, end), behind
    if end:
        yield start, end


def _display_line(line: bytes, needle: _SearchText) -> str:
    """A line for display: of a long one the part around the match, or its beginning."""
    text = line.decode()
    if len(text) <= LONGEST_LINE:
        return text
    place = needle.regex.search(line)
    before = len(line[: place.start()].decode()) if place else 0
    start = max(0, before - LONGEST_LINE // 2)
    end = start + LONGEST_LINE
    return f"{'…' if start else ''}{text[start:end].rstrip()}{'…' if end < len(text) else ''}\n"
