"""What clients send, checked before anything is done with it."""

from __future__ import annotations

from newel.review.paths import checked_path
from newel.review_jobs.errors import BadRequest, TooLarge, Unprocessable
from newel.review_jobs.limits import ReviewLimits
from newel.review_jobs.schemas import ContextRow, RunRequest
from newel.workspace.port import Workspace


async def check_run(request: RunRequest, limits: ReviewLimits, workspace: Workspace) -> None:
    """Raises ``BadRequest``, ``TooLarge``, ``Unprocessable`` and ``OutsideProject``."""
    if not request.instruction.strip():
        raise BadRequest("The instruction is empty. Say what should be changed.")
    if size_of(request.instruction) > limits.max_instruction_bytes:
        raise TooLarge(f"The instruction is longer than {limits.max_instruction_bytes} bytes.")
    size = sum(size_of(row.content) for row in request.context_rows)
    if len(request.context_rows) > limits.max_context_rows or size > limits.max_context_bytes:
        raise TooLarge(
            f"{len(request.context_rows)} context rows of {size} bytes; at most {limits.max_context_rows} of "
            f"{limits.max_context_bytes} bytes go with one instruction."
        )
    for row in request.context_rows:
        await _check_row(row, workspace)
    wanted = request.tool_config.max_tool_calls
    if wanted is not None and not 1 <= wanted <= limits.max_tool_calls_cap:
        raise Unprocessable(f"max_tool_calls must be between 1 and {limits.max_tool_calls_cap}.")


async def _check_row(row: ContextRow, workspace: Workspace) -> None:
    if row.file_path is not None:
        await checked_path(workspace, row.file_path)
    first, last = row.start_line, row.end_line
    if (first is not None and first < 1) or (last is not None and last < (first or 1)):
        raise Unprocessable(f"Context row {row.id}: there are no lines {first} to {last}.")


def check_answer(answer: str | None, limits: ReviewLimits) -> None:
    """Raises ``TooLarge``."""
    if answer is not None and size_of(answer) > limits.max_instruction_bytes:
        raise TooLarge(f"The answer is longer than {limits.max_instruction_bytes} bytes.")


def size_of(text: str) -> int:
    """Bytes of a text as UTF-8, in which half of a surrogate pair counts, too."""
    return len(text.encode("utf-8", "surrogatepass"))
