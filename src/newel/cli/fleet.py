"""``newel fleet``: contracts on the workers of many machines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from newel.agent.errors import UsageError
from newel.cli.agents import add_contract_limits, contract_of
from newel.cli.fleet_lists import (
    MAX_FLEETS,
    MAX_JOBS,
    SHORT_ID,
    describe_counts,
    describe_job,
    list_fleets,
    list_jobs,
    list_workers,
)
from newel.cli.fleet_removal import add_delete, add_prune, delete_jobs, prune_jobs
from newel.cli.options import Parser, flags_of, folder, positive, positive_int
from newel.config.settings import Settings, load_settings
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.fleet.engine import FleetEngine
    from newel.runs.models import Contract
    from newel.runs.run_events import RunEvent

DONE, FAILED = 0, 1
POLL_S = 1.0

CANCELLED = "cancelled by `newel fleet cancel`"


def command_fleet(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.action is None:
        parser.error(
            "name an action: run, list, status, log, review, cancel, delete, prune, drain or workers"
        )
    settings = load_settings(
        flags_of(options),
        cwd=folder(parser, getattr(options, "cwd", None)),
        environ=os.environ,
    )
    action: Callable[[Settings, FleetEngine, argparse.Namespace], Awaitable[int]] = _ACTIONS[options.action]
    return anyio.run(_with_engine, action, settings, options)


async def _with_engine(
    action: Callable[[Settings, FleetEngine, argparse.Namespace], Awaitable[int]],
    settings: Settings,
    options: argparse.Namespace,
) -> int:
    from newel.app.fleet_worker import open_fleet

    async with open_fleet(settings) as engine:
        return await action(settings, engine, options)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="newel fleet",
        description="Run contracts on the workers of many machines. See `newel agent` for one on this machine.",
        epilog="The database is NEWEL_ENGINE or [engine] url, the store of folders NEWEL_FLEET_STORE or [fleet] store.\n"
        "exit codes: 0 success, 1 failed, 2 wrong usage; `run --wait` and `log -f`: 0 if every contract was completed",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    _add_run(actions.add_parser("run", help="submit contracts"))
    for name, help_line in (
        ("status", "list the jobs: their state, worker and reason"),
        ("log", "show the events of a job"),
        ("review", "propose the changes of a job, or of all jobs of a fleet, in this folder, hunk by hunk"),
        ("cancel", "cancel a job, or all jobs of a fleet or of an evaluation"),
    ):
        sub = actions.add_parser(name, help=help_line)
        sub.add_argument(
            "id",
            metavar="ID",
            nargs="?" if name == "status" else None,
            help="the beginning of the id of a fleet or a job"
            + (", or of an evaluation" if name in {"status", "cancel"} else ""),
        )
        if name == "status":
            _add_listing(sub, "job", "newest jobs", f"{MAX_JOBS}, and all with --json")
            sub.add_argument(
                "--state",
                action="append",
                metavar="STATE",
                help="only jobs in this state, such as running, failed or completed; repeat it for several",
            )
        if name == "log":
            sub.add_argument("-f", "--follow", action="store_true", help="follow it to its end")
    _add_listing(
        actions.add_parser("list", help="list the fleets, and how many of their jobs are in which state"),
        "fleet",
        "newest fleets",
        f"{MAX_FLEETS}",
    )
    add_delete(actions.add_parser("delete", help="delete jobs that have ended, with their logs and folders"))
    add_prune(
        actions.add_parser(
            "prune", help="delete all jobs that ended long ago, and what is left of them in the store"
        )
    )
    drain = actions.add_parser("drain", help="let a worker end with the jobs that it has")
    drain.add_argument("worker", metavar="WORKER", help="its name, as `newel fleet workers` shows it")
    actions.add_parser("workers", help="list the workers")
    return parser


def _add_listing(parser: argparse.ArgumentParser, what: str, newest: str, default: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print one JSON object per {what}")
    parser.add_argument(
        "--limit", type=positive_int, metavar="N", help=f"show the N {newest} (default: {default})"
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("contracts", nargs="+", metavar="CONTRACT", help="a goal, quoted; @FILE reads one from a file")
    add_contract_limits(parser)
    add(
        "--repo",
        metavar="URL",
        help="clone this repository on the worker, from https:// or ssh:// (default: begin with a copy of this folder)",
    )
    add(
        "--ref",
        metavar="REF",
        default="",
        help="with --repo, the branch, tag or commit (default: the repository's own)",
    )
    add(
        "--matrix",
        metavar="FILE",
        type=Path,
        help="run each contract for each row of a .csv, .json or .toml file, which {{name}} inserts",
    )
    add(
        "--label",
        action="append",
        default=[],
        metavar="LABEL",
        help="run only on workers with this label; repeat it for several",
    )
    add(
        "--fleet-max-cost",
        type=positive,
        metavar="USD",
        help="spend at most this many US dollars on all jobs together",
    )
    add(
        "--fleet-max-tokens",
        type=positive_int,
        metavar="N",
        help="use at most N tokens for all jobs together",
    )
    add(
        "--approve",
        choices=["auto", "plan", "read-only"],
        help="what runs: every call (auto, the default), or only what changes nothing; no user is there to ask",
    )
    add("--wait", action="store_true", help="wait until all jobs have ended, and print their states")
    add("--cwd", metavar="DIR", help="begin with a copy of this folder")


# -- run ---------------------------------------------------------------------------------------------


async def _run(settings: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import FleetPlan, submit_fleet
    from newel.fleet.matrix import load_matrix

    if options.ref and not options.repo:
        raise UsageError("--ref names a commit of a repository: give --repo, too.")
    plan = FleetPlan(
        contracts=[_contract(text, options) for text in options.contracts],
        rows=load_matrix(options.matrix) if options.matrix else [{}],
        repo=options.repo or "",
        ref=options.ref,
        folder=None if options.repo else _whole_folder(settings.cwd),
        labels=options.label,
        approve=options.approve or "auto",
        max_cost=options.fleet_max_cost,
        max_tokens=options.fleet_max_tokens,
    )
    submitted = await submit_fleet(settings, engine, plan)
    fleet, jobs = submitted.fleet, submitted.jobs
    for line in submitted.missing:
        print(f"newel: Left out of the jobs: {sanitize(line)}", file=sys.stderr)
    count = "1 job" if len(jobs) == 1 else f"{len(jobs):,} jobs"
    print(f"Fleet {fleet}: {count} submitted. Follow them with `newel fleet status {fleet}`.")
    return await _wait(engine, fleet) if options.wait else DONE


def _whole_folder(cwd: Path) -> Path:
    """The folder that jobs begin with; raises ``UsageError`` for a part of a repository, whose rules about ignored files are above it."""
    from newel.workspace.git import find_repository

    folder = cwd.resolve()
    top = find_repository(str(folder))
    if top is not None and top != str(folder):
        raise UsageError(
            f"{cwd} is a part of the repository {top}. Jobs begin with all of it: run this there, or with --cwd."
        )
    return folder


def _contract(text: str, options: argparse.Namespace) -> Contract:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"The contract {text[1:]} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"The contract {text[1:]} is not UTF-8 text.") from error
    return contract_of(text, options)


async def _wait(engine: FleetEngine, fleet: str) -> int:
    """Print how many jobs are in which state, at each change, until all have ended."""
    from newel.fleet.job import FLEET_CONTRACT
    from newel.jobs.engine import LIVE

    shown = ""
    while found := await engine.fleets.list(kind=FLEET_CONTRACT, prefix=fleet, limit=1):
        summary = found[0]
        now = describe_counts(summary.states)
        if now != shown:
            print(now, flush=True)
            shown = now
        if not summary.states.keys() & set(LIVE):
            for each in await engine.fleets.jobs(fleet):
                print(describe_job(each))
            return DONE if summary.states.keys() == {"completed"} else FAILED
        await anyio.sleep(POLL_S)
    print(f"newel: Fleet {fleet} was deleted.", file=sys.stderr)
    return FAILED


# -- log and review ----------------------------------------------------------------------------------


async def _log(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_job
    from newel.runs.run_events import ContractState
    from newel.terminal.renderers.contract import ContractRenderer
    from newel.terminal.stdout import text_stdout

    placement = await find_job(engine, options.id)
    screen, state = ContractRenderer(text_stdout()), ""
    async with aclosing(_events(engine, placement.job.id, follow=options.follow)) as events:
        async for event in events:
            if isinstance(event, ContractState):
                state = event.state
            screen.handle(event)
    screen.close()
    return FAILED if options.follow and state != "completed" else DONE


async def _events(engine: FleetEngine, job: str, *, follow: bool) -> AsyncGenerator[RunEvent]:
    from newel.jobs.engine import FINAL
    from newel.runs.run_events import decode

    seq = 0
    while True:
        page = await engine.read(job, seq, wait=POLL_S if follow else 0.0)
        for entry in page:
            seq = entry.seq
            yield decode(entry.data)
        if not page:
            found = await engine.get(job) if follow else None
            if found is None or (found.state in FINAL and found.seq <= seq):
                return


async def _review(settings: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_jobs
    from newel.app.fleet_changes import JobNotEnded, propose_job
    from newel.fleet.proposals import AlreadyProposed

    jobs = await find_jobs(engine, options.id)
    for each in jobs:
        try:
            notices = await propose_job(settings, engine, each)
        except (JobNotEnded, AlreadyProposed) as error:
            if len(jobs) == 1:
                raise
            notices = [str(error)]
        for notice in notices:
            print(sanitize(notice if len(jobs) == 1 else f"{each.job.id[:SHORT_ID]}  {notice}"))
    return DONE


# -- cancel and drain -----------------------------------------------------------------------


async def _cancel(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_jobs
    from newel.app.fleet_eval_run import find_eval_run
    from newel.jobs.engine import FINAL

    run = await find_eval_run(engine, options.id)
    placements = await engine.fleets.jobs(run.id) if run else await find_jobs(engine, options.id)
    jobs = [each.job for each in placements]
    cancelled = [job for job in jobs if job.state not in FINAL and await engine.cancel(job.id, CANCELLED)]
    ended = len(jobs) - len(cancelled)
    print(f"{len(cancelled)} cancelled." + (f" {ended} had ended before." if ended else ""))
    return DONE


async def _drain(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    if not await engine.drain(options.worker):
        print(
            f"newel: There is no worker {sanitize(options.worker)}. `newel fleet workers` lists them.",
            file=sys.stderr,
        )
        return FAILED
    print(f"{options.worker} claims no more jobs, and ends with those that it has.")
    return DONE


_ACTIONS = {
    "run": _run,
    "list": list_fleets,
    "status": list_jobs,
    "log": _log,
    "review": _review,
    "cancel": _cancel,
    "delete": delete_jobs,
    "prune": prune_jobs,
    "drain": _drain,
    "workers": list_workers,
}
