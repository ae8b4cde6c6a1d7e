"""Composes the control of a fleet: what is submitted, and what the jobs have come to."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.errors import NewelError, UsageError
from newel.agent.messages import new_id
from newel.fleet.job import FLEET_CONTRACT, FleetJob, read_job
from newel.fleet.matrix import Row, check_names, with_values
from newel.jobs.placement import FleetSummary, Placement
from newel.permissions.approval import ApprovalMode
from newel.runs.models import Contract
from newel.text.json import to_json

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.fleet.engine import FleetEngine

_ID: Final = re.compile(r"[A-Za-z0-9_-]+")


class NoSuchFleetJob(NewelError):
    """No fleet or job, or more than one, has an id that begins so."""


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run: each contract for each row, in a clone of ``repo``, or in a copy of ``folder``. ``max_cost`` and ``max_tokens``
    are limits of all jobs together.
    """

    contracts: Sequence[Contract]
    rows: Sequence[Row] = ({},)
    repo: str = ""
    ref: str = ""
    folder: Path | None = None
    labels: Sequence[str] = ()
    approve: ApprovalMode = "auto"
    max_cost: float | None = None
    max_tokens: int | None = None


class SubmittedFleet(msgspec.Struct, frozen=True):
    """``missing`` tells what of the user's folder the jobs do not have."""

    fleet: str
    jobs: Sequence[str]
    missing: Sequence[str]


async def submit_fleet(settings: Settings, engine: FleetEngine, plan: FleetPlan) -> SubmittedFleet:
    """Submit the jobs. Raises ``UsageError``, ``EngineError``, and ``NewelError`` if the
    folder cannot be stored.
    """
    check_names(plan.contracts, plan.rows)
    contracts = [(with_values(contract, row), row) for contract in plan.contracts for row in plan.rows]
    fleet = new_id()[:8]
    await engine.fleets.begin(fleet, FLEET_CONTRACT, len(contracts))
    start, missing = (
        ("", list[str]()) if plan.folder is None else await _store_start(settings, fleet, plan.folder)
    )
    if plan.max_cost is not None or plan.max_tokens is not None:
        await engine.budgets.set(fleet, max_cost=plan.max_cost, max_tokens=plan.max_tokens)
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
            approve=plan.approve,
        )
        params = to_json(job)
        jobs.append(
            await engine.submit(FLEET_CONTRACT, params, queue=job.session, key=job.key, labels=job.labels)
        )
    return SubmittedFleet(fleet, jobs, missing)


async def find_fleet_or_job(engine: FleetEngine, name: str) -> FleetSummary | Placement:
    """A fleet by its id, or the only fleet or job whose id begins so. Raises ``NoSuchFleetJob``."""
    fleets = jobs = ()
    if _ID.fullmatch(name):
        fleets = await engine.fleets.list(kind=FLEET_CONTRACT, prefix=name, limit=2)
        jobs = await engine.fleets.find_jobs(name, kind=FLEET_CONTRACT)
    exact = [fleet for fleet in fleets if fleet.id == name]
    found = exact or [*fleets, *jobs]
    if len(found) != 1:
        what = "Several have" if found else "No fleet and no job has"
        raise NoSuchFleetJob(
            f"{what} an id that begins with {name!r}. `newel fleet list` and `newel fleet status` show them."
        )
    return found[0]


async def find_jobs(engine: FleetEngine, name: str) -> list[Placement]:
    """The jobs of a fleet, the oldest first, or one job. Raises ``NoSuchFleetJob``."""
    found = await find_fleet_or_job(engine, name)
    return [found] if isinstance(found, Placement) else await engine.fleets.jobs(found.id)


async def find_job(engine: FleetEngine, name: str) -> Placement:
    """One job by the beginning of its id, or that of a fleet that has no other. Raises ``NoSuchFleetJob``, and ``UsageError`` for a fleet
    of several.
    """
    jobs = await find_jobs(engine, name)
    if len(jobs) > 1:
        raise UsageError(
            f"{name} is a fleet of {len(jobs):,} jobs. Give the id of one; `newel fleet status {name}` lists them."
        )
    return jobs[0]


def params_of(described: Placement | FleetSummary) -> FleetJob:
    """The contract of a job, or of the first job of a fleet, and where it begins."""
    params = described.params if isinstance(described, FleetSummary) else described.job.params
    return read_job(params)


async def _store_start(settings: Settings, fleet: str, folder: Path) -> tuple[str, list[str]]:
    """Store the folder as the jobs begin with it; returns the reference of the snapshot, and what is not in it."""
    from newel.fleet.folders import JobFolders, open_store
    from newel.permissions.secret_paths import SecretPaths

    root = str(folder)
    places = SecretPaths(
        root,
        project=root,
        home=str(Path.home()),
        newel=str(settings.home),
        environ=os.environ,
        rules=lambda: settings.rules,
    )
    folders = JobFolders(settings.home / "fleet" / "jobs", open_store(settings.fleet.find_store(os.environ)))
    return await folders.store_start(fleet, folder, lambda path: places.holds_secrets(f"{root}/{path}"))
