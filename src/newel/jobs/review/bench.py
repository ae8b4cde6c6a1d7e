"""What review jobs work with."""

from __future__ import annotations

from typing import NamedTuple

from newel.agent.ports import Provider, RunConfig
from newel.jobs.engine import Engine
from newel.jobs.review.limits import ReviewLimits
from newel.jobs.review.traced import Traces
from newel.permissions.places import Places
from newel.review.checkpoints import Checkpoints
from newel.review.saving import Saver
from newel.review.store import Ledger
from newel.workspace.watching import WatchedWorkspace


class Bench(NamedTuple):
    """The parts of a desk. ``config`` says what a run of the loop needs besides tools, limits and a system prompt. With
    ``traces`` the engine is the one that leaves them (``newel.jobs.review.traced.TracedEngine``). ``places`` judges which files
    the tools of jobs may open.
    """

    engine: Engine
    ledger: Ledger
    workspace: WatchedWorkspace
    saver: Saver
    checkpoints: Checkpoints
    provider: Provider
    config: RunConfig
    limits: ReviewLimits
    traces: Traces | None = None
    places: Places | None = None
