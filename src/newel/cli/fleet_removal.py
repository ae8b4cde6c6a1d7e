"""``newel fleet delete`` and ``newel fleet prune``: remove what has ended from the database and the store."""

from __future__ import annotations

import argparse
import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from newel.agent.errors import NewelError, UsageError
from newel.text.format import pluralize

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.fleet.engine import FleetEngine
    from newel.fleet.snapshot_store import SnapshotStore
    from newel.jobs.placement import Placement

_SECONDS: Final = {"h": 3600, "d": 86_400, "w": 604_800}
_CENTURY_S: Final = 36_500 * 86_400
_NOT_CONFIRMED: Final = 1


def add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="the beginning of the id of a fleet or a job")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def add_prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="how long ago they have ended: 12h, 30d, 8w (default: keep_days under [fleet]; without it, only leftovers are removed)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def age(text: str) -> int:
    """A time in seconds: hours, days or weeks."""
    match = re.fullmatch(r"([1-9][0-9]{0,3})([hdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration. Give hours, days or weeks: 12h, 30d, 8w"
        )
    return int(match[1]) * _SECONDS[match[2]]


async def delete_jobs(settings: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_jobs
    from newel.fleet.folders import open_store
    from newel.jobs.engine import FINAL

    store = open_store(settings.fleet.find_store(os.environ))
    found: dict[str, Placement] = {}
    for name in options.ids:
        jobs = await find_jobs(engine, name)
        live = sum(each.job.state not in FINAL for each in jobs)
        if live:
            have = "1 job of it has" if live == 1 else f"{live:,} jobs of it have"
            what = "It has" if len(jobs) == 1 else have
            raise UsageError(
                f"{name} cannot be deleted: {what} not ended. Cancel it first: `newel fleet cancel {name}`."
            )
        found.update((each.job.id, each) for each in jobs)
    count = pluralize(len(found), "job")
    question = (
        f"This deletes {count}, with logs, results and folders. What `newel fleet review` has proposed stays."
    )
    if not _is_confirmed(question, options):
        return _NOT_CONFIRMED
    done = await engine.retention.delete(list(found))
    return await _empty_store(engine, store, f"Deleted {pluralize(done, 'job')}.")


async def prune_jobs(settings: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.fleet.folders import open_store

    store = open_store(settings.fleet.find_store(os.environ))
    keep_days = settings.fleet.keep_days
    seconds = options.older_than or (_CENTURY_S if keep_days is None else keep_days * _SECONDS["d"])
    if count := await engine.retention.count_ended(seconds):
        question = f"This deletes {pluralize(count, 'job')} that ended more than {_words(seconds)} ago, with logs, results and folders."
        if not _is_confirmed(question, options):
            return _NOT_CONFIRMED
    done = await engine.retention.delete_ended(seconds)  # also what fleets without jobs have left
    return await _empty_store(engine, store, f"Deleted {pluralize(done, 'job')}.")


async def _empty_store(engine: FleetEngine, store: SnapshotStore, done: str) -> int:
    from newel.fleet.retention import empty_store

    try:
        await empty_store(engine.retention, store, partial(print, file=sys.stderr))
    except NewelError as error:
        raise NewelError(
            f"{done} Their folders are still in the store: {error} A worker removes them later, or `newel fleet prune`."
        ) from error
    print(done)
    return 0


def _is_confirmed(what: str, options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{what} Cannot ask for confirmation: not a terminal. --yes skips the question.")
    print(what)
    return input("Delete it? [y/N] ").strip().lower() in {"y", "yes"}


def _words(seconds: int) -> str:
    """The largest unit that is exact."""
    unit, name = ("d", "day") if seconds % _SECONDS["d"] == 0 else ("h", "hour")
    return pluralize(seconds // _SECONDS[unit], name)
