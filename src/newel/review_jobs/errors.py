"""What can be wrong with a request, and which HTTP status says so.

DeskError
├── BadRequest        400   not what this endpoint takes
├── NoSuchSession     404
├── NoSuchJob         404
├── WrongState        409   the job is not where this can be done
├── QuestionClosed    409   the question was answered, or another one is asked now
├── TooMany           409   a limit of sessions or jobs is reached, and all of them are in use
├── TooLarge          413
└── Unprocessable     422   well-formed, and it cannot be meant
"""

from __future__ import annotations

from typing import Final

import msgspec

from newel.agent.errors import ConnectionLost, HostUnreachable, NewelError, StaleFile, WorkspaceError
from newel.jobs.engine import EngineError
from newel.review.model.file_review import BadRange, ReviewError, UnknownHunk
from newel.review.store.schema import LedgerError


class ReviewServiceError(NewelError, code="desk_error"):
    status = 400


class BadRequest(ReviewServiceError):
    pass


class NoSuchSession(ReviewServiceError):
    status = 404


class NoSuchJob(ReviewServiceError):
    status = 404


class WrongState(ReviewServiceError):
    status = 409


class QuestionClosed(ReviewServiceError):
    status = 409


class TooMany(ReviewServiceError):
    status = 409


class TooLarge(ReviewServiceError):
    status = 413


class Unprocessable(ReviewServiceError):
    status = 422


class Problem(msgspec.Struct, frozen=True):
    """The body of an answer that is no success."""

    code: str
    message: str


_STATUS: Final[tuple[tuple[type[NewelError], int], ...]] = (
    (LedgerError, 503),
    (EngineError, 503),
    (UnknownHunk, 404),
    (BadRange, 422),
    (StaleFile, 409),
    (ReviewError, 409),
    (HostUnreachable, 503),
    (ConnectionLost, 503),
    (WorkspaceError, 422),
)
_BY_CODE: Final = {
    "unknown_checkpoint": 404,
    "outside_project": 422,
    "not_a_file": 422,
    "not_text": 422,
    "bad_text": 422,
    "save_failed": 500,
}
"""Errors of the ledger that say something else than their base."""


def status_of(error: NewelError) -> int:
    """The HTTP status of an error that a desk raises."""
    if isinstance(error, ReviewServiceError):
        return error.status
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def problem(error: NewelError) -> tuple[int, Problem]:
    """The status and the body that tell of an error."""
    return status_of(error), Problem(error.code, str(error))
