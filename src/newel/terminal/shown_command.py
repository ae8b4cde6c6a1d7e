"""Shortens a shell command for the transcript, keeping the commands in it visible, above all the last one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from newel.agent.formatting import pluralize
from newel.text.sanitize import escape_invisible

SHORT: Final = 4
"""Rows of a command that are always shown."""
HEAD, TAIL = 4, 3
"""Rows that are shown of a command that is too long, at its beginning and at its end."""
MAX_CHARACTERS: Final = 8_000
"""Characters of a command that are examined, half of them at its beginning and half at its end."""

_TEXT = r"\s*(?:cat|tee)\b[^|;&`()]*<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^|;&`()]*"
"""A line with a here-document that is only written to a file."""

Wrap = Callable[[str], list[str]]
"""From a line to the rows that it takes."""


def shown_command(command: str, wrap: Wrap) -> list[str]:
    """The rows of a command, with hidden characters written out. In a long one, text written to files is left out
    first, then its middle, each replaced by a line that says how much.
    """
    lines = escape_invisible(command).expandtabs(4).strip("\n").split("\n")
    if len(command) <= MAX_CHARACTERS and len(rows := _rows(lines, wrap)) <= SHORT:
        return rows
    rows = _rows(_within_limit(_without_texts(lines)), wrap)
    if len(rows) <= HEAD + TAIL + 1:
        return rows
    end = len(rows)
    while end > HEAD + TAIL and _does_nothing(rows[end - 1]):
        end -= 1
    between, after = _more(end - HEAD - TAIL, wrap), _more(len(rows) - end, wrap)
    return [*rows[:HEAD], *between, *rows[end - TAIL : end], *after]


def _rows(lines: list[str], wrap: Wrap) -> list[str]:
    return [row for line in lines for row in wrap(line.rstrip())]


def _does_nothing(row: str) -> bool:
    return not row.strip() or row.lstrip().startswith("#")


def _more(number: int, wrap: Wrap) -> list[str]:
    return wrap(f"… {pluralize(number, 'more line')} · /show") if number else []


def _without_texts(lines: list[str]) -> list[str]:
    """Without the bodies of here-documents that no program runs and in which the shell runs nothing."""
    result: list[str] = []
    at = 0
    while at < len(lines):
        result.append(lines[at])
        at += 1
        if not (match := re.fullmatch(_TEXT, lines[at - 1])):
            continue
        end = next((n for n in range(at, len(lines)) if lines[n].strip() == match["end"]), at)
        inert = match["quote"] or not re.search(r"\$\(|`", "\n".join(lines[at:end]))
        if inert and end - at > 1:
            result.append(f"… {pluralize(end - at, 'line')} of text")
            at = end
    return result


def _within_limit(lines: list[str]) -> list[str]:
    text = "\n".join(lines)
    half = MAX_CHARACTERS // 2
    if len(text) <= MAX_CHARACTERS:
        return lines
    left_out = f"… {pluralize(len(text) - 2 * half, 'more character')} · /show"
    return [*text[:half].split("\n"), left_out, *text[-half:].split("\n")]
