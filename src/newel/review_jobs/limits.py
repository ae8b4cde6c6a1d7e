"""The limits of review jobs, in one place."""

from __future__ import annotations

import msgspec

from newel.review.model.proposal import HunkSize
from newel.tools.review import ProjectLimits


class ReviewLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are in bytes of UTF-8. Those of the names in ``newel.config.settings.ReviewSettings`` are the user's to set. ``tools`` are the
    limits of one call, ``hunks`` the size of a hunk that is shown whole; the others are of a job, a session, and of all of them.
    """

    max_tool_calls_per_job: int = 12
    max_tool_calls_cap: int = 100
    """What a request may raise that to."""
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
