"""``newel fleet``: contracts on the workers of many machines."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from newel.agent.errors import UsageError
from newel.cli.agents import add_contract_limits, contract_of
from newel.cli.options import Parser, flags_of, folder, positive, positive_int
from newel.config.settings import Settings, load_settings
from newel.text.format import one_line
from newel.text.json import to_json
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.fleet.engine import FleetEngine
    from newel.jobs.engine import Job
    from newel.jobs.placement import Placement
    from newel.runs.models import Contract
    from newel.runs.run_events import RunEvent

DONE, FAILED = 0, 1
SHORT_ID = 8
POLL_S = 1.0

CANCELLED = "cancelled by `newel fleet cancel`"


def command_fleet(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.action is None:
        parser.error("name an action: run, status, log, review, cancel, drain or workers")
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
        ("review", "propose a job's changes in this folder, hunk by hunk"),
        ("cancel", "cancel a job, or all jobs of a fleet"),
    ):
        sub = actions.add_parser(name, help=help_line)
        sub.add_argument(
            "id",
            metavar="ID",
            nargs="?" if name == "status" else None,
            help="the beginning of the id of a fleet or a job",
        )
        if name == "status":
            sub.add_argument("--json", action="store_true", help="print one JSON object per job")
        if name == "log":
            sub.add_argument("-f", "--follow", action="store_true", help="follow it to its end")
    drain = actions.add_parser("drain", help="let a worker end with the jobs that it has")
    drain.add_argument("worker", metavar="WORKER", help="its name, as `newel fleet workers` shows it")
    actions.add_parser("workers", help="list the workers")
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("contracts", nargs="+", metavar="CONTRACT", help="a goal, quoted; @FILE reads one from a file")
    add_contract_limits(parser)
    add(
        "--repo",
        metavar="URL",
        help="clone this repository on the worker (default: begin with a copy of this folder)",
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
        print(f"newel: The jobs do not have {sanitize(line)}", file=sys.stderr)
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
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"The contract {text[1:]} cannot be read: {error}") from error
    return contract_of(text, options)


async def _wait(engine: FleetEngine, fleet: str) -> int:
    """Print how many jobs are in which state, at each change, until all have ended."""
    from newel.app.fleet import find_jobs
    from newel.jobs.engine import FINAL

    shown = ""
    while True:
        placements = await find_jobs(engine, fleet)
        states = Counter(each.job.state for each in placements)
        now = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        if now != shown:
            print(now, flush=True)
            shown = now
        if set(states) <= FINAL:
            states_of = [await _contract_state(engine, each.job) for each in placements]
            for each, state in zip(placements, states_of, strict=True):
                print(_line(each, state))
            return DONE if set(states_of) == {"completed"} else FAILED
        await anyio.sleep(POLL_S)


# -- status and log ----------------------------------------------------------------------------------


async def _status(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_jobs, params_of

    placements = await (find_jobs(engine, options.id) if options.id else engine.jobs_of("", limit=1000))
    if options.id and not options.json:
        await _print_spending(engine, params_of(placements[0]).fleet)
    if not placements:
        print("No jobs were submitted to this database yet. `newel fleet run` does it.")
    for each in placements:
        state = await _contract_state(engine, each.job)
        if options.json:
            job = params_of(each)
            print(
                to_json(
                    {
                        "id": each.job.id,
                        "fleet": job.fleet,
                        "number": job.number,
                        "state": state,
                        "reason": each.job.reason,
                        "worker": each.worker,
                        "attempts": each.job.attempts,
                        "events": each.job.seq,
                        "values": job.values,
                        "contract": job.contract.text,
                    }
                ).decode()
            )
        else:
            print(_line(each, state))
    return DONE


async def _print_spending(engine: FleetEngine, fleet: str) -> None:
    spending = await engine.budgets.spending(fleet)
    if spending is not None:
        of_cost = "" if spending.max_cost is None else f" of ${spending.max_cost:g}"
        of_tokens = "" if spending.max_tokens is None else f" of {spending.max_tokens:,}"
        print(
            f"Fleet {fleet} has spent ${spending.cost:.2f}{of_cost} and {spending.tokens:,}{of_tokens} tokens."
        )


def _line(placement: Placement, state: str) -> str:
    from newel.app.fleet import params_of

    job, params = placement.job, params_of(placement)
    values = (
        f" ({', '.join(f'{name}={value}' for name, value in params.values.items())})" if params.values else ""
    )
    line = f"{job.id[:SHORT_ID]}  {params.fleet}  {state:<9}  {one_line(params.contract.text, 60)}{one_line(values, 60)}"
    if job.state == "running" and placement.worker:
        line += f"\n{'':10}on {one_line(placement.worker, 80)}, attempt {job.attempts}"
    return f"{line}\n{'':10}{one_line(job.reason)}" if job.reason else line


async def _contract_state(engine: FleetEngine, job: Job) -> str:
    """That of the contract, once the job has ended: the job of a contract that stopped at a limit is done."""
    from newel.runs.run_events import ContractState, decode

    if job.state != "done" or not job.seq:
        return job.state
    (last,) = await engine.read(job.id, job.seq - 1, limit=1) or (None,)
    event = decode(last.data) if last is not None else None
    return event.state if isinstance(event, ContractState) else job.state


async def _log(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_jobs
    from newel.runs.run_events import ContractState
    from newel.terminal.renderers.contract import ContractRenderer
    from newel.terminal.stdout import text_stdout

    (placement,) = _one(await find_jobs(engine, options.id), options.id)
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
    from newel.app.fleet import find_jobs, propose_job

    (placement,) = _one(await find_jobs(engine, options.id), options.id)
    for notice in await propose_job(settings, engine, placement):
        print(sanitize(notice))
    return DONE


def _one(placements: Sequence[Placement], name: str) -> Sequence[Placement]:
    """The one job; raises ``UsageError`` for several."""
    if len(placements) > 1:
        raise UsageError(
            f"{name} is a fleet of {len(placements)} jobs. Give the id of one; `newel fleet status {name}` lists them."
        )
    return placements


# -- cancel, drain and workers -----------------------------------------------------------------------


async def _cancel(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_jobs

    placements = await find_jobs(engine, options.id)
    cancelled = [each for each in placements if await engine.cancel(each.job.id, CANCELLED)]
    ended = len(placements) - len(cancelled)
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


async def _workers(_: Settings, engine: FleetEngine, __: argparse.Namespace) -> int:
    workers = await engine.workers()
    if not workers:
        print("No worker was heard of within the last day. `newel worker` starts one.")
    for each in workers:
        state = "silent" if not each.alive else "draining" if each.draining else "ready"
        labels = f"  {one_line(', '.join(each.labels))}" if each.labels else ""
        print(
            f"{one_line(each.name, 60)}  {state:<8}  {each.running}/{each.slots} slots  newel {one_line(each.version, 20)}{labels}"
        )
    return DONE


_ACTIONS = {
    "run": _run,
    "status": _status,
    "log": _log,
    "review": _review,
    "cancel": _cancel,
    "drain": _drain,
    "workers": _workers,
}
