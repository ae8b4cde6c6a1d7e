"""The progress and the outcome of a save."""

from __future__ import annotations

from collections.abc import Sequence

from newel.agent.formatting import pluralize
from newel.agent.messages import Wire
from newel.review.model.file_review import FileReview, ReviewError


class SaveProgress:
    """How many of the ``total`` files of a save, or of several in a row, are written, for those who show it, and their wish to stop. A save
    stops between two files: what is written stays, the rest is as before.
    """

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.done = 0
        self.is_stopped = False

    def advance(self) -> None:
        """One more file is written."""
        self.done += 1

    def stop(self) -> None:
        self.is_stopped = True


class SaveResult(Wire, frozen=True, kw_only=True):
    """A saved file: the number of written hunks, and of hunks left in the review, including rejected ones."""

    path: str
    applied: int
    left: int
    review: FileReview

    @classmethod
    def of(cls, review: FileReview, applied: int) -> SaveResult:
        return cls(path=review.path, applied=applied, left=len(review.hunks), review=review)


class SaveFailed(ReviewError):
    """A file could not be written, and is unchanged. ``saved`` are the files of the same save that were written."""

    def __init__(self, message: str, saved: Sequence[SaveResult] = ()) -> None:
        super().__init__(message)
        self.saved = tuple(saved)


class SaveStopped(SaveFailed):
    """The user stopped a save of ``total`` files: those that are not ``saved`` are unchanged."""

    def __init__(self, saved: Sequence[SaveResult], total: int) -> None:
        super().__init__(
            f"Stopped after {len(saved):,} of {pluralize(total, 'file')}. The others are as they were.", saved
        )
