"""Errors of the review service, and the HTTP status of every error that it raises.

ReviewServiceError
├── BadRequest        400   malformed
├── NoSuchSession     404
├── NoSuchJob         404
├── WrongState        409   the job's status does not allow it
├── QuestionClosed    409   the question has been answered or replaced
├── TooMany           409   the limit of sessions or jobs is reached, and none can be deleted
├── TooLarge          413
└── Unprocessable     422   well-formed but invalid
"""

from __future__ import annotations

from typing import Final

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
"""Codes of errors whose status differs from their base class's."""


def status_of(error: NewelError) -> int:
    """The HTTP status of an error that a review service raises."""
    if isinstance(error, ReviewServiceError):
        return error.status
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
