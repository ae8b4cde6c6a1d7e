"""The lists of ``newel fleet``: fleets, jobs and workers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from newel.text.format import one_line
from newel.text.json import to_printable_json

if TYPE_CHECKING:
    import argparse

    from newel.config.settings import Settings
    from newel.fleet.engine import FleetEngine
    from newel.jobs.placement import FleetSummary, Placement

MAX_FLEETS: Final = 20
MAX_JOBS: Final = 100
"""Entries of a list, without --limit."""
SHORT_ID: Final = 8


async def list_jobs(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import find_fleet_or_job
    from newel.app.fleet_eval_run import find_eval_run
    from newel.fleet.job import FLEET_CONTRACT
    from newel.jobs.placement import Placement

    if options.id and (run := await find_eval_run(engine, options.id)):
        print_eval_run(
            run, await engine.fleets.jobs(run.id, states=options.state or None), as_json=options.json
        )
        if not options.json:
            await _print_spending(engine, run.id)
        return 0
    found = await find_fleet_or_job(engine, options.id) if options.id else None
    if isinstance(found, Placement):
        _print_jobs([found], as_json=options.json)
        return 0
    if found and not options.json:
        print(f"Fleet {found.id}: {describe_counts(found.states)}.")
        await _print_spending(engine, found.id)
    fleet, states = found.id if found else None, options.state or None
    limit = options.limit or (None if options.json else MAX_JOBS)
    jobs = await engine.fleets.jobs(fleet, kind=FLEET_CONTRACT, states=states, limit=limit)
    _print_jobs(jobs, as_json=options.json)
    evaluations = 0
    if not (options.id or options.json):
        evaluations = await _print_eval_runs(engine)
    count = await engine.fleets.count_jobs(fleet, kind=FLEET_CONTRACT, states=states)
    if count > len(jobs):
        print(
            f"{count - len(jobs):,} older jobs are not shown: `--limit {count}` shows them.", file=sys.stderr
        )
    if not count and not evaluations and not options.json:
        print(
            "No job is in that state."
            if states
            else "No jobs have been submitted to this database. Submit one with `newel fleet run`."
        )
    return 0


async def _print_eval_runs(engine: FleetEngine) -> int:
    """Print the evaluations that have not ended; returns how many they are."""
    from newel.fleet.eval_job import EVAL_TRIAL
    from newel.jobs.engine import LIVE

    runs = [run for run in await engine.fleets.list(kind=EVAL_TRIAL) if run.states.keys() & set(LIVE)]
    for run in reversed(runs):
        print_eval_run(run, [], as_json=False)
    return len(runs)


def print_eval_run(run: FleetSummary, trials: Sequence[Placement], *, as_json: bool) -> None:
    """How many trials of an evaluation are in which state, and some of them."""
    from newel.fleet.eval_job import TrialName

    if not as_json:
        print(
            f"Evaluation {one_line(run.id, 40)}: {describe_counts(run.states)} of {run.total or '?'} trials."
        )
    for each in trials:
        job, name = each.job, msgspec.json.decode(each.job.params, type=TrialName)
        if as_json:
            described = {
                "id": job.id,
                "fleet": each.fleet,
                "task": name.task,
                "repeat": name.repeat,
                "state": each.state,
                "reason": job.reason,
                "worker": each.worker,
                "attempts": job.attempts,
            }
            print(to_printable_json(described))
            continue
        where = f"  on {one_line(each.worker, 60)}" if job.state == "running" else ""
        reason = f"\n{'':10}{one_line(job.reason)}" if job.reason else ""
        print(
            f"{job.id[:SHORT_ID]}  {one_line(each.state, 20):<9}  {one_line(name.task, 40)} ({name.repeat}){where}{reason}"
        )


def _print_jobs(jobs: Sequence[Placement], *, as_json: bool) -> None:
    from newel.app.fleet import params_of

    for each in jobs:
        if as_json:
            job = params_of(each)
            described = {
                "id": each.job.id,
                "fleet": each.fleet,
                "number": job.number,
                "state": each.state,
                "reason": each.job.reason,
                "worker": each.worker,
                "attempts": each.job.attempts,
                "events": each.job.seq,
                "values": job.values,
                "contract": job.contract.text,
            }
            print(to_printable_json(described))
        else:
            print(describe_job(each))


async def list_fleets(_: Settings, engine: FleetEngine, options: argparse.Namespace) -> int:
    from newel.app.fleet import params_of
    from newel.fleet.job import FLEET_CONTRACT

    fleets = await engine.fleets.list(kind=FLEET_CONTRACT, limit=options.limit or MAX_FLEETS)
    for each in reversed(fleets):
        text = params_of(each).contract.text
        if options.json:
            described = {
                "id": each.id,
                "submitted": each.submitted,
                "states": each.states,
                "total": each.total,
                "contract": text,
            }
            print(to_printable_json(described))
        else:
            print(
                f"{one_line(each.id, 20)}  {each.submitted[:16].replace('T', ' ')}  {describe_counts(each.states)}\n{'':10}{one_line(text, 100)}"
            )
    count = await engine.fleets.count(kind=FLEET_CONTRACT)
    if count > len(fleets):
        print(
            f"{count - len(fleets):,} older fleets are not shown: `--limit {count}` shows them.",
            file=sys.stderr,
        )
    if not count and not options.json:
        print("No jobs have been submitted to this database. Submit one with `newel fleet run`.")
    return 0


def describe_counts(states: Mapping[str, int]) -> str:
    """The numbers of jobs by state, for the user."""
    return ", ".join(f"{count:,} {one_line(state, 20)}" for state, count in sorted(states.items()))


async def _print_spending(engine: FleetEngine, fleet: str) -> None:
    spending = await engine.budgets.spending(fleet)
    if spending is not None:
        of_cost = "" if spending.max_cost is None else f" of ${spending.max_cost:g}"
        of_tokens = "" if spending.max_tokens is None else f" of {spending.max_tokens:,}"
        print(
            f"Fleet {fleet} has spent ${spending.cost:.2f}{of_cost} and {spending.tokens:,}{of_tokens} tokens."
        )


def describe_job(placement: Placement) -> str:
    from newel.app.fleet import params_of

    job, params = placement.job, params_of(placement)
    values = (
        f"({', '.join(f'{name}={value}' for name, value in params.values.items())})" if params.values else ""
    )
    line = f"{job.id[:SHORT_ID]}  {one_line(placement.fleet, 20)}  {one_line(placement.state, 20):<9}  {one_line(params.contract.text, 60)} {one_line(values, 60)}".rstrip()
    if job.state == "running" and placement.worker:
        line += f"\n{'':10}on {one_line(placement.worker, 80)}, attempt {job.attempts}"
    return f"{line}\n{'':10}{one_line(job.reason)}" if job.reason else line


async def list_workers(_: Settings, engine: FleetEngine, __: argparse.Namespace) -> int:
    workers = await engine.workers()
    if not workers:
        print("No worker has reported within the last day. `newel worker` starts one.")
    for each in workers:
        state = "silent" if not each.alive else "draining" if each.draining else "ready"
        labels = f"  {one_line(', '.join(each.labels))}" if each.labels else ""
        print(
            f"{one_line(each.name, 60)}  {state:<8}  {each.running}/{each.slots} slots  newel {one_line(each.version, 20)}{labels}"
        )
    return 0
