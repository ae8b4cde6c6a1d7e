"""Styles, Markdown and building blocks of the full screen, rendered by rich."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from markdown_it.token import Token
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, Paragraph, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from newel.agent.formatting import pluralize
from newel.terminal.renderers.base import BESIDE, CallOutcome
from newel.terminal.renderers.diff_styles import paint_diff_code
from newel.terminal.renderers.palette import ACCENT, BAD, DIM, GOOD, MAX_WIDTH, truncate, wrap
from newel.terminal.shown_command import shown_command
from newel.text.format import PROMPT, command_of, describe_call, format_duration, shown_name
from newel.text.sanitize import sanitize

# -- Markdown: without boxes, and with code that can be copied -----------------------------------------

URL = r"(?:https?://|mailto:)[!-~]+(?!\S)"
"""What a terminal may open on a click. A link is only made of an address that is written out, so that nobody opens another one."""

LONG_WORD = 12
"""Columns up to which a word in a table is never folded."""

MARKDOWN_STYLES = {
    "markdown.code": "cyan",
    "markdown.h1": "bold cyan underline",
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


class _Paragraph(Paragraph):
    """A paragraph whose addresses are links, which keeps those that are wrapped whole for the terminal."""

    has_links = False

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> Paragraph:  # noqa: ARG003 — the base's signature
        paragraph = cls(justify=markdown.justify or "left")
        paragraph.has_links = isinstance(markdown, StreamingMarkdown) and markdown.has_links
        return paragraph

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.has_links:
            _link_addresses(self.text)
        yield from super().__rich_console__(console, options)


def _link_addresses(text: Text) -> None:
    for found in re.finditer(URL, text.plain):
        url = _without_marks(found[0])
        text.stylize(Style(link=url), found.start(), found.start() + len(url))


def _without_marks(url: str) -> str:
    """Without the marks at its end that belong to the sentence around it."""
    url = re.split(r"[\"'<>`]", url, maxsplit=1)[0]
    while url and (url[-1] in ".,;:!?*_]}" or (url[-1] == ")" and url.count(")") > url.count("("))):
        url = url[:-1]
    return url


class _Item(ListItem):
    """An item of a list, and of a list of tasks with its box in place of the bullet."""

    bullet = "•"

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in super().render_bullet(console, options):
            if isinstance(segment, Segment) and segment.text == " • ":
                yield Segment(f" {self.bullet} ", segment.style)
            else:
                yield segment


class _DoneItem(_Item):
    bullet = "☑"


class _OpenItem(_Item):
    bullet = "☐"


class _Code(CodeBlock):
    """Code below the name of its language, or in one colour without one; it has no edge, so that it can be copied."""

    wraps = False

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> CodeBlock:
        code = super().create(markdown, token)
        if isinstance(code, _Code) and isinstance(markdown, StreamingMarkdown):
            code.wraps = markdown.wraps_code
        return code

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        if self.lexer_name != "text":
            yield Text(self.lexer_name, style=DIM, no_wrap=True, overflow="ellipsis")
        if self.lexer_name in {"diff", "patch"}:
            text = paint_diff_code(code)
        elif self.lexer_name == "text":  # otherwise it would look like prose
            text = Text(code, style="markdown.code")
        else:
            text = Syntax("", self.lexer_name, theme=self.theme, background_color="default").highlight(code)
        text.rstrip()
        if (
            options.max_width == console.width and not self.wraps
        ):  # inside a list or quotation there is no room to run over
            text.no_wrap, text.overflow = True, "ignore"
        yield text


class _Table(TableElement):
    """A table that loses no text: cells are folded, and if columns would be too narrow, each row becomes a record."""

    has_links = False

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Table:  # noqa: ARG003 — the base's signature
        table = cls()
        table.has_links = isinstance(markdown, StreamingMarkdown) and markdown.has_links
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = self.header.row.cells if self.header and self.header.row else []
        headings = [cell.content for cell in header]
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        columns = zip(headings, *rows, strict=False)
        widths = [max(min(_longest_word(cell), LONG_WORD) for cell in column) for column in columns]
        for row in rows if self.has_links else ():
            for cell in row:
                _link_addresses(cell)
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
        "paragraph_open": _Paragraph,
        "list_item_open": _Item,
        "done_item_open": _DoneItem,
        "open_item_open": _OpenItem,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }

    def __init__(
        self, text: str, *, code_theme: str, has_links: bool = False, wraps_code: bool = False
    ) -> None:
        super().__init__(text, code_theme=code_theme, hyperlinks=False)
        self.has_links = has_links
        self.wraps_code = wraps_code
        _make_inert(self.parsed)
        _mark_tasks(self.parsed)
        for token in self.parsed:
            token.children = _without_repeated_urls(token.children) if token.children else token.children


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


def _mark_tasks(tokens: Sequence[Token]) -> None:
    """Make items of a list of tasks of those that begin with ``[ ]`` or ``[x]``."""
    for item, paragraph, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        first = inline.children[0] if inline.children else None
        if item.type != "list_item_open" or paragraph.type != "paragraph_open" or first is None:
            continue
        if (box := first.content[:4].lower()) in {"[ ] ", "[x] "} and first.type == "text":
            item.type = "done_item_open" if "x" in box else "open_item_open"
            first.content = first.content[4:]


def _without_repeated_urls(tokens: list[Token]) -> list[Token]:
    """Without the tokens of links whose text is their address, which is written once."""
    result: list[Token] = []
    at = 0
    while at < len(tokens):
        link = tokens[at : at + 3]
        address = str(link[0].attrs.get("href", ""))
        if [token.type for token in link] == ["link_open", "text", "link_close"] and link[
            1
        ].content == address:
            result.append(link[1])
            at += 3
        else:
            result.append(tokens[at])
            at += 1
    return result


# -- other parts --------------------------------------------------------------------------------------

INDENT = 12
"""Columns that a list's indentation and the marks around a word may take."""

USER_LINES = 6
USER_CHARACTERS = 2_000
"""Bounds of a message of the user in the scroll-back."""
WITHOUT_LINKS = ("linux", "vt", "dumb")
"""Terminals that print the control sequence of a link."""

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
        self._knows_links = not environ.get("TERM", "").startswith(WITHOUT_LINKS)
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

    def prose(self, text: str, *, has_links: bool = False, wraps_code: bool = False) -> StreamingMarkdown:
        has_links = has_links and self._knows_links
        return StreamingMarkdown(
            sanitize(text), code_theme=self._code_theme, has_links=has_links, wraps_code=wraps_code
        )

    def markdown(self, text: str, width: int, *, crop: bool = False) -> str:
        """Finished text has links, which prompt_toolkit, the painter of unfinished text, does not know."""
        return self.paint(self.prose(text, has_links=not crop), _text_width(text, width), crop=crop)

    def wrapped_markdown(self, text: str, width: int) -> str:
        """Text for a screen that cannot show longer lines, so that code is wrapped, too."""
        return self.paint(self.prose(text, wraps_code=True), _text_width(text, width), crop=True)


def _text_width(text: str, width: int) -> int:
    """The width at which a text is wrapped: ``MAX_WIDTH``, but no word that the terminal has room for is broken."""
    longest = max(map(cell_len, text.split()), default=0)
    return width if longest > MAX_WIDTH - INDENT else min(width, MAX_WIDTH)


def user_text(text: str) -> Text:
    """What the user has sent, a long text only in its first lines: they have it, and scroll back to what followed."""
    whole = sanitize(text).expandtabs(4).rstrip()
    lines = whole.split("\n")
    more = ""
    if len(lines) > USER_LINES + 1:
        more = f"… {len(lines) - USER_LINES:,} more lines"
        lines = lines[:USER_LINES]
    shown = "\n  ".join(lines)
    if len(shown) > USER_CHARACTERS + 80:
        more = f"… {len(whole) - USER_CHARACTERS:,} more characters"
        shown = shown[:USER_CHARACTERS]
    line = Text().append(f"{PROMPT} ", style=f"bold {ACCENT}").append(shown, style="bold")
    return line.append(f"\n  {more}", style=DIM) if more else line


def call_lines(outcome: CallOutcome, width: int) -> list[Text]:
    """``● read a.py        212 lines  6 ms``: the call, its result and its duration. A shell command takes as many
    lines as it needs, up to a bound; the result is beside the last one. Below are the last lines of an output that does not fit there.
    """
    width = min(width, MAX_WIDTH)
    time = "" if outcome.milliseconds is None else format_duration(outcome.milliseconds)
    is_beside = not outcome.more and len(outcome.output) == 1 and len(outcome.output[0]) <= BESIDE
    summary = outcome.output[0] if is_beside else "" if outcome.output else outcome.summary
    result = truncate("  ".join(part for part in (summary, time) if part), width // 2)
    room = width - cell_len(result) - 2
    mark = Text().append("● ", style=BAD if outcome.failed else GOOD)
    lines = _call(mark, outcome.name, outcome.args, width, room)
    if lines[-1].cell_len > room:
        lines.append(Text())
    lines[-1].append(" " * (room - lines[-1].cell_len + 2)).append(result, style=DIM)
    return lines if is_beside else [*lines, *_output_lines(outcome, width)]


def _output_lines(outcome: CallOutcome, width: int) -> list[Text]:
    more = [f"… {pluralize(outcome.more, 'more line')}"] if outcome.more else []
    return [output_line(line, width) for line in (*more, *outcome.output)]


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


def whole_lines(text: str) -> Text:
    """Text whose lines are never wrapped, so that they can be copied."""
    return Text(sanitize(text), no_wrap=True, overflow="ignore")


def _append_call(line: Text, described: str, name: str) -> Text:
    length = len(name) if described.startswith(f"{name} ") or described == name else 0
    return line.append(described[:length], style="bold").append(described[length:])
