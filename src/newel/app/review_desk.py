"""The review desk of a workbench: on the ledger that its agents' changes are recorded in, and with their model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newel.app.crew import AppCrew
    from newel.config import Settings
    from newel.jobs.engine import Engine
    from newel.jobs.review.desk import ReviewDesk
    from newel.jobs.review.limits import ReviewLimits


async def open_desk(
    settings: Settings, crew: AppCrew, engine: Engine, limits: ReviewLimits, *, ephemeral: bool
) -> ReviewDesk:
    """To be called before a worker takes jobs of ``engine``. The ledger is the crew's to close. Raises ``LedgerError`` and
    ``EngineError``.
    """
    from newel.agent.ports import RunConfig
    from newel.agent.transform import Transformer
    from newel.app.boundaries import judge_of
    from newel.jobs.review.bench import Bench
    from newel.jobs.review.desk import ReviewDesk
    from newel.jobs.review.traced import TracedEngine, Traces
    from newel.workspace.process import Limits

    own = crew.ground.workspace(crew.ground.name, Limits())
    project = (await crew.recorders.of(own)).project
    traces = (
        None if ephemeral else Traces(engine, settings.home / "traces", project.workspace.name, crew.secrets)
    )
    return await ReviewDesk.open(
        Bench(
            engine=TracedEngine(engine, traces) if traces else engine,
            ledger=project.ledger,
            workspace=project.workspace,
            saver=project.saver,
            checkpoints=project.checkpoints,
            provider=crew.provider,
            config=RunConfig(model=crew.in_use.model, transform=Transformer(), thinking=settings.thinking),
            limits=limits,
            traces=traces,
            places=judge_of(settings, crew.ground, project.workspace.root),
        )
    )
