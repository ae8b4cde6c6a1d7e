"""Tables that lose no text, painted row by row: rich measures and lays out each cell anew, for which a key would wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, RenderResult
from rich.segment import Segment
from rich.text import Text

LONG_WORD = 12
"""Columns up to which a word in a table is never folded."""

GAP = 2
"""Columns between two cells, and those around a table."""

HEADER, BORDER = "markdown.table.header", "markdown.table.border"


def paint_table(
    headings: Sequence[Text], rows: Sequence[Sequence[Text]], console: Console, width: int
) -> RenderResult:
    """The lines of a table. Cells are folded, and if columns would be too narrow, each row becomes a record."""
    columns = list(zip(headings, *rows, strict=False))
    least = [max(min(_longest_word(cell), LONG_WORD) for cell in column) for column in columns]
    if (room := width - GAP * len(columns)) < sum(least):
        yield from _records(headings, rows)
        return
    natural = [max(map(_widest_line, column)) for column in columns]
    widths = _fit_widths(natural, least, room)
    yield Segment.line()
    for heading in headings:
        heading.stylize(HEADER)
    yield from _row(headings, widths, console)
    line = "─" * (sum(widths) + GAP * (len(widths) - 1))
    yield from Text().append(f" {line}", style=BORDER).render(console, "\n")
    for row in rows:
        yield from _row(row, widths, console)
    yield Segment.line()


def _fit_widths(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths of columns that need no more than ``room``: the widest ones give way, but none below its ``least``."""
    widths = [min(width, max(room, 1)) for width in natural]
    for _ in range(sum(widths) - room):
        able = [column for column, width in enumerate(widths) if width > least[column]]
        widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def _row(cells: Sequence[Text], widths: Sequence[int], console: Console) -> Iterator[Segment]:
    folded = [
        cell.wrap(console, width, overflow="fold") if cell.cell_len > width or "\n" in cell.plain else [cell]
        for cell, width in zip(cells, widths, strict=False)
    ]
    for pieces in zip_longest(*folded):
        line, end = Text(), -1
        for piece, cell, width in zip(pieces, cells, widths, strict=False):
            end += GAP
            if piece is not None:
                line.append(" " * (end - line.cell_len + _indent(cell, piece, width))).append_text(piece)
            end += width
        yield from line.render(console, "\n")


def _indent(cell: Text, piece: Text, width: int) -> int:
    """Columns before a piece of a cell."""
    room = width - piece.cell_len
    return room if cell.justify == "right" else room // 2 if cell.justify == "center" else 0


def _records(headings: Sequence[Text], rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for number, row in enumerate(rows or [[Text()] * len(headings)]):
        yield Text("\n" if number else "", end="")
        for heading, cell in zip(headings, row, strict=False):
            name = heading.plain.strip()
            yield Text.assemble((f"{name}: " if name else "", HEADER), cell, overflow="fold")


def _widest_line(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


def _longest_word(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split()), default=1)
