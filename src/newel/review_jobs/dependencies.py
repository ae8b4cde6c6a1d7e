"""What review jobs work with."""

from __future__ import annotations

from typing import NamedTuple

from newel.agent.ports import Provider, RunConfig
from newel.jobs.engine import Engine
from newel.permissions.secret_paths import SecretPaths
from newel.review.checkpoints import Checkpoints
from newel.review.save import DiskSync
from newel.review.store.ledger import Ledger
from newel.review_jobs.limits import ReviewLimits
from newel.review_jobs.tracing_engine import Traces
from newel.workspace.tracked import TrackedWorkspace


class ReviewDependencies(NamedTuple):
    """The parts of a desk. ``config`` says what a run of the loop needs besides tools, limits and a system prompt. With
    ``traces`` the engine is the one that leaves them (``newel.review_jobs.tracing_engine.TracedEngine``). ``places`` judges which files
    the tools of jobs may open.
    """

    engine: Engine
    ledger: Ledger
    workspace: TrackedWorkspace
    saver: DiskSync
    checkpoints: Checkpoints
    provider: Provider
    config: RunConfig
    limits: ReviewLimits
    traces: Traces | None = None
    places: SecretPaths | None = None
