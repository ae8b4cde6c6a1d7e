"""Writes Markdown from the tags and texts of a page, in their order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from newel.workspace.sandbox.web_address import WebAddress

_Block = Literal["text", "item", "row", "heading", "code"]

_BLOCKS: Final = re.compile(
    "address|article|body|center|d[dlt]|details|div|fieldset|figcaption|figure|form|header|html|main|p|section|summary|table|tbody|tfoot|"
    "thead|ul|ol|hr|blockquote|option|legend"
)
"""Elements that begin and end a paragraph."""

_HEADING: Final = re.compile(r"h[1-6]")

_BREAK: Final = "\0"
"""A line break in a paragraph; pages have none of these."""

MAX_DEPTH: Final = 8
"""Of lists and quotes that are shown as such."""

_MAX_LINK: Final = 500
"""Characters of an address that is shown."""


class MarkdownWriter:
    """``size`` counts the characters so far."""

    def __init__(self, address: WebAddress) -> None:
        self.size = 0
        self.has_text = False
        self._address = address
        self._written: list[str] = []
        self._inline: list[str] = []
        self._last: tuple[_Block, int] | None = None
        self._heading = 0
        self._quotes = 0
        self._lists: list[int | None] = []
        self._marker = ""
        self._link: tuple[int, str] | None = None
        self._language = ""
        self._code = 0
        self._in_row = False
        self._in_cell = False
        self._is_head_row = False

    def text(self, text: str) -> None:
        self._add(text)

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._code and name != "pre":
            if name == "code":
                self._language = self._language or _language(attributes)
            elif name == "br":
                self._add("\n")
            return
        match name:
            case "a":
                self._end_link()
                if href := attributes.get("href", ""):
                    self._link = len(self._inline), href
            case "br":
                self._add(_BREAK)
            case "img":
                self._add(f" {attributes.get('alt', '')} ")
            case "code" | "kbd" | "samp" | "tt":
                self._add("`")
            case "pre":
                if not self._code:
                    self._flush()
                    self._language = _language(attributes)
                self._code += 1
            case "li":
                self._start_item()
            case "tr":
                self._end_row()
                self._in_row, self._is_head_row = True, False
            case "td" | "th":
                self._start_cell(name)
            case _ if _HEADING.fullmatch(name):
                self._flush()
                self._heading = int(name[1])
            case _ if _BLOCKS.fullmatch(name):
                self._start_block(name, attributes)
            case _:
                pass

    def end(self, name: str) -> None:
        if self._code and name != "pre":
            return
        match name:
            case "a":
                self._end_link()
            case "code" | "kbd" | "samp" | "tt":
                self._add("`")
            case "pre" if self._code:
                self._code -= 1
                if not self._code:
                    self._write_code()
            case "li":
                self._flush("item")
            case "td" | "th":
                self._in_cell = False
            case "tr":
                self._end_row()
            case _ if _HEADING.fullmatch(name):
                self._flush("heading")
            case _ if _BLOCKS.fullmatch(name):
                self._end_block(name)
            case _:
                pass

    def finish(self) -> str:
        """The whole text."""
        if self._code:
            self._code = 0
            self._write_code()
        self._flush()
        return "\n".join(self._written).strip("\n")

    # -- inline ------------------------------------------------------------------------------------

    def _add(self, text: str) -> None:
        self._inline.append(text)
        self.size += len(text)

    def _end_link(self) -> None:
        if self._link is None:
            return
        (start, href), self._link = self._link, None
        text = " ".join("".join(self._inline[start:]).replace(_BREAK, " ").split())
        target = self._target(href)
        if text and target and len(target) <= _MAX_LINK:
            self._inline[start:] = [f"[{text}]({target})"]
            self.size += len(target)

    def _target(self, href: str) -> str:
        """The whole address of a link; empty if it leads to the page itself, or to no page."""
        if href.startswith("#"):
            return ""
        try:
            return str(self._address.join(href.strip()))
        except ValueError:
            return ""

    # -- blocks ------------------------------------------------------------------------------------

    def _start_block(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._in_cell and name in {"p", "div"}:
            self._add(" ")
            return
        self._flush()
        if name == "blockquote":
            self._quotes += 1
        elif name in {"ul", "ol"}:
            first = attributes.get("start", "1") if name == "ol" else ""
            self._lists.append(
                int(first)
                if first.isdecimal() and first.isascii() and len(first) < 9
                else 1
                if first
                else None
            )
        elif name == "hr":
            self._put("text", ["---"])

    def _end_block(self, name: str) -> None:
        if self._in_cell and name in {"p", "div"}:
            self._add(" ")
            return
        if name in {"table", "thead", "tbody", "tfoot"}:
            self._end_row()
            return
        self._flush()
        if name == "blockquote":
            self._quotes = max(self._quotes - 1, 0)
        elif name in {"ul", "ol"} and self._lists:
            self._lists.pop()
            self._marker = ""

    def _start_item(self) -> None:
        self._flush()
        number = self._lists[-1] if self._lists else None
        self._marker = "- " if number is None else f"{number}. "
        if number is not None:
            self._lists[-1] = number + 1

    def _start_cell(self, name: str) -> None:
        if not self._in_row:
            self._add(" ")
            return
        self._end_link()
        if self._inline:
            self._add(" | ")
        self._in_cell = True
        self._is_head_row = self._is_head_row or name == "th"

    def _end_row(self) -> None:
        self._in_cell = False
        if not self._in_row:
            self._flush()
            return
        self._in_row = False
        self._end_link()
        cells = "".join(self._inline).count(" | ") + 1
        is_head = self._is_head_row and self._last_kind() != "row" and cells > 1
        self._flush("row")
        if is_head:
            self._put("row", ["|".join(["---"] * cells)])

    def _last_kind(self) -> str:
        return self._last[0] if self._last else ""

    def _flush(self, kind: _Block | None = None) -> None:
        """End the paragraph."""
        link = self._link
        self._end_link()
        lines = [" ".join(line.split()) for line in "".join(self._inline).split(_BREAK)]
        lines = [line for line in lines if line.strip("`| ")]
        self._inline.clear()
        if link is not None:  # a link around several paragraphs
            self._link = 0, link[1]
        heading, self._heading = self._heading, 0
        if not lines:
            return
        if heading:
            lines = ["#" * heading + " " + " ".join(lines).rstrip("¶# ")]
        self._put("heading" if heading else kind or ("item" if self._marker else "text"), lines)

    def _write_code(self) -> None:
        code = "".join(self._inline).replace(_BREAK, "\n").strip("\n")
        self._inline.clear()
        if code.strip():
            fence = max([*re.findall(r"`{3,}", code), "``"], key=len)[:20] + "`"
            self._put("code", [fence + self._language, *code.split("\n"), fence])
        self._language = ""

    def _put(self, kind: _Block, lines: list[str]) -> None:
        depth = min(len(self._lists), MAX_DEPTH)
        quote = "> " * min(self._quotes, MAX_DEPTH)
        indent = quote + "  " * max(depth - 1, 0)
        is_tight = self._last is not None and self._last[0] == kind and kind in {"item", "row"}
        if self._written and not is_tight:
            self._written.append(quote.rstrip() if self._last and self._last[1] and self._quotes else "")
        hanging = " " * len(self._marker) if self._marker else "  " if depth else ""
        for place, line in enumerate(lines):
            written = f"{indent}{self._marker if not place and self._marker else hanging}{line}".rstrip()
            self._written.append(written)
            self.size += len(written) - len(line) + 1
        self._marker = ""
        self._last = kind, self._quotes
        self.has_text = True


def _language(attributes: Mapping[str, str]) -> str:
    found = re.search(r"(?:language|lang|highlight|brush:?)[- ]([\w+#-]{1,20})", attributes.get("class", ""))
    return found[1] if found else ""
