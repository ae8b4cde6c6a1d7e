"""The table and the bars of ``newel stats``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Final

import msgspec

from newel.session.usage.report import Counts, UsageReport, UsageRow
from newel.text.format import format_cost, format_duration, short_folder, short_number
from newel.text.sanitize import escape_line

NONE: Final = "-"
SHOWN_DAYS: Final = 31
NAME: Final = (12, 60)
"""Columns of a row's name: at least and at most."""
MIN_BAR: Final = 8
_GAP: Final = "  "
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_BLOCK: Final = "█"
_TEAL, _PLAIN = "\x1b[36m", "\x1b[0m"


class _Column(msgspec.Struct, frozen=True):
    """``rank`` orders the columns that a narrow terminal leaves out, the highest first."""

    title: str
    text: Callable[[Counts], str]
    rank: int = 0


def _count(number: int) -> str:
    return f"{number:,}"


def _cost(counts: Counts) -> str:
    known = format_cost(counts.cost) if counts.cost is not None else ""
    return f"{known}+?".removeprefix("+") if counts.unpriced else known or NONE


def _share(counts: Counts) -> str:
    return f"{counts.cached / counts.input:.0%}".replace("%", " %") if counts.input else NONE


def _model_time(counts: Counts) -> str:
    return format_duration(counts.model_time) if counts.timed else NONE


_MODELS: Final = (
    _Column("runs", lambda counts: _count(counts.runs), 4),
    _Column("requests", lambda counts: _count(counts.requests), 3),
    _Column("input", lambda counts: short_number(counts.input)),
    _Column("cached", _share, 1),
    _Column("output", lambda counts: short_number(counts.output)),
    _Column("cost", _cost),
    _Column("model time", _model_time, 5),
    _Column("tool time", lambda counts: format_duration(counts.tool_time), 6),
    _Column("calls", lambda counts: _count(counts.calls), 2),
    _Column("failed", lambda counts: _count(counts.failed), 2),
)
_TOOLS: Final = (
    _Column("calls", lambda counts: _count(counts.calls)),
    _Column("failed", lambda counts: _count(counts.failed)),
    _Column("time", lambda counts: format_duration(counts.tool_time)),
    _Column("a call", lambda counts: format_duration(counts.tool_time / max(counts.calls, 1)), 1),
)


def table(report: UsageReport, width: int) -> list[str]:
    """A line of titles and one for each row; columns are left out where ``width`` is too small."""
    columns = list(_TOOLS if report.by == "tool" else _MODELS)
    shorten = short_folder if report.by == "project" else str
    names = [report.by, *(escape_line(shorten(row.name)) for row in report.rows)]
    named = min(max(map(len, names)), NAME[1])
    while True:
        cells = [[column.title, *(column.text(row.counts) for row in report.rows)] for column in columns]
        widths = [max(map(len, cell)) for cell in cells]
        room = width - sum(widths) - len(_GAP) * len(widths)
        droppable = [column for column in columns if column.rank]
        if room >= min(named, NAME[0]) or not droppable:
            break
        rank = max(column.rank for column in droppable)
        columns = [column for column in columns if column.rank != rank]
    named = min(named, max(room, NAME[0]))
    return [
        _GAP.join(
            [
                _fit(name, named, keep_end=report.by == "project"),
                *(cell[row].rjust(size) for cell, size in zip(cells, widths, strict=True)),
            ]
        )
        for row, name in enumerate(names)
    ]


def _fit(name: str, width: int, *, keep_end: bool) -> str:
    if len(name) <= width:
        return name.ljust(width)
    return f"…{name[1 - width :]}" if keep_end else f"{name[: width - 1]}…"


def bars(days: Sequence[UsageRow], width: int, *, colour: bool, encoding: str | None) -> list[str]:
    """A bar of the tokens of each of the last days, those without any included."""
    by_day = {row.name: row.counts for row in days}
    shown = _last_days(list(by_day))
    facts = {day: _facts(by_day[day]) if day in by_day else "" for day in shown}
    tokens = {day: by_day[day].input + by_day[day].output if day in by_day else 0 for day in shown}
    most = max(tokens.values(), default=0)
    room = width - 12 - max(map(len, facts.values()), default=0) - len(_GAP)
    lines: list[str] = []
    for day in shown:
        bar = _bar(tokens[day] / most if most else 0, max(room, MIN_BAR), encoding)
        bar = f"{_TEAL}{bar}{_PLAIN}" if colour and bar else bar
        lines.append(f"{day}{_GAP}{bar}{_GAP if bar else ''}{facts[day]}".rstrip())
    earlier = [day for day in by_day if day not in facts]
    return [*lines, f"and {len(earlier):,} earlier: --by day lists them"] if earlier else lines


def _last_days(known: list[str]) -> list[str]:
    """The last day with any use and the month before it; days that are none last."""
    dates = [date.fromisoformat(day) for day in known if day[:1].isdigit()]
    unknown = [day for day in known if not day[:1].isdigit()]
    if not dates:
        return unknown
    last = max(dates)
    count = max((last - day).days for day in dates if (last - day).days < SHOWN_DAYS) + 1
    return [(last - timedelta(days=back)).isoformat() for back in reversed(range(count))] + unknown


def _facts(counts: Counts) -> str:
    cost = _cost(counts)
    return short_number(counts.input + counts.output) + (f" · {cost}" if cost != NONE else "")


def _bar(share: float, width: int, encoding: str | None) -> str:
    """At least a sign for anything above 0."""
    eighths = max(round(share * width * 8), 1 if share else 0)
    full, rest = divmod(eighths, 8)
    bar = _BLOCK * full + _EIGHTHS[rest].strip()
    try:
        bar.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#" * max(full, 1 if eighths else 0)
    return bar
