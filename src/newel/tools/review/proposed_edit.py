"""Structured edits of lines, as a model proposes them."""

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

    ``replace`` puts ``new_text`` in place of the lines ``start_line`` to ``end_line``, both included; ``insert`` puts it before
    ``start_line`` (one more than the last line: behind it); ``delete`` removes the lines. ``expected_hash`` says what the
    proposer saw there (``lines_hash``); without it nothing is checked but the numbers.
    """

    edit_id: Annotated[str, Meta(description="Your name for this edit. May be left out.")] = ""
    file_path: Annotated[str, Meta(description="Path of the file, relative to the project")]
    operation: Operation
    start_line: Annotated[
        LineNumber, Meta(description="First line that changes; for insert the line to insert before")
    ]
    end_line: Annotated[
        LineNumber | None, Meta(description="Last line that changes, itself included. Not needed for insert.")
    ] = None
    new_text: Annotated[str, Meta(description="The new lines, whole. Empty for delete.")] = ""
    expected_hash: Annotated[
        str | None,
        Meta(
            description="The expected_hash that read_file gave for exactly these lines. Otherwise leave it out."
        ),
    ] = None
    rationale: Annotated[str, Meta(description="Why, in one sentence")] = ""


def lines_hash(lines: Sequence[str]) -> str:
    """The hash of lines with their ends: ``sha256:`` and hexadecimal digits."""
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
