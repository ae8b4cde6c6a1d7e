"""Unified diffs: parsed into changed lines, and shortened for display."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from newel.agent.formatting import pluralize
from newel.text.sanitize import escape_diff

MINUS = "\N{MINUS SIGN}"


class Extent(NamedTuple):
    """How much of a diff is shown."""

    lines: int
    characters: int


SHOWN: Final = Extent(2_500, 100_000)
"""Where the user decides on the diff."""

WHOLE: Final = Extent(sys.maxsize, sys.maxsize)

_HUNK = r"@@ -(?P<old>\d+)(?:,(?P<old_size>\d+))? \+(?P<new>\d+)(?:,(?P<new_size>\d+))? @@"


class DiffChange(NamedTuple):
    """A changed line: ``mark`` is ``+`` or ``-``, ``number`` its line in the new or the old file. ``hunk``
    counts from 0.
    """

    mark: str
    number: int
    text: str
    hunk: int


def changes(diff: str) -> Iterator[DiffChange]:
    """The changed lines of a unified diff, in order; text outside of hunks is skipped."""
    hunk, old, new, old_left, new_left = -1, 0, 0, 0, 0
    for line in diff.split("\n"):
        if old_left <= 0 and new_left <= 0:
            if header := re.match(_HUNK, line):
                hunk += 1
                old, new = int(header["old"]), int(header["new"])
                old_left, new_left = int(header["old_size"] or 1), int(header["new_size"] or 1)
            continue
        match line[:1]:
            case "-":
                yield DiffChange("-", old, line[1:], hunk)
                old, old_left = old + 1, old_left - 1
            case "+":
                yield DiffChange("+", new, line[1:], hunk)
                new, new_left = new + 1, new_left - 1
            case "\\":
                pass
            case _:
                old, old_left, new, new_left = old + 1, old_left - 1, new + 1, new_left - 1


def changed_lines(diff: str) -> str:
    """How many lines a unified diff adds and removes; nothing where there is no diff."""
    marks = [change.mark for change in changes(diff)]
    added, removed = marks.count("+"), marks.count("-")
    parts = [f"+{added}" if added else "", f"{MINUS}{removed}" if removed else ""]
    return " ".join(part for part in parts if part)


def shortened(diff: str, rest: str, extent: Extent = SHOWN) -> str:
    """A diff with hidden characters written out. A long one is cut at the end of a line, and a line says how much is missing
    and that the command ``rest`` shows it.
    """
    body = diff.removesuffix("\n")
    lines = body[: extent.characters + 1].split("\n", extent.lines)[: extent.lines]
    head = "\n".join(lines)
    if len(head) > extent.characters:  # the last line of it is not whole
        head = head[: head.rfind("\n", 0, extent.characters)] if "\n" in head else head[: extent.characters]
    if len(head) == len(body):
        return escape_diff(diff)
    rest_of_body = body[len(head) :].removeprefix("\n")
    missing = (
        pluralize(rest_of_body.count("\n") + 1, "more line")
        if body[len(head)] == "\n"
        else pluralize(len(rest_of_body), "more character")
    )
    return f"{escape_diff(head)}\n… {missing}: `{rest}` shows the whole diff\n"
