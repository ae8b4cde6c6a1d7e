"""Who looks at the reviews learns of every change of them, whoever made it: a person here, an agent, another process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from newel.agent.errors import NewelError
from newel.review.store.schema import LedgerError
from newel.review.store.watch import LedgerWatch, News, Revs

if TYPE_CHECKING:
    from newel.review_jobs.service import ReviewService

Tell = Callable[[Revs], None]
"""Is told the files that changed, and the revisions they are at."""

_PAUSE: Final = 5.0
"""Seconds until a ledger that could not be read is read again."""


async def watch(desk: ReviewService, tell: Tell) -> None:
    """Tell of every change, until cancelled. What another process decided and saved may end a job's review."""
    while True:
        with contextlib.suppress(LedgerError):  # who reads or decides is told what is wrong
            await _watch(desk, tell)
        await anyio.sleep(_PAUSE)


async def _watch(desk: ReviewService, tell: Tell) -> None:
    watching = await anyio.to_thread.run_sync(LedgerWatch, desk.files.ledger)
    limiter = anyio.CapacityLimiter(1)  # its thread waits most of the time, and is none of those that work
    news: News | None = News({}, is_foreign=False)  # what happened until now was told to nobody
    try:
        while True:
            if news is not None:
                await _pass_on(desk, news, tell)
            news = await anyio.to_thread.run_sync(watching.wait, abandon_on_cancel=True, limiter=limiter)
    finally:
        watching.close()


async def _pass_on(desk: ReviewService, news: News, tell: Tell) -> None:
    tell(news.revs)
    if news.is_foreign:
        with contextlib.suppress(NewelError):  # the job stays in review, and the next save looks again
            await desk.settle(list(news.revs))
