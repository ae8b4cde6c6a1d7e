"""Structured edits of lines, as a model proposes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

Operation = Literal["replace", "insert", "delete"]
LineNumber = Annotated[int, msgspec.Meta(ge=1)]


class ProposedEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a file's lines, which count from 1.

    ``replace`` puts ``new_text`` in place of the lines ``start_line`` to ``end_line``, both included; ``insert`` puts it before
    ``start_line`` (one more than the last line: behind it); ``delete`` removes the lines. ``expected_hash`` says what the
    proposer saw there (``lines_hash``); without it nothing is checked but the numbers.
    """

    edit_id: str = ""
    file_path: str
    operation: Operation
    start_line: LineNumber
    end_line: LineNumber | None = None
    new_text: str = ""
    expected_hash: str | None = None
    rationale: str = ""


def lines_hash(lines: Sequence[str]) -> str:
    """The hash of lines with their ends: ``sha256:`` and hexadecimal digits."""
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
