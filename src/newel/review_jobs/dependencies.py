"""What the review service is built from, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from newel.review.model.proposal import HunkSize
from newel.tools.review import ProjectLimits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from newel.agent.agent import Subscriber
    from newel.agent.ports import AgentMode, Model, Provider, RunConfig
    from newel.jobs.engine import Engine
    from newel.permissions.secret_paths import SecretPaths
    from newel.review.checkpoints import Checkpoints
    from newel.review.save import DiskSync
    from newel.review.store.ledger import Ledger
    from newel.review_jobs.traces import Traces
    from newel.workspace.tracked import TrackedWorkspace


class ReviewLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are in bytes of UTF-8. Users can set those named in ``newel.config.review_settings.ReviewSettings``. ``tools`` limits
    one call; ``hunks`` is the size up to which a hunk is shown whole; the others limit a job, a session, or all of them.
    """

    max_tool_calls_per_job: int = 12
    max_tool_calls_cap: int = 100
    """The most that a request may ask for."""
    max_schema_retries: int = 5
    max_sessions: int = 25
    max_jobs_per_session: int = 40
    max_events_per_job: int = 3000
    completed_ttl_hours: float = 72.0
    poll_interval_ms: int = 2000
    max_instruction_bytes: int = 256 << 10
    max_context_rows: int = 200
    max_context_bytes: int = 2 << 20
    max_splices: int = 1_000
    max_edit_bytes: int = 2 << 20
    tools: ProjectLimits = ProjectLimits()
    hunks: HunkSize = HunkSize()


class ReviewDependencies(NamedTuple):
    """``config`` is a run of the loop without tools, limits and system prompt. ``secret_paths`` decides which files the jobs'
    tools may open. Without ``traces`` none are written. ``find_model`` finds the model of a mode other than the one of
    ``config``. ``follow`` makes a subscriber for each run of a job, given its session and model.
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
    secret_paths: SecretPaths | None = None
    find_model: Callable[[AgentMode], Awaitable[Model]] | None = None
    follow: Callable[[str, Model], Subscriber] | None = None
