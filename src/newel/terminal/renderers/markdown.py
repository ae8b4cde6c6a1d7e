"""Markdown for a terminal: without boxes, and with code that can be copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from markdown_it.token import Token
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from newel.text.sanitize import sanitize

LONG_WORD = 12
"""Columns up to which a word in a table is never folded."""

STYLES = {
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
