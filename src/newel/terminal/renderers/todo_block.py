"""The todo list on the full screen: a block above the line of state that replaces itself, printed once at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.terminal.renderers import styles
from newel.text.format import one_line
from newel.tools.todo import TodoItem

MARKS: Final = {
    "pending": ("○", styles.DIM),
    "in_progress": ("▸", styles.ACCENT),
    "done": ("✓", styles.SUCCESS),
}
"""Distinguishable without colours."""


class TodoBlock:
    """The list as the model set it last, and whether that is still to be printed."""

    def __init__(self) -> None:
        self._items: Sequence[TodoItem] = ()
        self._is_new = False

    def set(self, items: Sequence[TodoItem]) -> None:
        self._items, self._is_new = items, True

    def live(self, width: int, room: int) -> list[styles.Text]:
        """At most ``room`` lines, those around the first step that is not done; none for a list that is done."""
        items = self._items
        first_open = next((at for at, item in enumerate(items) if item.status != "done"), None)
        if first_open is None or room < 1:
            return []
        if len(items) <= room:
            return [_line(item, width) for item in items]
        start = max(min(first_open - 1, len(items) - room + 1), 0)
        shown = items[start : start + max(room - 1, 1)]
        others = len(items) - len(shown)
        rest = styles.Text(f"  … {others} more", style=styles.DIM)
        return [*(_line(item, width) for item in shown), *([rest] if room > 1 else [])]

    def final(self, width: int) -> list[styles.Text]:
        """The whole list, if it has changed since it was printed."""
        if not self._is_new:
            return []
        self._is_new = False
        return [_line(item, width) for item in self._items]


def _line(item: TodoItem, width: int) -> styles.Text:
    mark, colour = MARKS[item.status]
    text = styles.truncate(one_line(item.text, 300), min(width, styles.MAX_WIDTH) - 4)
    style = "" if item.status == "in_progress" else styles.DIM
    return styles.Text("  ").append(f"{mark} ", style=colour).append(text, style=style)
