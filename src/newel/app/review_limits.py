"""The limits of reviews, from the user's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from newel.agent.errors import ConfigError

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.review.model.proposal import HunkSize
    from newel.review_jobs.dependencies import ReviewLimits
    from newel.workspace.mirror.mirror import MirrorLimits

HUNKS = {"lines": "max_hunk_lines", "bytes": "max_hunk_bytes"}
"""Settings of the fields of ``HunkSize``."""
COPY = {"files": "max_copy_files", "size": "max_copy_bytes"}
"""Settings of the fields of ``MirrorLimits``."""

S = TypeVar("S", bound=msgspec.Struct)


def review_limits(settings: Settings) -> ReviewLimits:
    """The limits in force. An upper bound that cannot be configured is raised to its setting. Raises ``ConfigError`` if two
    settings contradict each other.
    """
    from newel.review_jobs.dependencies import ReviewLimits
    from newel.tools.review import ProjectLimits

    tools = _with_settings(settings, ProjectLimits)
    if tools.max_search_results_default > tools.max_search_results_cap:
        raise ConfigError(
            f"max_search_results_default is {tools.max_search_results_default}, more than max_search_results_cap, which is "
            f"{tools.max_search_results_cap}. Change one of them in [review] or by NEWEL_REVIEW_*."
        )
    limits = _with_settings(settings, ReviewLimits)
    return msgspec.structs.replace(
        limits,
        tools=msgspec.structs.replace(
            tools, max_read_bytes_cap=max(tools.max_read_bytes_cap, tools.max_read_bytes_default)
        ),
        hunks=hunk_size(settings),
        max_tool_calls_cap=max(limits.max_tool_calls_cap, limits.max_tool_calls_per_job),
    )


def hunk_size(settings: Settings) -> HunkSize:
    """The size above which hunks are split."""
    from newel.review.model.proposal import HunkSize

    return _with_settings(settings, HunkSize, HUNKS)


def copy_limits(settings: Settings) -> MirrorLimits:
    """The largest project that is copied for review mode."""
    from newel.workspace.mirror.mirror import MirrorLimits

    return _with_settings(settings, MirrorLimits, COPY)


def _with_settings(settings: Settings, kind: type[S], names: Mapping[str, str] | None = None) -> S:
    """A struct with the values that the user has set. ``names`` are the settings of its fields, if they differ."""
    values = {
        field: getattr(settings.review, (names or {}).get(field, field), None)
        for field in kind.__struct_fields__
    }
    return kind(**{field: value for field, value in values.items() if value is not None})
