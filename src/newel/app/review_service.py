"""The review desk of a workbench: on the ledger that its agents' changes are recorded in, and with their model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newel.app.workbench_agents import WorkbenchAgentFactory
    from newel.config.settings import Settings
    from newel.jobs.engine import Engine
    from newel.review_jobs.dependencies import ReviewLimits
    from newel.review_jobs.service import ReviewService


async def open_desk(
    settings: Settings, crew: WorkbenchAgentFactory, engine: Engine, limits: ReviewLimits, *, ephemeral: bool
) -> ReviewService:
    """To be called before a worker takes jobs of ``engine``. The ledger is the crew's to close. Raises ``LedgerError`` and
    ``EngineError``.
    """
    from newel.agent.ports import RunConfig
    from newel.agent.transform import Transformer
    from newel.app.workspace_factory import project_secret_paths
    from newel.review_jobs.dependencies import ReviewDependencies
    from newel.review_jobs.service import ReviewService
    from newel.review_jobs.traces import Traces
    from newel.review_jobs.tracing_engine import TracedEngine
    from newel.workspace.process.runner import OutputLimits

    own = crew.ground.workspace(crew.ground.name, OutputLimits())
    project = (await crew.recorders.of(own)).project
    traces = (
        None if ephemeral else Traces(engine, settings.home / "traces", project.workspace.name, crew.secrets)
    )
    return await ReviewService.open(
        ReviewDependencies(
            engine=TracedEngine(engine, traces) if traces else engine,
            ledger=project.ledger,
            workspace=project.workspace,
            saver=project.saver,
            checkpoints=project.checkpoints,
            provider=crew.provider,
            config=RunConfig(model=crew.in_use.model, transform=Transformer(), thinking=settings.thinking),
            limits=limits,
            traces=traces,
            places=project_secret_paths(settings, crew.ground, project.workspace.root),
        )
    )
