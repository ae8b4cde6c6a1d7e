"""Composes a run of the evaluation suite on a fleet: its trials are made by workers."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from newel.agent.errors import UsageError

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.evals.run import RunPlan, TryTask
    from newel.fleet.engine import FleetEngine
    from newel.jobs.placement import FleetSummary


async def find_eval_run(engine: FleetEngine, name: str) -> FleetSummary | None:
    """The only run of an evaluation on this fleet whose id begins so; None if there is none. Raises ``UsageError`` for several."""
    from newel.fleet.eval_job import EVAL_TRIAL

    if "-" not in name:  # as the ids of other fleets and of jobs
        return None
    runs = await engine.fleets.list(kind=EVAL_TRIAL, prefix=name, limit=3)
    if len(runs) > 1:
        raise UsageError(
            f"Several evaluations have an id that begins with {name!r}: {', '.join(run.id for run in runs)}."
        )
    return runs[0] if runs else None


def check_fleet_settings(settings: Settings) -> None:
    """Raises ``UsageError`` for what workers could not do, and ``ConfigError`` if no database is set."""
    settings.engine.find_url(os.environ)
    if settings.agent_mode != "remote":
        raise UsageError(
            f"--fleet measures the model of the workers' server, and agent_mode is {settings.agent_mode}. Add `--agent-mode remote`, or leave out --fleet."
        )
    if not settings.model:
        raise UsageError("Name the model that the workers are to ask: `--fleet --model NAME`.")


@asynccontextmanager
async def open_fleet_trials(
    settings: Settings, plan: RunPlan, begin: Callable[[str], None], report: Callable[[str], None]
) -> AsyncGenerator[TryTask]:
    """What makes the trials of a plan on the workers of the settings' database. Raises ``ConfigError`` and ``EngineError``."""
    from newel.app.fleet_worker import open_fleet
    from newel.concurrency import background_tasks
    from newel.fleet.eval_trials import FleetTrials

    async with open_fleet(settings) as engine:
        trials = FleetTrials(engine, plan, begin, report)
        await trials.prepare()
        async with background_tasks(trials.watch):
            yield trials
