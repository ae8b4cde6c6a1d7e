"""Diffs in colour: what was removed and added, the words that changed, and the syntax where the language is known.

A line is coloured by its hunk's header, which counts the lines, and not by its first character alone: ``--- name`` is no change.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

from newel.agent.formatting import pluralize
from newel.diff.unified import HUNK, MINUS, DiffLine, diff_lines
from newel.diff.words import changed_words, line_pairs
from newel.terminal.renderers.palette import ADDED, CHANGED_WORD, DIM, FILE, REMOVED
from newel.terminal.renderers.syntax import syntax_role
from newel.text.sanitize import escape_invisible, sanitize

if TYPE_CHECKING:
    from pygments.lexer import Lexer

SHOWN_CHANGES: Final = 16
"""Changed lines shown of an edit."""
SHOWN_CONTEXT: Final = 1
"""Unchanged lines shown around each change of an edit."""

DETAILED: Final = 2_000
"""Lines of a text, and of a hunk, in which words are compared and hunks parsed."""
PART: Final = 200
"""Lines of a hunk that are painted at once: more than a screen has."""
MAX_PARSED: Final = 60_000
"""Characters of a hunk that are parsed for their syntax, about a third of a second."""
MAX_PARSED_LINE: Final = 2_000

_LANGUAGES: Final = {
    **dict.fromkeys((".py", ".pyi"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    **dict.fromkeys((".ts", ".tsx", ".mts"), "typescript"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp"), "cpp"),
    **dict.fromkeys((".sh", ".bash", ".zsh"), "bash"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    **dict.fromkeys((".html", ".htm"), "html"),
    **dict.fromkeys((".kt", ".kts"), "kotlin"),
    ".cs": "csharp",
    ".css": "css",
    ".dart": "dart",
    ".ex": "elixir",
    ".go": "go",
    ".hs": "haskell",
    ".java": "java",
    ".json": "json",
    ".lua": "lua",
    ".php": "php",
    ".rb": "ruby",
    ".rs": "rust",
    ".scala": "scala",
    ".scss": "scss",
    ".sql": "sql",
    ".swift": "swift",
    ".toml": "toml",
    ".xml": "xml",
    ".zig": "zig",
}

SPACED: Final = {"+": "+ ", "-": f"{MINUS} ", " ": "  "}
EXACT: Final = {"+": "+", "-": "-", " ": " "}
"""Marks as diffs have them, so that a diff can be copied."""


class Span(NamedTuple):
    """A style for the characters ``start:end`` of a line."""

    start: int
    end: int
    style: str


def diff_block(diff: str, width: int) -> list[Text]:
    """The changed lines with their numbers and a little context, cut after the first few changes."""
    lines = [line._replace(text=_on_one_line(line.text)) for line in diff_lines(diff)]
    changed = [at for at, line in enumerate(lines) if line.mark != " "]
    shown = _with_context(lines, changed[:SHOWN_CHANGES])
    lines = lines[: shown[-1] + 1] if shown else []
    digits = len(str(max((lines[at].number for at in shown), default=0)))
    painted = paint_lines(lines, language_of(diff))
    result: list[Text] = []
    for before, at in zip([None, *shown], shown, strict=False):
        if before is not None and (at > before + 1 or lines[at].hunk != lines[before].hunk):
            result.append(Text("  │ ⋮", style=DIM))
        row, content = Text().append("  │ ", style=DIM), painted[at]
        row.append(f"{lines[at].number:>{digits}} ", style=DIM)
        if lines[at].mark == " ":
            content.stylize(DIM)
        content.truncate(width - 5 - digits, overflow="ellipsis")
        result.append(row.append_text(content))
    if (more := len(changed) - SHOWN_CHANGES) > 0:
        result.append(Text(f"  │ … {pluralize(more, 'more changed line')} · /show", style=DIM))
    return result


def _on_one_line(text: str) -> str:
    return sanitize(text, keep_newlines=False).expandtabs(4).rstrip("↵")


def _with_context(lines: Sequence[DiffLine], changed: Sequence[int]) -> list[int]:
    """The positions of the changed lines, and of those around them in their hunks."""
    shown = {
        near
        for at in changed
        for near in range(max(at - SHOWN_CONTEXT, 0), min(at + SHOWN_CONTEXT + 1, len(lines)))
        if near == at
        or (lines[near].mark == " " and lines[near].hunk == lines[at].hunk and lines[near].text.strip())
    }
    return sorted(shown)


def with_diff(text: str, *, secondary: str = DIM, wraps: bool = False) -> Text:
    """Text with unified diffs in it, also indented ones, nothing hidden. ``secondary`` is the style of the headers of hunks.
    ``wraps``: lines that are too long are wrapped; otherwise they stay whole, to be copied.
    """
    painted = Text(overflow="fold") if wraps else Text(no_wrap=True, overflow="ignore")
    for piece in diff_pieces(text, secondary=secondary):
        painted.append_text(piece)
    return painted


def diff_pieces(text: str, *, secondary: str = DIM) -> Iterator[Text]:
    """The lines of ``with_diff``, each but the first with the end of the line before it. The first screen need not wait for the last
    one.
    """
    lines = escape_invisible(text).split("\n")
    at, language = 0, ""
    while at < len(lines):
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip(" "))]
        end = _end_of_hunk(lines, at, indent)
        start = Text("\n" if at else "")
        if end > at:
            yield start.append(lines[at], style=secondary)
            hunk = (line.removeprefix(indent) for line in lines[at + 1 : end])
            changes = (DiffLine(line[:1], 0, line[1:], 0) for line in hunk)
            detailed = itertools.islice(changes, DETAILED if at < DETAILED else 0)
            plain = (_paint_plainly(line, EXACT) for line in changes)
            for line in itertools.chain(_paint_in_parts(detailed, language), plain):
                yield Text(f"\n{indent}").append_text(line)
            at = end
        else:
            if name := _name(lines, at, indent):
                language = _LANGUAGES.get(PurePosixPath(name).suffix.lower(), "")
            yield start.append(lines[at], style=FILE if name else "")
            at += 1


def _paint_in_parts(lines: Iterator[DiffLine], language: str) -> Iterator[Text]:
    """The painted lines of a hunk. Of a long one, a part after the other: what spans two parts, such as a text over many lines, is
    painted as it is in a hunk that begins there.
    """
    while some := [*itertools.islice(lines, PART)]:
        yield from paint_lines(some, language, EXACT)


def paint_diff_code(code: str) -> Text:
    """A diff in an answer, which often has no headers that count its lines."""
    if re.search(f"(?m)^{HUNK}", code):
        return with_diff(code)
    lines = [DiffLine(line[:1], 0, line[1:], 0) for line in code.split("\n")]
    painted = paint_lines(lines, "", EXACT)
    return Text("\n").join(painted)


def _end_of_hunk(lines: Sequence[str], at: int, indent: str) -> int:
    """The position after the hunk whose header is at ``at``; ``at`` if there is none."""
    header = re.match(HUNK, lines[at].removeprefix(indent))
    if header is None:
        return at
    old, new = int(header["old_size"] or 1), int(header["new_size"] or 1)
    end = at + 1
    while end < len(lines) and (old > 0 or new > 0 or lines[end].startswith(f"{indent}\\")):
        mark = lines[end][len(indent) :][:1]
        if not lines[end].startswith(indent) or mark not in _MARKS or _name(lines, end, indent):
            break  # it was cut
        old -= mark in " -"
        new -= mark in " +"
        end += 1
    return end


_MARKS: Final = ("+", "-", " ", "", "\\", "…")
"""The first characters of a hunk's lines. Models leave out the space of an empty line; the last one stands for lines left out."""


def _name(lines: Sequence[str], at: int, indent: str) -> str:
    """The name of the file in one of the two lines above a file's first hunk; empty for every other line."""
    starts = (f"{indent}--- ", f"{indent}+++ ", f"{indent}@@")
    if not lines[at].startswith(starts[:2]):
        return ""
    for first in (at, at - 1):
        if first < 0 or first + 2 >= len(lines):
            continue
        if all(line.startswith(start) for line, start in zip(lines[first : first + 3], starts, strict=True)):
            return lines[first + 1][len(indent) + 4 :]
    return ""


def language_of(diff: str) -> str:
    """The name of a diff's language for the parser of its syntax; empty if it is not known."""
    found = re.search(r"(?m)^\+\+\+ (?P<name>[^\n\t]+)", diff[:MAX_PARSED_LINE])
    return _LANGUAGES.get(PurePosixPath(found["name"]).suffix.lower(), "") if found else ""


def paint_lines(lines: Sequence[DiffLine], language: str, marks: Mapping[str, str] = SPACED) -> list[Text]:
    """The lines of hunks behind their marks, which are all equally wide; the text must be inert."""
    spans: list[list[Span]] = [[] for _ in lines]
    for side in ("-", "+"):
        _add_syntax(lines, side, language, spans)
    for removed, added in _pairs(lines):
        words = changed_words(lines[removed].text, lines[added].text)
        for at, ranges in ((removed, words.old), (added, words.new)):
            spans[at] += [Span(start, end, CHANGED_WORD) for start, end in ranges]
    painted = [_paint_plainly(line, marks) for line in lines]
    width = len(marks["+"])
    for text, marked in zip(painted, spans, strict=True):
        for span in marked:
            text.stylize(span.style, span.start + width, span.end + width)
    return painted


def _paint_plainly(line: DiffLine, marks: Mapping[str, str]) -> Text:
    return Text().append(marks.get(line.mark, line.mark) + line.text, style=_SIDES.get(line.mark, ""))


_SIDES: Final = {"+": ADDED, "-": REMOVED}


def _pairs(lines: Sequence[DiffLine]) -> Iterable[tuple[int, int]]:
    """The positions of removed lines and of the added ones that replace them."""
    at = 0
    while at < min(len(lines), DETAILED):
        removed = _run(lines, at, "-")
        added = _run(lines, removed, "+")
        old, new = (
            [line.text for line in lines[first:end]] for first, end in ((at, removed), (removed, added))
        )
        yield from ((at + one, removed + other) for one, other in line_pairs(old, new))
        at = max(added, at + 1)


def _run(lines: Sequence[DiffLine], at: int, mark: str) -> int:
    """The end of the lines from ``at`` on with this mark in the same hunk."""
    end = at
    while end < len(lines) and lines[end].mark == mark and lines[end].hunk == lines[at].hunk:
        end += 1
    return end


def _add_syntax(lines: Sequence[DiffLine], side: str, language: str, spans: list[list[Span]]) -> None:
    """Add the styles of the lines of one side of a diff, parsed together with the context between them."""
    parsed = [at for at, line in enumerate(lines) if line.mark in {side, " "}]
    size = sum(len(lines[at].text) + 1 for at in parsed)
    if not language or size > MAX_PARSED or any(len(lines[at].text) > MAX_PARSED_LINE for at in parsed):
        return
    row = column = 0
    for kind, value in _lexer(language).get_tokens("\n".join(lines[at].text for at in parsed)):
        style = syntax_role(kind)
        for number, piece in enumerate(value.split("\n")):
            if number:
                row, column = row + 1, 0
            if style and piece and row < len(parsed) and lines[parsed[row]].mark == side:
                spans[parsed[row]].append(Span(column, column + len(piece), style))
            column += len(piece)


@lru_cache(maxsize=8)
def _lexer(language: str) -> Lexer:
    from pygments import lexers

    lexer_by_name: Callable[..., Lexer] = lexers.get_lexer_by_name  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return lexer_by_name(language, stripnl=False, ensurenl=False)
