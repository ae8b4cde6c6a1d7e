"""Composes the control of a fleet: what is submitted, and what the jobs have come to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.fleet.job import FLEET_CONTRACT, FleetJob
from newel.fleet.matrix import Row, check_names, with_values
from newel.runs.models import Contract
from newel.text.json import to_json

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.fleet.engine import FleetEngine
    from newel.jobs.placement import Placement


class NoSuchJob(NewelError):
    """No fleet or job, or more than one, has an id that begins so."""


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run: each contract for each row, in a clone of ``repo``, or in a copy of ``folder``."""

    contracts: Sequence[Contract]
    rows: Sequence[Row] = ({},)
    repo: str = ""
    ref: str = ""
    folder: Path | None = None
    labels: Sequence[str] = ()


async def submit_fleet(settings: Settings, engine: FleetEngine, plan: FleetPlan) -> tuple[str, list[str]]:
    """Submit the jobs; returns the id of the fleet and those of the jobs. Raises ``UsageError``, ``EngineError``, and ``NewelError`` if the
    folder cannot be stored.
    """
    check_names(plan.contracts, plan.rows)
    contracts = [(with_values(contract, row), row) for contract in plan.contracts for row in plan.rows]
    fleet = new_id()[:8]
    start = "" if plan.folder is None else await _store_start(settings, fleet, plan.folder)
    jobs: list[str] = []
    for number, (contract, row) in enumerate(contracts, 1):
        job = FleetJob(
            fleet=fleet,
            number=number,
            contract=contract,
            session=new_id(),
            repo=plan.repo,
            ref=plan.ref,
            start=start,
            values=dict(row),
            labels=list(plan.labels),
            approve=settings.approve,
        )
        params = to_json(job)
        jobs.append(
            await engine.submit(FLEET_CONTRACT, params, queue=job.session, key=job.key, labels=job.labels)
        )
    return fleet, jobs


async def find_jobs(engine: FleetEngine, name: str) -> list[Placement]:
    """The jobs of a fleet, or one job, by the beginning of its id. Raises ``NoSuchJob``."""
    placements = await engine.jobs_of("")
    of_fleets = [each for each in placements if params_of(each).fleet.startswith(name)]
    if of_fleets and len({params_of(each).fleet for each in of_fleets}) == 1:
        return of_fleets
    found = [each for each in placements if each.job.id.startswith(name)]
    if len(found) != 1:
        what = "No fleet and no job has" if not (found or of_fleets) else "Several have"
        raise NoSuchJob(f"{what} an id that begins with {name!r}. `newel fleet status` lists them.")
    return found


def params_of(placement: Placement) -> FleetJob:
    return msgspec.json.decode(placement.job.params, type=FleetJob)


async def _store_start(settings: Settings, fleet: str, folder: Path) -> str:
    """Store the folder as the jobs begin with it; returns the reference of the snapshot."""
    from newel.fleet.job_folder import JobFolders
    from newel.fleet.store import open_store

    folders = JobFolders(settings.home / "fleet" / "jobs", open_store(settings.fleet.find_store(os.environ)))
    return await folders.store_start(fleet, folder)
