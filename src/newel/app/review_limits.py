"""What the user says of the limits of reviews, as the limits that review jobs keep."""

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
"""The size of a hunk, by the names that it has in settings."""
COPY = {"max_copy_files": "files", "max_copy_bytes": "size"}
"""The largest copy of a project, likewise."""


def review_limits(settings: Settings) -> ReviewLimits:
    """The limits in force. What bounds a setting from above and cannot be set gives way to it. Raises ``ConfigError``
    where two settings contradict each other.
    """
    from newel.review_jobs.dependencies import ReviewLimits
    from newel.tools.review import ProjectLimits

    given = _given(settings)
    _taken(given, COPY)
    tools = ProjectLimits(**_taken(given, ProjectLimits.__struct_fields__))
    if tools.max_search_results_default > tools.max_search_results_cap:
        raise ConfigError(
            f"max_search_results_default is {tools.max_search_results_default}, more than max_search_results_cap, which is "
            f"{tools.max_search_results_cap}. Both are of [review] or NEWEL_REVIEW_*: set one so that the first is the smaller."
        )
    tools = msgspec.structs.replace(
        tools, max_read_bytes_cap=max(tools.max_read_bytes_cap, tools.max_read_bytes_default)
    )
    _taken(given, HUNKS)
    limits = ReviewLimits(tools=tools, hunks=hunk_size(settings), **given)
    cap = max(limits.max_tool_calls_cap, limits.max_tool_calls_per_job)
    return msgspec.structs.replace(limits, max_tool_calls_cap=cap)


def hunk_size(settings: Settings) -> HunkSize:
    """The largest hunk that is shown in one piece."""
    from newel.review.model.proposal import HunkSize

    given = _given(settings)
    return HunkSize(**{HUNKS[name]: value for name, value in _taken(given, HUNKS).items()})


def copy_limits(settings: Settings) -> MirrorLimits:
    """The largest project that an agent under review gets a copy of."""
    from newel.workspace.mirror.mirror import MirrorLimits

    given = _given(settings)
    return MirrorLimits(**{COPY[name]: value for name, value in _taken(given, COPY).items()})


def _given(settings: Settings) -> dict[str, Any]:
    said = msgspec.structs.asdict(settings.review)
    return {name: value for name, value in said.items() if value is not None}


def _taken(given: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: given.pop(name) for name in names if name in given}
