"""Lines of hints that fit into the terminal."""

from __future__ import annotations

from rich.cells import cell_len

from newel.terminal.renderers.palette import truncate, wrap

SEPARATOR = " · "


def wrap_hints(text: str, columns: int) -> str:
    """Wrap between words. A separator that has no room at the end of its row is left out."""
    begin = SEPARATOR.lstrip()
    rows = [row for line in text.split("\n") for row in wrap(line, columns)]
    return "\n".join(row.removeprefix(begin) for row in rows)


def fit_hints(line: str, columns: int) -> str:
    """The line without the hints that it has no room for: the last one, which often says how to stop, stays to the end."""
    *parts, last = line.split(SEPARATOR)
    while parts and cell_len(SEPARATOR.join([*parts, last])) > columns:
        parts.pop()
    return truncate(SEPARATOR.join([*parts, last]), columns)
