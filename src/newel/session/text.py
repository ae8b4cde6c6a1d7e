"""Text from anywhere, made fit for one line or cut into prose and code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from newel.agent.messages import Wire


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line without control, formatting or direction characters, at most ``limit`` long."""
    start = text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in start).split())
    return line if len(line) <= limit and len(start) == len(text) else line[: limit - 1].rstrip() + "…"


class Block(Wire, frozen=True):
    """A piece of a text: prose, or what stood in a code fence; ``info`` is the word behind the fence."""

    text: str
    code: bool = False
    info: str = ""


_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})(.*)")
_LINE_END = re.compile(r"\r\n|\r|\n")


def blocks(text: str) -> Iterator[Block]:
    """Cut Markdown at its code fences. Only a fence that begins a line opens a block: an indented one may
    belong to a list, and stays part of the prose.
    """
    held: list[str] = []
    fence, info = "", ""
    for line in _LINE_END.split(text):
        if fence:
            if re.fullmatch(rf" {{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*", line):
                yield Block("\n".join(held), code=True, info=info)
                fence, held = "", []
                continue
        elif found := _FENCE.fullmatch(line):
            if held:
                yield Block("\n".join(held))
            fence, info, held = found[1], found[2].strip(), []
            continue
        held.append(line)
    if held or fence:
        yield Block("\n".join(held), code=bool(fence), info=info)
