"""A session as Markdown that stays inert in every viewer: no tag, no script link, no remote image.

Code is put into fences that start a line and are longer than any run of backticks inside; in prose, each ``<`` and each entity
is escaped. So however a viewer parses the prose, nothing in it can open a tag, or prevent a fence from opening.
"""

from __future__ import annotations

import html
import re

from newel.agent.messages import ImageContent
from newel.session.export.document import DetailsBlock, Part, ProseBlock, facts, split_blocks, title, turns
from newel.session.reader import SessionData
from newel.text.sanitize import plain_line, plain_text

_WHO = {"user": "You", "assistant": "Newel", "note": "Note"}
_CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SCRIPT_LINK = re.compile(r"(?:javascript|vbscript)[\s\\]*:|data[\s\\]*:\S", re.IGNORECASE)
_MARKUP = re.compile(r"([\\`*_\[\]~|$#!])")


def to_markdown(data: SessionData) -> str:
    """The session's active branch; ends with a line end."""
    pieces = [f"# {_inline(title(data))}", " · ".join(_inline(fact) for fact in facts(data))]
    for turn in turns(data.messages):
        pieces.append(f"## {_WHO[turn.who]}" + (f" · {_inline(turn.model)}" if turn.model else ""))
        pieces += [_part(part) for part in turn.parts]
    return "\n\n".join(piece for piece in pieces if piece.strip()) + "\n"


def _part(part: Part) -> str:
    match part:
        case ProseBlock():
            return _prose(plain_text(part.text))
        case DetailsBlock():
            return _details(part)
        case ImageContent():
            return f"*Image, {_inline(part.mime_type)}, {len(part.data) * 3 // 4:,} bytes*"


def _details(part: DetailsBlock) -> str:
    mark = f" · {part.mark}" if part.mark else ""
    pieces = [f"<details><summary>{_in_html(plain_line(part.summary + mark))}</summary>"]
    for section in part.sections:
        pieces += [section.label, _fence(plain_text(section.text), section.info)]
    return "\n\n".join(piece for piece in [*pieces, "</details>"] if piece)


def _fence(text: str, info: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text.removesuffix(chr(10))}\n{fence}"


def _prose(text: str) -> str:
    links_off = _SCRIPT_LINK.search(text) is not None
    pieces: list[str] = []
    for block in split_blocks(text):
        if block.code:
            pieces.append(_fence(block.text, block.info))
            continue
        prose = _escape_html(block.text)
        if links_off:
            prose = prose.replace("[", "&#91;")
        pieces.append(prose.replace("![", "!&#91;").strip("\n"))
    return "\n\n".join(pieces)


def _escape_html(prose: str) -> str:
    """Tags and entities as plain text; code spans that hold some become ``<code>`` elements, because a
    viewer shows an escape inside a code span as it is written.
    """
    pieces = _CODE_SPAN.split(prose)
    for place, piece in enumerate(pieces):
        if place % 2 and ("<" in piece or "&" in piece):
            pieces[place] = f"<code>{_in_html(piece)}</code>"
        elif place % 2:
            pieces[place] = f"`{piece}`"
        else:
            pieces[place] = re.sub(r"&(?=[#\w])", "&amp;", piece).replace("<", "&lt;")
    return "".join(pieces)


def _inline(text: str) -> str:
    """Plain text in a line of Markdown."""
    return _MARKUP.sub(r"\\\1", html.escape(plain_line(text), quote=False))


def _in_html(text: str) -> str:
    """Plain text in an element, where some viewers read Markdown and others do not."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[1])};", html.escape(text, quote=False))
