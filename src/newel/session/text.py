"""Text from anywhere, made fit for a line or a document, or cut into prose and code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from newel.agent.messages import Wire

_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r"([ \t]*)(`{3,}(?=[^`]*$)|~{3,})[ \t]*([\w+#.-]*).*")


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line without control, formatting or direction characters, at most ``limit`` long."""
    start = text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in start).split())
    return line if len(line) <= limit and len(start) == len(text) else line[: limit - 1].rstrip() + "…"


def clean(text: str) -> str:
    """The text without terminal sequences; line ends are made one kind, and other control characters and
    halves of surrogate pairs become U+FFFD.
    """
    text = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))", "", text)
    text = _LINE_END.sub("\n", text)
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


class MarkdownBlock(Wire, frozen=True):
    """A piece of a text: prose, or what stood in a code fence; ``info`` is the language behind the fence."""

    text: str
    code: bool = False
    info: str = ""


def blocks(text: str) -> Iterator[MarkdownBlock]:
    """Cut Markdown at its code fences, indented ones too, so that no line of prose looks like a fence."""
    held: list[str] = []
    indent, fence, info = "", "", ""
    for line in _LINE_END.split(text):
        if fence:
            if re.fullmatch(rf"[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*", line):
                yield MarkdownBlock("\n".join(held), code=True, info=info)
                fence, held = "", []
            else:
                held.append(line.removeprefix(indent))
        elif found := _FENCE.fullmatch(line):
            if held:
                yield MarkdownBlock("\n".join(held))
            indent, fence, info = found.groups()
            held = []
        else:
            held.append(line)
    if held or fence:
        yield MarkdownBlock("\n".join(held), code=bool(fence), info=info if fence else "")
