"""Styles, Markdown and building blocks of the full screen, rendered by rich."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from markdown_it.token import Token
from rich import box
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from newel.agent.formatting import pluralize
from newel.diff.unified import MINUS, changes
from newel.terminal.renderers.base import CallOutcome
from newel.terminal.shown_command import shown_command
from newel.text.format import PROMPT, command_of, describe_call, format_duration, shown_name
from newel.text.sanitize import escape_invisible, sanitize

# -- Markdown: without boxes, and with code that can be copied -----------------------------------------

LONG_WORD = 12
"""Columns up to which a word in a table is never folded."""

MARKDOWN_STYLES = {
    "markdown.code": "cyan",
    "markdown.h1": "bold cyan",
    "markdown.h2": "bold cyan",
    "markdown.h3": "bold",
    "markdown.h4": "bold",
    "markdown.h5": "bold",
    "markdown.h6": "bold",
    "markdown.hr": "dim",
    "markdown.item.bullet": "dim",
    "markdown.item.number": "dim",
    "markdown.block_quote": "dim",
    "markdown.link": "cyan",
    "markdown.link_url": "dim underline",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        text = Syntax("", self.lexer_name, theme=self.theme, background_color="default").highlight(code)
        text.rstrip()
        if options.max_width == console.width:  # inside a list or quotation there is no room to run over
            text.no_wrap, text.overflow = True, "ignore"
        yield text


class _Table(TableElement):
    """A table that loses no text: cells are folded, and if columns would be too narrow, each row becomes a record."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = self.header.row.cells if self.header and self.header.row else []
        headings = [cell.content for cell in header]
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        columns = zip(headings, *rows, strict=False)
        widths = [max(min(_longest_word(cell), LONG_WORD) for cell in column) for column in columns]
        if sum(widths) + 2 * len(widths) > options.max_width:
            yield from _records(headings, rows)
            return
        table = Table(box=box.SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True)
        for heading, width in zip(headings, widths, strict=True):
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold", min_width=width)
        for row in rows:
            table.add_row(*row)
        yield table


def _records(headings: list[Text], rows: list[list[Text]]) -> Iterable[Text]:
    for number, row in enumerate(rows or [[Text()] * len(headings)]):
        yield Text("\n" if number else "", end="")
        for heading, cell in zip(headings, row, strict=False):
            name = heading.plain.strip()
            yield Text.assemble((f"{name}: " if name else "", "markdown.table.header"), cell, overflow="fold")


def _longest_word(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split()), default=1)


class StreamingMarkdown(Markdown):
    """Rich's Markdown in Newel's style. The text must be inert; decoded entities are made so."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }

    def __init__(self, text: str, *, code_theme: str) -> None:
        super().__init__(text, code_theme=code_theme, hyperlinks=False)
        _make_inert(self.parsed)


def _make_inert(tokens: Iterable[Token]) -> None:
    """Sanitize again: ``&#27;`` has been decoded to an escape character."""
    for token in tokens:
        token.content = sanitize(token.content)
        token.info = sanitize(token.info, keep_newlines=False)
        token.attrs = {
            name: sanitize(value, keep_newlines=False) if isinstance(value, str) else value
            for name, value in token.attrs.items()
        }
        _make_inert(token.children or ())


# -- other parts --------------------------------------------------------------------------------------

ACCENT, DIM, BAD, GOOD = "cyan", "dim", "red", "green"
ADDED, REMOVED = "color(33)", "color(172)"
"""Blue and orange, distinguishable for colour-blind users on dark and light backgrounds."""

MAX_WIDTH = 100
"""Columns of text and tool lines, however wide the terminal is."""

DIFF_LINES = 16
"""Changed lines shown of an edit."""

_EMPTY_AROUND = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m)*\n)+|(?:\n(?:\x1b\[[0-9;]*m)*)+\Z")
_TRAILING_SPACE = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


class Styles:
    """Paints for a terminal of a given kind.

    Follows the usual variables in ``environ``: ``NO_COLOR``, ``TERM``, ``COLORTERM``, ``COLORFGBG`` (a light
    background).
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            theme=Theme(MARKDOWN_STYLES),
            _environ=environ,
        )
        ground = environ.get("COLORFGBG", "").rpartition(";")[2]
        self._code_theme = "ansi_light" if ground in {"7", "15"} else "ansi_dark"

    def paint(self, what: RenderableType, width: int, *, crop: bool = False) -> str:
        """Render to lines, without empty ones around them. ``crop`` cuts at ``width``; otherwise code may be wider, so that
        it can be copied.
        """
        console = self._console
        console.width = max(width, 8)
        with console.capture() as captured:
            console.print(Group(what), crop=crop, end="")  # in a group a text keeps its own way to wrap
        return _EMPTY_AROUND.sub("", _TRAILING_SPACE.sub(r"\1", captured.get()))

    def prose(self, text: str) -> StreamingMarkdown:
        return StreamingMarkdown(sanitize(text), code_theme=self._code_theme)

    def markdown(self, text: str, width: int, *, crop: bool = False) -> str:
        return self.paint(self.prose(text), min(width, MAX_WIDTH), crop=crop)


def truncate(text: str, width: int) -> str:
    """Cut a one-line text to at most ``width`` columns."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def user_text(text: str) -> Text:
    lines = sanitize(text).rstrip().split("\n")
    line = Text().append(f"{PROMPT} ", style=f"bold {ACCENT}")
    line.append("\n  ".join(lines), style="bold")
    return line


def call_lines(outcome: CallOutcome, width: int) -> list[Text]:
    """``● read a.py        212 lines  6 ms``: the call, its result and its duration. A shell command takes as many
    lines as it needs, up to a bound; the result is beside the last one.
    """
    width = min(width, MAX_WIDTH)
    time = "" if outcome.milliseconds is None else format_duration(outcome.milliseconds)
    result = truncate("  ".join(part for part in (outcome.summary, time) if part), width // 2)
    room = width - cell_len(result) - 2
    mark = Text().append("● ", style=BAD if outcome.failed else GOOD)
    lines = _call(mark, outcome.name, outcome.args, width, room)
    if lines[-1].cell_len > room:
        lines.append(Text())
    return [*lines[:-1], lines[-1].append(" " * (room - lines[-1].cell_len + 2)).append(result, style=DIM)]


def running_lines(name: str, args: dict[str, Any], width: int) -> list[Text]:
    width = min(width, MAX_WIDTH)
    return _call(Text().append("○ ", style=ACCENT), name, args, width, width)


def _call(mark: Text, name: str, args: dict[str, Any], width: int, room: int) -> list[Text]:
    """The call after ``mark``; only a shell command may be wider than ``room``."""
    command = command_of(name, args)
    if not command:
        return [_append_call(mark, truncate(describe_call(name, args), room - mark.cell_len), name)]
    name = shown_name(name, args)
    indent = mark.cell_len + len(name) + 1
    first, *rows = shown_command(command, lambda line: wrap(line, max(width - indent, 8)))
    return [_append_call(mark, f"{name} {first}", name), *(Text(" " * indent + row) for row in rows)]


def output_line(text: str, width: int) -> Text:
    """A line of a tool's output, under the tool's own line."""
    return Text("  │ ", style=DIM).append(truncate(text.expandtabs(4), min(width, MAX_WIDTH) - 4), style=DIM)


def failure_lines(text: str, width: int) -> list[Text]:
    """A line of a failed call, whole, on as many lines as it needs."""
    parts = wrap(text.expandtabs(4), max(min(width, MAX_WIDTH) - 4, 4))
    return [Text().append("  │ ", style=DIM).append(part) for part in parts]


def wrap(text: str, width: int) -> list[str]:
    """Wrap a line at ``width`` columns (at least 2), between words where possible."""
    lines: list[str] = []
    while cell_len(text) > width:
        head = chop_cells(text, width)[0]
        end = len(head) if text[len(head)] == " " else head.rfind(" ") + 1
        if not head[:end].strip():
            if head.startswith(" "):  # without its indentation the word may fit
                text = text.lstrip(" ")
                continue
            end = len(head)  # a word longer than the line
        lines.append(head[:end].rstrip())
        text = text[end:].lstrip(" ")
    return [*lines, text]


def diff_block(diff: str, width: int) -> list[Text]:
    """The changed lines with their numbers, cut after the first few."""
    changed = list(changes(diff))
    digits = len(str(max((change.number for change in changed), default=0)))
    lines: list[Text] = []
    for before, change in zip([None, *changed], changed[:DIFF_LINES], strict=False):
        if before is not None and before.hunk != change.hunk:
            lines.append(Text("  │ ⋮", style=DIM))
        mark, style = ("+", ADDED) if change.mark == "+" else (MINUS, REMOVED)
        text = sanitize(change.text, keep_newlines=False).expandtabs(4).rstrip("↵")
        line = Text().append("  │ ", style=DIM)
        line.append(f"{change.number:>{digits}} ", style=DIM)
        line.append(truncate(f"{mark} {text}", width - 5 - digits), style=style)
        lines.append(line)
    if len(changed) > DIFF_LINES:
        lines.append(
            Text(f"  │ … {pluralize(len(changed) - DIFF_LINES, 'more changed line')} · /show", style=DIM)
        )
    return lines


def whole_lines(text: str) -> Text:
    """Text whose lines are never wrapped, so that they can be copied."""
    return Text(sanitize(text), no_wrap=True, overflow="ignore")


def with_diff(text: str) -> Text:
    """Text with unified diffs in it, their changed lines coloured and nothing hidden. Lines are never wrapped."""
    painted = whole_lines("")
    in_head = False  # the names of a file, which begin with signs, too
    for number, line in enumerate(escape_invisible(text).split("\n")):
        in_head = line.startswith("diff --git ") or (in_head and not line.startswith("@@"))
        sign = "" if in_head else line[:1]
        style = ADDED if sign == "+" else REMOVED if sign == "-" else ""
        painted.append("\n" if number else "").append(line, style=DIM if line.startswith("@@") else style)
    return painted


def _append_call(line: Text, described: str, name: str) -> Text:
    length = len(name) if described.startswith(f"{name} ") or described == name else 0
    return line.append(described[:length], style="bold").append(described[length:])
