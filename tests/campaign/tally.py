"""What a campaign counts, and its table."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

import msgspec

COLUMNS: Final = ("what", "tried", "lost", "torn", "twice", "left behind", "note")
KEY: Final = "campaign"
"""The name under which a test's report carries its rows."""


class CampaignRow(msgspec.Struct):
    """A line of the table. ``lost``: acknowledged data that is gone, bytes that an undo did not restore, acts that were
    not refused. ``torn``: files that are neither old nor new. ``twice``: commands that ran again. ``left``: processes,
    temporary files and copies that were left behind.
    """

    what: str
    tried: int = 0
    lost: int = 0
    torn: int = 0
    twice: int = 0
    left: int = 0
    note: str = ""

    def cells(self) -> list[str]:
        counts = (self.tried, self.lost, self.torn, self.twice, self.left)
        return [self.what, *map(str, counts), self.note]


class CampaignTally:
    """The rows of one test, and all that went wrong."""

    def __init__(self) -> None:
        self.rows: list[CampaignRow] = []
        self.problems: list[str] = []

    def row(self, what: str, note: str = "") -> CampaignRow:
        self.rows.append(CampaignRow(what, note=note))
        return self.rows[-1]

    @contextmanager
    def attempt(self, row: CampaignRow, where: str) -> Generator[list[tuple[str, str]]]:
        """Count an attempt. The list takes its problems: a column's name and words."""
        found: list[tuple[str, str]] = []
        row.tried += 1
        try:
            yield found
        except Exception as error:
            error.add_note(f"{row.what}, {where}")
            row.lost += 1
            raise
        for column, words in found:
            setattr(row, column, getattr(row, column) + 1)
            self.problems.append(f"{row.what}, {where}: {column}: {words}")


def as_markdown(rows: Iterable[CampaignRow]) -> str:
    """The table in Markdown, with a sum of the rows that count kills."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
