"""Markdown without boxes, and with code that can be copied. Loaded with the first text of a model, as its parsers take long to load."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import ClassVar, cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    ListItem,
    Markdown,
    MarkdownContext,
    MarkdownElement,
    Paragraph,
    TableElement,
)
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from newel.terminal.renderers.diff_styles import paint_diff_code
from newel.terminal.renderers.painted_table import paint_table
from newel.terminal.renderers.palette import DIM
from newel.terminal.renderers.syntax import syntax_role
from newel.text.sanitize import sanitize

URL = r"(?:https?://|mailto:)[!-~]+(?!\S)"
"""What a terminal may open on a click. A link is only made of an address that is written out, so that nobody opens another one."""

TAB = 4


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


class _ListItem(ListItem):
    """An item of a list, and of a list of tasks with its box in place of the bullet."""

    bullet = "•"

    def on_leave(self, context: MarkdownContext) -> None:
        # Rich leaves out the number of an empty item, and `42.` is an answer.
        if not list(cast("Iterable[object]", self.elements)):
            self.elements.append(Text())
        super().on_leave(context)

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in super().render_bullet(console, options):
            if isinstance(segment, Segment) and segment.text == " • ":
                yield Segment(f" {self.bullet} ", segment.style)
            else:
                yield segment


class _DoneListItem(_ListItem):
    bullet = "☑"


class _OpenListItem(_ListItem):
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
        # Inside a list or quotation there is no room to run over.
        is_wide = options.max_width == console.width and not self.wraps
        for line in self._lines(code):
            if is_wide:
                line.no_wrap, line.overflow = True, "ignore"
            yield line

    def _lines(self, code: str) -> Iterable[Text]:
        """The lines, each painted when it is asked for: code can be long."""
        if self.lexer_name in {"diff", "patch"}:
            yield from paint_diff_code(code).split("\n", allow_blank=True)
            return
        if self.lexer_name == "text":  # otherwise it would look like prose
            yield from Text(code, style="code").split("\n", allow_blank=True)
            return
        syntax = Syntax("", self.lexer_name)
        lexer = syntax.lexer or syntax.default_lexer
        line = Text(tab_size=TAB)
        for kind, value in lexer.get_tokens(code):
            first, *more = value.split("\n")
            role = syntax_role(kind)
            line.append(first, role)
            for piece in more:
                yield line
                line = Text(tab_size=TAB).append(piece, role)


class _Table(TableElement):
    has_links = False

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Table:  # noqa: ARG003 — the base's signature
        table = cls()
        table.has_links = isinstance(markdown, StreamingMarkdown) and markdown.has_links
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = self.header.row.cells if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        for row in rows if self.has_links else ():
            for cell in row:
                _link_addresses(cell)
        yield from paint_table([cell.content for cell in header], rows, console, options.max_width)


class StreamingMarkdown(Markdown):
    """Rich's Markdown in Newel's style, with HTML and images as their text. The text must be inert; decoded entities are made so."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "paragraph_open": _Paragraph,
        "list_item_open": _ListItem,
        "done_item_open": _DoneListItem,
        "open_item_open": _OpenListItem,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }

    def __init__(self, text: str, *, has_links: bool = False, wraps_code: bool = False) -> None:
        super().__init__("", hyperlinks=False)
        self.markup, self.parsed = text, _parser().parse(text)
        self.has_links = has_links
        self.wraps_code = wraps_code
        _make_inert(self.parsed)
        _mark_tasks(self.parsed)
        for token in self.parsed:
            if token.type == "html_block":  # rich leaves it out
                token.type = "code_block"
            token.children = list(_as_shown(token.children)) if token.children else token.children


@cache
def _parser() -> MarkdownIt:
    # The text comes block by block, so the address of a reference is elsewhere and its definition would show nothing.
    return MarkdownIt().enable(["strikethrough", "table"]).disable("reference")


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


def _as_shown(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens of a paragraph as they are shown: HTML as text, images as links, and once a link whose text is its address."""
    at = 0
    while at < len(tokens):
        token, link = tokens[at], tokens[at : at + 3]
        at += 1
        if token.type == "html_inline":
            is_break = re.fullmatch(r"(?i)<br\s*/?>", token.content)
            yield Token("hardbreak" if is_break else "text", "", 0, content=token.content)
        elif token.type == "image":
            yield from _image_link(token)
        elif [each.type for each in link] == ["link_open", "text", "link_close"] and (
            link[1].content == str(token.attrs.get("href", ""))
        ):
            yield link[1]
            at += 2
        else:
            yield token


def _image_link(image: Token) -> Iterator[Token]:
    address = str(image.attrs.get("src", ""))
    if not image.content:
        yield Token("text", "", 0, content=address)
        return
    yield Token("link_open", "a", 1, attrs={"href": address})
    yield Token("text", "", 0, content=image.content)
    yield Token("link_close", "a", -1)
