"""Lines of hints that fit into the terminal."""

from __future__ import annotations

from rich.cells import cell_len

from newel.terminal.renderers.palette import truncate

SEPARATOR = " · "


def fit_hints(line: str, columns: int) -> str:
    """The line without the hints that it has no room for: the last one, which often says how to stop, stays to the end."""
    *parts, last = line.split(SEPARATOR)
    while parts and cell_len(SEPARATOR.join([*parts, last])) > columns:
        parts.pop()
    return truncate(SEPARATOR.join([*parts, last]), columns)
