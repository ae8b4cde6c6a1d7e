"""A session as one self-contained HTML page: no script, no external resources, everything escaped."""

from __future__ import annotations

import html
import re

from newel.agent.messages import ImageContent
from newel.session.export.document import (
    DetailsBlock,
    DetailsSection,
    Part,
    ProseBlock,
    facts,
    split_blocks,
    title,
    turns,
)
from newel.session.reader import SessionData
from newel.text.html_page import html_page
from newel.text.sanitize import plain_line, plain_text

_WHO = {"user": "You", "assistant": "Newel", "note": "Note"}
_IMAGE = re.compile(r"image/(?:png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")

_STYLE = """
body { margin: 0 auto; max-width: 880px; padding: 24px 16px 64px; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--line); padding-bottom: 16px; }
h1 { font-size: 20px; margin: 0 0 4px; }
.facts, time, .model { color: var(--dim); font-size: 13px; }
article { padding: 16px 0 0; }
article.user { background: var(--raised); border: 1px solid var(--line); border-radius: 6px; margin: 24px 0 0;
  padding: 12px 16px; }
h2 { font-size: 13px; font-weight: 600; margin: 0 0 4px; color: var(--accent); }
.prose { white-space: pre-wrap; margin: 4px 0; }
pre, code { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--sunken); border-radius: 6px; margin: 4px 0; padding: 8px 12px; overflow-x: auto; }
.prose code { background: var(--sunken); border-radius: 4px; padding: 0 4px; }
details { margin: 4px 0; border-left: 2px solid var(--line); padding-left: 12px; }
summary { cursor: pointer; font: 13px/1.8 ui-monospace, monospace; }
summary:focus-visible { outline: 2px solid var(--accent); }
.mark { color: var(--bad); }
.label { color: var(--dim); font-size: 13px; }
.added { background: var(--added); } .removed { background: var(--removed); }
img { max-width: 100%; border: 1px solid var(--line); border-radius: 6px; }
@media print { details::details-content { content-visibility: visible; } }
"""


def to_html(data: SessionData) -> str:
    """The session's active branch as a whole page."""
    body = "\n".join(
        f'<article class="{turn.who}">\n<h2>{_WHO[turn.who]} {_model(turn.model)}{_time(turn.timestamp)}</h2>\n'
        + "\n".join(_part(part) for part in turn.parts)
        + "\n</article>"
        for turn in turns(data.messages)
    )
    return html_page(title(data), facts(data), body, style=_STYLE)


def _model(model: str) -> str:
    return f'<span class="model">{html.escape(plain_line(model))}</span> ' if model else ""


def _time(timestamp: str) -> str:
    return f"<time>{html.escape(plain_line(timestamp))}</time>" if timestamp else ""


def _part(part: Part) -> str:
    match part:
        case ProseBlock():
            return "\n".join(
                _code(block.text) if block.code else f'<div class="prose">{_inline(block.text)}</div>'
                for block in split_blocks(plain_text(part.text))
                if block.text.strip()
            )
        case DetailsBlock():
            return _details(part)
        case ImageContent():
            return _image(part)


def _details(part: DetailsBlock) -> str:
    mark = f' <span class="mark">{html.escape(part.mark)}</span>' if part.mark else ""
    sections = "\n".join(_section(section) for section in part.sections)
    return (
        f"<details><summary>{html.escape(plain_line(part.summary))}{mark}</summary>\n{sections}\n</details>"
    )


def _section(section: DetailsSection) -> str:
    label = f'<div class="label">{html.escape(section.label)}</div>' if section.label else ""
    text = plain_text(section.text)
    return label + (_diff(text) if section.info == "diff" else _code(text))


def _code(text: str) -> str:
    # A parser drops the first line end after <pre>.
    return f"<pre>\n{html.escape(text)}</pre>"


def _diff(text: str) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        kind = {"+": "added", "-": "removed"}.get(line[:1])
        escaped = html.escape(line)
        lines.append(f'<span class="{kind}">{escaped}</span>' if kind else escaped)
    return "<pre>\n" + "\n".join(lines) + "</pre>"


def _inline(prose: str) -> str:
    """Escaped prose with its headings, bold words and code spans marked."""
    text = html.escape(prose.strip("\n"))
    pieces = re.split(r"(?<!`)`([^`\n]+)`(?!`)", text)
    for place, piece in enumerate(pieces):
        if place % 2:
            pieces[place] = f"<code>{piece}</code>"
        else:
            marked = re.sub(r"(?m)^#{1,6} +(.+)$", r"<strong>\1</strong>", piece)
            pieces[place] = re.sub(r"\*\*(?=\S)([^*\n]+)\*\*", r"<strong>\1</strong>", marked)
    return "".join(pieces)


def _image(image: ImageContent) -> str:
    data = "".join(image.data.split())
    if not _IMAGE.fullmatch(image.mime_type) or not _BASE64.fullmatch(data):
        return f'<div class="label">An image that cannot be shown ({html.escape(plain_line(image.mime_type))})</div>'
    return f'<img alt="Image" src="data:{image.mime_type};base64,{data}">'
