"""Colours, widths, and how lines are cut and wrapped."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size

ACCENT: Final = "cyan"
DIM: Final = "dim"
BAD: Final = "red"
GOOD: Final = "green"
ADDED: Final = "color(33)"
REMOVED: Final = "color(172)"
"""Blue and orange, distinguishable for colour-blind users on dark and light backgrounds."""

MAX_WIDTH: Final = 100
"""Columns of text and tool lines, however wide the terminal is."""


def truncate(text: str, width: int) -> str:
    """Cut a one-line text to at most ``width`` columns."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def wrap(text: str, width: int) -> list[str]:
    """Wrap a line at ``width`` columns (at least 2), between words where possible."""
    lines: list[str] = []
    while cell_len(text) > width:
        head = chop_cells(text, width)[0]
        end = len(head) if text[len(head)] == " " else head.rfind(" ") + 1
        if not head[:end].strip():
            if head.startswith(" "):  # without its indentation the word may fit
                text = text.lstrip(" ")
                continue
            end = len(head)  # a word longer than the line
        lines.append(head[:end].rstrip())
        text = text[end:].lstrip(" ")
    return [*lines, text]
