"""Retries what a disk failed to do: many such errors are gone a moment later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from newel.agent.errors import HostUnavailable, NewelError

T = TypeVar("T")

PAUSES: Final = (0.0, 0.05)
"""Seconds before each retry."""


async def retried(work: Callable[[], Awaitable[T]]) -> T:
    """The result of ``work``, which is tried again if it fails; it must be safe to repeat. Raises what it raised last.

    A host that cannot be reached is not asked again: that has a patience of its own.
    """
    for pause in PAUSES:
        try:
            return await work()
        except HostUnavailable:
            raise
        except (NewelError, OSError):
            await anyio.sleep(pause)
    return await work()
