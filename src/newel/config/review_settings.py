"""``[review]`` and ``NEWEL_REVIEW_…``: the limits of reviews."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

from newel.agent.errors import ConfigError

REVIEW_PREFIX = "NEWEL_REVIEW_"

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class ReviewSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of reviews that the user may set; None is the default.

    See ``newel.review_jobs.dependencies`` for their meaning and defaults, and ``newel.workspace.mirror.mirror`` for those of the copy
    that an agent under review works in.
    """

    max_tool_calls_per_job: Count | None = None
    max_search_results_default: Count | None = None
    max_search_results_cap: Count | None = None
    max_search_snippet_lines: Count | None = None
    max_read_bytes_default: Count | None = None
    max_read_lines_default: Count | None = None
    poll_interval_ms: Count | None = None
    max_schema_retries: Count | None = None
    max_hunk_lines: Count | None = None
    max_hunk_bytes: Count | None = None
    max_sessions: Count | None = None
    max_jobs_per_session: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    max_events_per_job: Count | None = None
    completed_ttl_hours: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None
    max_copy_files: Count | None = None
    max_copy_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ReviewFile(ReviewSettings, frozen=True, forbid_unknown_fields=True):
    """``[review]``. Only the user's own file has ``record``: no project can switch recording off."""

    record: bool = True


def read_review_limits(
    environ: Mapping[str, str], file: ReviewFile, path: str, origins: dict[str, str]
) -> ReviewSettings:
    """The limits of reviews, from the environment or else from the file."""
    limits: dict[str, Any] = {}
    for name in ReviewSettings.__struct_fields__:
        if (value := getattr(file, name)) is not None:
            limits[name], origins[f"review.{name}"] = value, path
    for variable, text in environ.items():
        if not variable.startswith(REVIEW_PREFIX) or not text.strip():
            continue
        name = variable.removeprefix(REVIEW_PREFIX).lower()
        try:
            parsed = msgspec.convert({name: text.strip()}, ReviewSettings, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(_bad_limit(variable, name, text)) from error
        limits[name], origins[f"review.{name}"] = getattr(parsed, name), "environment"
    return ReviewSettings(**limits)


def _bad_limit(variable: str, name: str, text: str) -> str:
    """The message about an invalid variable, with the allowed values."""
    if name not in ReviewSettings.__struct_fields__:
        valid = ", ".join(f"{REVIEW_PREFIX}{field.upper()}" for field in ReviewSettings.__struct_fields__)
        return f"environment: {variable[:80]!r} is not a setting. Unset it; valid settings are {valid}."
    annotated, _ = get_args(get_type_hints(ReviewSettings, include_extras=True)[name])
    kind, bounds = get_args(annotated)
    allowed = (
        f"a whole number from {bounds.ge} to {bounds.le:,}"
        if kind is int
        else f"above 0 and at most {bounds.le:,}"
    )
    return f"environment: {variable} is {text[:40]!r}, but must be {allowed}. Correct it, or unset it to use the default."
