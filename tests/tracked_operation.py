"""A tracked operation in two steps, so that a test can act in between."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effects import TrackedOperation, TrackedRun


class BegunOperation(NamedTuple):
    operation: TrackedOperation
    tracking: AbstractAsyncContextManager[None]


async def begin(recorder: ChangeRecorder, run: TrackedRun, path: str | None) -> BegunOperation:
    """Raises the reason why the operation cannot be recorded."""
    operation = TrackedOperation(run, path)
    tracking = recorder.track(operation)
    await tracking.__aenter__()
    if operation.error is not None:
        raise operation.error
    return BegunOperation(operation, tracking)


async def end(begun: BegunOperation) -> list[str]:
    """Returns the messages for the user. Raises like ``begin``."""
    await begun.tracking.__aexit__(None, None, None)
    if begun.operation.error is not None:
        raise begun.operation.error
    return begun.operation.notices
