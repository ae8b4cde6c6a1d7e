"""A page of HTML as Markdown: headings, paragraphs, lists, links, code, quotes and tables; without navigation, scripts and styles.

One pass over the text, without a tree and without recursion: its time grows with the page's length whatever a hostile page consists of.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from newel.tools.web.markdown_writer import MarkdownWriter
from newel.workspace.sandbox.web_address import WebAddress

MAX_TEXT: Final = 1_000_000
"""Characters of the result."""

_MARKUP: Final = re.compile(
    r"""
      <!--.*?(?:-->|\Z)
    | <[!?][^>]*+(?:>|\Z)
    | <(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)(?P<attributes>(?:[^>"']++|"[^"]*+"|'[^']*+'|["'])*+)(?:>|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Possessive, so that no beginning is tried twice."""

_ATTRIBUTE: Final = re.compile(r"""([^\s"'>/=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?""")
_MAX_ATTRIBUTES: Final = 8_000
"""Characters of a tag in which attributes are looked for."""

_RAW: Final = frozenset(
    {"script", "style", "noscript", "textarea", "iframe", "xmp", "noembed", "noframes", "plaintext", "title"}
)
"""Elements whose content is no markup. None is shown."""

_LEFT_OUT: Final = frozenset(
    {
        "nav",
        "footer",
        "aside",
        "svg",
        "math",
        "template",
        "canvas",
        "object",
        "audio",
        "video",
        "select",
        "button",
        "dialog",
    }
)
"""Elements that are left out with all that is in them."""

_MAY_HIDE: Final = frozenset({"div", "section", "span", "table", "ul", "ol", "form", "article"})
"""Elements that are left out if they are hidden; others often lack an end."""

_HIDDEN: Final = re.compile(r"(?i)(?:^|\s)hidden(?:[\s=]|\Z)|display\s*:\s*none|visibility\s*:\s*hidden")


class ConvertedPage(NamedTuple):
    """``is_cut`` tells that the page is longer."""

    title: str
    text: str
    is_cut: bool


class _Tag(NamedTuple):
    name: str
    attributes: str
    is_end: bool


def to_markdown(page: str, address: WebAddress) -> ConvertedPage:
    """Convert a page; its links are relative to ``address``. Of a page with a main part only that is converted, if it has text."""
    page = page.replace("\0", "")
    title = re.search(r"(?i)<title[^>]{0,200}>([^<]{0,1000})", page)
    writer = _write(_main_part(page) or page, address)
    if not writer.has_text:
        writer = _write(page, address)
    text = writer.finish()
    is_cut = max(writer.size, len(text)) > MAX_TEXT
    return ConvertedPage(" ".join(unescape(title[1]).split()) if title else "", text[:MAX_TEXT], is_cut)


def attributes_of(text: str) -> dict[str, str]:
    """The attributes of a tag, by their names in lower case."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text[:_MAX_ATTRIBUTES]):
        found.setdefault(match[1].lower(), unescape(match[2] or match[3] or match[4] or ""))
    return found


def unescape(text: str) -> str:
    """The text with its character references replaced."""
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text


def _main_part(page: str) -> str:
    """What is in the element that holds the page's subject; empty without one."""
    start = re.search(r"(?i)<main[\s>]", page)
    if start is None:
        return ""
    ends = [match.start() for match in re.finditer(r"(?i)</main", page)]
    return page[start.start() : max([*ends, start.start()])] or page[start.start() :]


def _write(page: str, address: WebAddress) -> MarkdownWriter:
    writer = MarkdownWriter(address)
    left_out, depth = "", 0
    for piece in _pieces(page):
        if writer.size > MAX_TEXT:
            break
        if left_out:
            if isinstance(piece, _Tag) and piece.name == left_out:
                depth += -1 if piece.is_end else 1
                left_out = left_out if depth else ""
        elif isinstance(piece, str):
            writer.text(unescape(piece))
        elif piece.is_end:
            writer.end(piece.name)
        elif _is_left_out(piece):
            left_out, depth = piece.name, 1
        else:
            wanted = piece.name in {"a", "img", "code", "pre", "ol"}
            writer.start(piece.name, attributes_of(piece.attributes) if wanted else {})
    return writer


def _is_left_out(tag: _Tag) -> bool:
    if tag.attributes.endswith("/"):
        return False
    return tag.name in _LEFT_OUT or (
        tag.name in _MAY_HIDE and _HIDDEN.search(tag.attributes[:_MAX_ATTRIBUTES]) is not None
    )


def _pieces(page: str) -> Iterator[_Tag | str]:
    """The tags of a page, and the texts between them."""
    at = 0
    while (start := page.find("<", at)) >= 0:
        match = _MARKUP.match(page, start)
        if match is None:  # no markup
            yield page[at : start + 1]
            at = start + 1
            continue
        if start > at:
            yield page[at:start]
        at = match.end()
        if not (name := match["name"]):
            continue
        name = name.lower()
        if name in _RAW and not match["end"]:
            end = re.compile(rf"(?i)</{name}").search(page, at)
            at = end.start() if end else len(page)
            continue
        yield _Tag(name, match["attributes"], bool(match["end"]))
    if at < len(page):
        yield page[at:]
