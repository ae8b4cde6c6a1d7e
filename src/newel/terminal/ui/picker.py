"""A list to choose from, with a filter: what the arrow keys move in, and what typed letters narrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from newel.agent.formatting import pluralize
from newel.text.format import PROMPT
from newel.text.fuzzy import fuzzy_matches
from newel.text.sanitize import escape_invisible

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples


class Picker:
    """Rows of which the user chooses one; ``selected`` is the position of the one that is chosen at first. ``search``
    returns the positions of the rows that match a query, the best first.
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[str],
        selected: int = 0,
        *,
        search: Callable[[str], list[int]] | None = None,
    ) -> None:
        self.title = escape_invisible(title)
        self._rows = [escape_invisible(row).replace("\n", " ") for row in rows]
        self._found = list(range(len(rows)))
        self._at = selected
        self._search = search or partial(fuzzy_matches, self._rows)

    @property
    def choice(self) -> int | None:
        """The position of the selected row; None if the filter leaves none."""
        return self._found[self._at] if self._found else None

    def filter(self, query: str) -> None:
        """Keep the rows that match, the best first."""
        self._found = self._search(query)
        self._at = 0

    def move(self, rows: int) -> None:
        """Select another row, and at an end the other end."""
        if not self._found:
            return
        last = len(self._found) - 1
        if abs(rows) == 1:
            self._at = (self._at + rows) % (last + 1)
        else:
            self._at = min(max(self._at + rows, 0), last)

    def fragments(self, columns: int, height: int) -> StyleAndTextTuples:
        """The title, and the rows around the selected one, in ``height`` lines at most."""
        lines: StyleAndTextTuples = [("class:question", f"{self.title}\n")]
        room = max(height - 2, 1)
        first = min(max(self._at - room // 2, 0), max(len(self._found) - room, 0))
        for place, position in enumerate(self._found[first : first + room], first):
            mark, style = (f"{PROMPT} ", "class:picker.selected") if place == self._at else ("  ", "")
            row = self._rows[position]
            lines.append((style, f"{mark}{row if len(row) <= columns - 3 else f'{row[: columns - 4]}…'}\n"))
        if not self._found:
            lines.append(("class:state", "  nothing matches\n"))
        elif hidden := len(self._found) - room:
            lines.append(("class:state", f"  {pluralize(hidden, 'more row')}") if hidden > 0 else ("", ""))
        return lines
