"""``newel stats``: the tokens, the cost and the time that models and tools have used."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Final, get_args

import anyio

from newel.agent.formatting import pluralize
from newel.cli.options import Parser
from newel.cli.stats_table import NONE, bars, table
from newel.config.settings import newel_home
from newel.session.usage.report import By, Counts, UsageQuery, UsageReport
from newel.text.format import format_cost, format_duration, join_names, short_folder, short_number
from newel.text.json import to_printable_json
from newel.text.sanitize import escape_line

_EPILOG: Final = (
    "A run is a message of yours that a model answered. It takes one request to a model, and another one after each round of tool calls. "
    "Summaries, subagents and the judge of a contract make requests, too."
)
_PERIOD: Final = re.compile(r"(\d{1,4})([dw])")
_IN_PIPES: Final = 160
"""Columns where there is no terminal: nothing is left out."""


def command_stats(arguments: Sequence[str]) -> int:
    from newel.app.usage import report_usage

    parser = Parser(
        prog="newel stats",
        description="Show what models and tools have used on this machine: tokens, cost, time, and calls that failed.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--by", choices=get_args(By), default="model", help="what a row is about (default: model)"
    )
    parser.add_argument(
        "--since",
        type=first_day,
        metavar="TIME",
        help="count from this day on (2026-11-01), or the last days or weeks with today (7d, 4w)",
    )
    parser.add_argument(
        "--project", metavar="FOLDER", help="count this project only, . for this folder (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    query = UsageQuery(by=options.by, since=options.since or "", project=_project(options))
    report = anyio.run(partial(report_usage, newel_home(os.environ), query))
    if options.json:
        print(to_printable_json(report))
        return 0
    for problem in report.problems:
        print(f"newel: {escape_line(problem)}", file=sys.stderr)
    _print(report)
    return 0


def first_day(text: str) -> str:
    """The first day of a period: a date, or so many days or weeks up to today."""
    if match := _PERIOD.fullmatch(text):
        days = int(match[1]) * (7 if match[2] == "w" else 1)
        if days:
            return (date.today() - timedelta(days=days - 1)).isoformat()  # noqa: DTZ011 — the user's day
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a date or a duration. Give a day (2026-11-01), or days or weeks (7d, 4w)"
        ) from None


def _project(options: argparse.Namespace) -> str | None:
    """A folder on this machine by its real path; anything else as it is, such as a folder on a host, or one that is gone."""
    if options.project is None:
        return None
    try:
        folder = Path(options.project).expanduser().resolve()
    except (RuntimeError, OSError):
        return str(options.project)
    return str(folder) if folder.is_dir() or not options.project.count(":") else str(options.project)


def _print(report: UsageReport) -> None:
    total = report.total
    where = escape_line(short_folder(report.project)) if report.project else "all projects"
    print(f"{f'since {report.since}' if report.since else 'since the beginning'}, {where}")
    if not (total.requests or total.calls):
        print("\nNothing is recorded here. --project and --since may leave out what there is.")
        return
    print()
    for label, words in _summary(report):
        print(f"{label:<8}{words}")
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else _IN_PIPES
    colour = is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    if report.rows:
        print()
        for line in table(report, width):
            print(line)
    if report.by != "day" and report.days:
        print("\ntokens a day")
        for line in bars(report.days, min(width, 100), colour=colour, encoding=sys.stdout.encoding):
            print(line)


def _summary(report: UsageReport) -> list[tuple[str, str]]:
    total = report.total
    sessions, runs = pluralize(report.sessions, "session"), pluralize(total.runs, "run")
    return [
        ("use", f"{sessions}, {runs} with {pluralize(total.requests, 'request')} to models"),
        ("tokens", _tokens(total)),
        ("cost", _cost(report)),
        ("time", _time(total)),
        ("tools", f"{pluralize(total.calls, 'call')}, {total.failed:,} failed"),
    ]


def _tokens(total: Counts) -> str:
    cached = f" ({total.cached / total.input:.0%} cached)".replace("%", " %") if total.input else ""
    words = f"{short_number(total.input)} in{cached} · {short_number(total.output)} out"
    if total.uncounted:
        words += f" · unknown for {pluralize(total.uncounted, 'request')}: the server reported none"
    return words


def _cost(report: UsageReport) -> str:
    total = report.total
    known = format_cost(total.cost) if total.cost is not None else ""
    if not total.unpriced:
        return known or NONE
    names = join_names(report.unpriced, shown=4)
    unknown = f"unknown price of {pluralize(total.unpriced, 'request')}: {names}"
    return f"{known}, and the {unknown}" if known else unknown


def _time(total: Counts) -> str:
    missing = total.requests - total.timed
    words = f"model {format_duration(total.model_time)} · tools {format_duration(total.tool_time)}"
    if missing:
        words += f" · not recorded for {pluralize(missing, 'request')}"
    return words
