"""Structured edits of lines that a model proposes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Operation = Literal["replace", "insert", "delete"]
LineNumber = Annotated[int, Meta(ge=1)]


class ProposedEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a file's lines, which count from 1.

    ``replace`` replaces the lines ``start_line`` to ``end_line``, inclusive, by ``new_text``; ``insert`` inserts it before
    ``start_line`` (one more than the last line: at the end); ``delete`` removes the lines. ``expected_hash`` is the ``lines_hash`` of
    the lines that the model saw there; without it only the numbers are checked.
    """

    edit_id: Annotated[str, Meta(description="Your name for this edit. Optional.")] = ""
    file_path: Annotated[str, Meta(description="Path of the file, relative to the project")]
    operation: Operation
    start_line: Annotated[
        LineNumber, Meta(description="First line to change; for insert, the line to insert before")
    ]
    end_line: Annotated[
        LineNumber | None, Meta(description="Last line to change, inclusive. Not needed for insert.")
    ] = None
    new_text: Annotated[str, Meta(description="The complete new lines. Empty for delete.")] = ""
    expected_hash: Annotated[
        str | None,
        Meta(description="The expected_hash that read_file returned for exactly these lines, or omit it."),
    ] = None
    rationale: Annotated[str, Meta(description="Why, in one sentence")] = ""


def lines_hash(lines: Sequence[str]) -> str:
    """The hash of lines with their ends: ``sha256:`` and hexadecimal digits."""
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
