"""What models and tools have used, added up by model, project, day or tool."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal

import msgspec

from newel.agent.messages import Usage, Wire, add_costs
from newel.text.sanitize import plain_line

By = Literal["model", "project", "day", "tool"]

UNKNOWN: Final = "(unknown)"
OTHERS: Final = "(others)"
MAX_CELLS: Final = 20_000
"""Combinations of a row and a day that are counted separately. It bounds the memory, whatever files claim."""
MAX_NAME: Final = 400
"""Characters of a row's name."""
MAX_PROBLEMS: Final = 100


class Counts(msgspec.Struct, rename="camel"):
    """``runs`` are the user's messages that a model answered, ``requests`` those to models. ``input`` are all tokens of prompts, those
    ``cached`` included. ``cost`` in US dollars is the sum of the known ones, None if none is known: ``unpriced`` requests have no known
    price, and of ``uncounted`` ones the server did not report the tokens. Times are in milliseconds; the model's is that of ``timed``
    requests, as sessions of earlier versions and judges of contracts do not have it.
    """

    runs: int = 0
    requests: int = 0
    input: int = 0
    cached: int = 0
    cache_written: int = 0
    output: int = 0
    cost: float | None = None
    unpriced: int = 0
    uncounted: int = 0
    timed: int = 0
    model_time: int = 0
    calls: int = 0
    failed: int = 0
    tool_time: int = 0

    def add(self, other: Counts) -> None:
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cost = add_costs(self.cost, other.cost)


_ADDED: Final = tuple(name for name in Counts.__struct_fields__ if name != "cost")


class RequestUsage(msgspec.Struct, frozen=True):
    """What a request used; ``duration`` in milliseconds is None if it was not recorded."""

    usage: Usage
    cost: float | None
    duration: int | None


class UsageRow(Wire, frozen=True):
    """``name`` is that of a model, a project, a day (``2026-11-01``) or a tool."""

    name: str
    counts: Counts


class UsageReport(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """``since`` is the first day, empty for all. ``days`` are those with any use, in order; ``rows`` those ``by`` name, the most used
    first. ``unpriced`` are the models whose price is unknown, with their requests. ``problems`` name the files that were left out, and why.
    """

    since: str
    by: By
    project: str | None
    sessions: int
    total: Counts
    rows: list[UsageRow]
    days: list[UsageRow]
    unpriced: dict[str, int]
    problems: list[str]


class UsageQuery(msgspec.Struct, frozen=True):
    """Which use is added up: of this ``project`` or all, from the local day ``since`` on."""

    by: By = "model"
    since: str = ""
    project: str | None = None


class Tally:
    """Adds up what sources count. ``sources`` name the project of what follows with ``begin``."""

    def __init__(self, query: UsageQuery) -> None:
        self.query = query
        self.sessions = 0
        self._cells: dict[tuple[str, str], Counts] = {}
        self._unpriced: dict[str, int] = {}
        self._problems: list[str] = []
        self._more_problems = 0

    def add_problem(self, text: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(text)
        else:
            self._more_problems += 1

    def wants(self, timestamp: str) -> bool:
        return not self.query.since or local_day(timestamp) >= self.query.since

    def count_run(self, project: str, model: str, timestamp: str) -> None:
        self._cell(project, model, "", timestamp).runs += 1

    def count_request(self, project: str, model: str, timestamp: str, used: RequestUsage) -> None:
        """Count a request to a model."""
        usage, cost, duration = used.usage, used.cost, used.duration
        cell = self._cell(project, model, "", timestamp)
        cell.requests += 1
        cell.input += max(usage.input, 0)
        cell.cached += max(usage.cache_read, 0)
        cell.cache_written += max(usage.cache_write, 0)
        cell.output += max(usage.output, 0)
        if duration is not None:
            cell.timed += 1
            cell.model_time += max(duration, 0)
        if cost is not None:
            cell.cost = (cell.cost or 0.0) + max(cost, 0.0)
        elif usage.total:
            cell.unpriced += 1
            name = _bounded(model)
            if name in self._unpriced or len(self._unpriced) < MAX_PROBLEMS:
                self._unpriced[name] = self._unpriced.get(name, 0) + 1

    def count_without_usage(self, project: str, model: str, timestamp: str) -> None:
        """Note that the server of a complete response reported no tokens."""
        self._cell(project, model, "", timestamp).uncounted += 1

    def count_call(
        self, project: str, model: str, tool: str, timestamp: str, *, failed: bool, duration: int
    ) -> None:
        cell = self._cell(project, model, tool, timestamp)
        cell.calls += 1
        cell.failed += failed
        cell.tool_time += max(duration, 0)

    def report(self) -> UsageReport:
        rows: dict[str, Counts] = {}
        days: dict[str, Counts] = {}
        total = Counts()
        for (name, day), counts in self._cells.items():
            total.add(counts)
            days.setdefault(day, Counts()).add(counts)
            if name:
                rows.setdefault(name, Counts()).add(counts)
        more = [f"{self._more_problems:,} more"] if self._more_problems else []
        return UsageReport(
            since=self.query.since,
            by=self.query.by,
            project=self.query.project,
            sessions=self.sessions,
            total=total,
            rows=_sorted(rows.items(), self.query.by),
            days=[UsageRow(day, counts) for day, counts in sorted(days.items())],
            unpriced=self._unpriced,
            problems=[*self._problems, *more],
        )

    def _cell(self, project: str, model: str, tool: str, timestamp: str) -> Counts:
        day = local_day(timestamp)
        name = {"model": model, "project": project, "day": day, "tool": tool}[self.query.by]
        key = (_bounded(name) if name or self.query.by == "tool" else UNKNOWN, day)
        cell = self._cells.get(key)
        if cell is None:
            if len(self._cells) >= MAX_CELLS:
                key = (OTHERS, UNKNOWN)
                cell = self._cells.get(key)
            if cell is None:
                cell = self._cells[key] = Counts()
        return cell


def _sorted(rows: Iterable[tuple[str, Counts]], by: By) -> list[UsageRow]:
    listed = [UsageRow(name, counts) for name, counts in rows]
    if by == "day":
        return sorted(listed, key=lambda row: row.name)
    return sorted(
        listed, key=lambda row: (-row.counts.input - row.counts.output, -row.counts.calls, row.name)
    )


@lru_cache(maxsize=4096)
def _bounded(name: str) -> str:
    return plain_line(name, MAX_NAME)


def local_day(timestamp: str) -> str:
    """The day of a time in ISO 8601 here, ``2026-11-01``; ``(unknown)`` for anything else."""
    return _day_of_minute(timestamp[:16])


@lru_cache(maxsize=4096)
def _day_of_minute(minute: str) -> str:
    try:
        at = datetime.fromisoformat(minute)
        return at.replace(tzinfo=UTC).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
