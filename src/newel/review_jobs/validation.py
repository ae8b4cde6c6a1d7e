"""Checks of requests against the limits, before anything is done."""

from __future__ import annotations

from newel.review.paths import checked_path
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import BadRequest, TooLarge, Unprocessable
from newel.review_jobs.requests import ContextRow, EditRequest, RunRequest
from newel.workspace.port import Workspace


async def check_run(request: RunRequest, limits: ReviewLimits, workspace: Workspace) -> None:
    """Raises ``BadRequest``, ``TooLarge``, ``Unprocessable`` and ``OutsideProject``."""
    if not request.instruction.strip():
        raise BadRequest("The instruction is empty.")
    if _size(request.instruction) > limits.max_instruction_bytes:
        raise TooLarge(f"The instruction is longer than {limits.max_instruction_bytes} bytes.")
    size = sum(_size(row.content) for row in request.context_rows)
    if len(request.context_rows) > limits.max_context_rows or size > limits.max_context_bytes:
        raise TooLarge(
            f"The request has {len(request.context_rows)} context rows of {size} bytes; the limit is "
            f"{limits.max_context_rows} rows of {limits.max_context_bytes} bytes."
        )
    for row in request.context_rows:
        await _check_row(row, workspace)
    max_tool_calls = request.tool_config.max_tool_calls
    if max_tool_calls is not None and not 1 <= max_tool_calls <= limits.max_tool_calls_cap:
        raise Unprocessable(f"max_tool_calls must be between 1 and {limits.max_tool_calls_cap}.")


async def _check_row(row: ContextRow, workspace: Workspace) -> None:
    if row.file_path is not None:
        await checked_path(workspace, row.file_path)
    first, last = row.start_line, row.end_line
    if (first is not None and first < 1) or (last is not None and last < (first or 1)):
        raise Unprocessable(f"Context row {row.id}: lines {first} to {last} do not exist.")


def check_answer(answer: str | None, limits: ReviewLimits) -> None:
    """Raises ``TooLarge``."""
    if answer is not None and _size(answer) > limits.max_instruction_bytes:
        raise TooLarge(f"The answer is longer than {limits.max_instruction_bytes} bytes.")


def check_edit(request: EditRequest, limits: ReviewLimits) -> None:
    """Raises ``BadRequest`` and ``TooLarge``."""
    if len(request.splices) > limits.max_splices:
        raise TooLarge(f"The edit has {len(request.splices)} splices; the limit is {limits.max_splices}.")
    size = sum(_size(splice.new_text) for splice in request.splices)
    if size > limits.max_edit_bytes:
        raise TooLarge(f"The edit has {size} bytes of new text; the limit is {limits.max_edit_bytes}.")
    for splice in request.splices:
        if "\0" in splice.new_text:
            raise BadRequest("The text contains a NUL character, which a text file cannot hold.")
        try:
            splice.new_text.encode()
        except UnicodeEncodeError as error:
            raise BadRequest(
                "The text contains half of a surrogate pair, which is not valid UTF-8."
            ) from error


def _size(text: str) -> int:
    """The bytes of a text as UTF-8; a lone surrogate counts, too."""
    return len(text.encode("utf-8", "surrogatepass"))
