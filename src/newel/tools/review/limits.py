"""The limits of the tools that read a project and propose edits of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_Count = Annotated[int, Meta(ge=1)]


class ProjectLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one call; sizes are in bytes of UTF-8. ``msgspec.convert`` validates settings."""

    max_search_results_default: _Count = 20
    max_search_results_cap: _Count = 50
    max_search_snippet_lines: _Count = 20
    max_search_bytes: _Count = 65_536
    max_search_seconds: _Count = 30

    max_read_bytes_default: _Count = 65_536
    max_read_bytes_cap: _Count = 262_144
    max_read_lines_default: _Count = 800

    max_listed_files: _Count = 1_000
    max_listed_bytes: _Count = 65_536

    max_question_characters: _Count = 4_000

    max_edits_per_proposal: _Count = 500
    max_proposal_bytes: _Count = 1_048_576
