"""The limits of reviews, from the user's settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from newel.agent.errors import ConfigError

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.review.model.proposal import HunkSize
    from newel.review_jobs.dependencies import ReviewLimits
    from newel.workspace.mirror.mirror import MirrorLimits

HUNKS = {"max_hunk_lines": "lines", "max_hunk_bytes": "bytes"}
"""Fields of ``HunkSize`` by their settings."""
COPY = {"max_copy_files": "files", "max_copy_bytes": "size"}
"""Fields of ``MirrorLimits`` by their settings."""


def review_limits(settings: Settings) -> ReviewLimits:
    """The limits in force. An upper bound that cannot be configured is raised to its setting. Raises ``ConfigError`` if two
    settings contradict each other.
    """
    from newel.review_jobs.dependencies import ReviewLimits
    from newel.tools.review import ProjectLimits

    configured = _configured_limits(settings)
    _pop(configured, COPY)
    tools = ProjectLimits(**_pop(configured, ProjectLimits.__struct_fields__))
    if tools.max_search_results_default > tools.max_search_results_cap:
        raise ConfigError(
            f"max_search_results_default is {tools.max_search_results_default}, more than max_search_results_cap, which is "
            f"{tools.max_search_results_cap}. Change one of them in [review] or by NEWEL_REVIEW_*."
        )
    tools = msgspec.structs.replace(
        tools, max_read_bytes_cap=max(tools.max_read_bytes_cap, tools.max_read_bytes_default)
    )
    _pop(configured, HUNKS)
    limits = ReviewLimits(tools=tools, hunks=hunk_size(settings), **configured)
    cap = max(limits.max_tool_calls_cap, limits.max_tool_calls_per_job)
    return msgspec.structs.replace(limits, max_tool_calls_cap=cap)


def hunk_size(settings: Settings) -> HunkSize:
    """The size above which hunks are split."""
    from newel.review.model.proposal import HunkSize

    configured = _configured_limits(settings)
    return HunkSize(**{HUNKS[name]: value for name, value in _pop(configured, HUNKS).items()})


def copy_limits(settings: Settings) -> MirrorLimits:
    """The largest project that is copied for review mode."""
    from newel.workspace.mirror.mirror import MirrorLimits

    configured = _configured_limits(settings)
    return MirrorLimits(**{COPY[name]: value for name, value in _pop(configured, COPY).items()})


def _configured_limits(settings: Settings) -> dict[str, Any]:
    values = msgspec.structs.asdict(settings.review)
    return {name: value for name, value in values.items() if value is not None}


def _pop(configured: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: configured.pop(name) for name in names if name in configured}
