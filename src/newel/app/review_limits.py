"""What the user says of the limits of reviews, as the limits that review jobs keep."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from newel.agent.errors import ConfigError

if TYPE_CHECKING:
    from newel.config import Settings
    from newel.jobs.review.limits import ReviewLimits

HUNKS = {"max_hunk_lines": "lines", "max_hunk_bytes": "bytes"}
"""The size of a hunk, by the names that it has in settings."""


def review_limits(settings: Settings) -> ReviewLimits:
    """The limits in force. What bounds a setting from above and cannot be set gives way to it. Raises ``ConfigError``
    where two settings contradict each other.
    """
    from newel.jobs.review.limits import ReviewLimits
    from newel.review.proposal import HunkSize
    from newel.tools.project import ProjectLimits

    given = {
        name: value for name, value in msgspec.structs.asdict(settings.review).items() if value is not None
    }
    tools = ProjectLimits(**_taken(given, ProjectLimits.__struct_fields__))
    if tools.max_search_results_default > tools.max_search_results_cap:
        raise ConfigError(
            f"max_search_results_default is {tools.max_search_results_default}, more than max_search_results_cap, which is "
            f"{tools.max_search_results_cap}. Both are of [review] or NEWEL_REVIEW_*: set one so that the first is the smaller."
        )
    tools = msgspec.structs.replace(
        tools, max_read_bytes_cap=max(tools.max_read_bytes_cap, tools.max_read_bytes_default)
    )
    sizes = {HUNKS[name]: value for name, value in _taken(given, HUNKS).items()}
    limits = ReviewLimits(tools=tools, hunks=HunkSize(**sizes), **given)
    cap = max(limits.max_tool_calls_cap, limits.max_tool_calls_per_job)
    return msgspec.structs.replace(limits, max_tool_calls_cap=cap)


def _taken(given: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: given.pop(name) for name in names if name in given}
