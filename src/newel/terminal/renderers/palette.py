"""Names of styles, widths, and how lines are cut and wrapped."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size

ACCENT: Final = "accent"
DIM: Final = "dim"
ERROR: Final = "error"
SUCCESS: Final = "success"
MARK: Final = "prompt"
USER: Final = "user"
TOOL: Final = "tool"
ADDED: Final = "diff.added"
REMOVED: Final = "diff.removed"
FILE: Final = "diff.file"
CHANGED_WORD: Final = "diff.word"
"""Roles of ``newel.config.themes``: the theme says how they look."""

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
