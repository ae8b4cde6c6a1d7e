"""Unified diffs: read back into the lines that they change, and cut to what can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from newel.terminal.safe import safe

MINUS = "\N{MINUS SIGN}"

SHOWN = 100_000
"""Characters of a diff that are shown."""

_HUNK = re.compile(r"@@ -(?P<old>\d+)(?:,(?P<old_size>\d+))? \+(?P<new>\d+)(?:,(?P<new_size>\d+))? @@")


class Change(NamedTuple):
    """A changed line: ``mark`` is ``+`` or ``-``, ``number`` its line in the new or the old file. ``hunk``
    counts from 0.
    """

    mark: str
    number: int
    text: str
    hunk: int


def changes(diff: str) -> Iterator[Change]:
    """The changed lines of a unified diff, in order; whatever stands outside its hunks is passed over."""
    hunk, old, new, old_left, new_left = -1, 0, 0, 0, 0
    for line in diff.split("\n"):
        if old_left <= 0 and new_left <= 0:
            if found := _HUNK.match(line):
                hunk += 1
                old, new = int(found["old"]), int(found["new"])
                old_left, new_left = int(found["old_size"] or 1), int(found["new_size"] or 1)
            continue
        match line[:1]:
            case "-":
                yield Change("-", old, line[1:], hunk)
                old, old_left = old + 1, old_left - 1
            case "+":
                yield Change("+", new, line[1:], hunk)
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


def shortened(diff: str, shown: int = SHOWN) -> str:
    """A diff, inert, and cut where it is too long to be read: after ``shown`` characters, or lines of 40 on average."""
    shown = min(shown, len("\n".join(diff[:shown].split("\n")[: shown // 40])))
    if len(diff) <= shown:
        return safe(diff)
    return f"{safe(diff[:shown])}\n… {len(diff) - shown:,} more characters\n"
