"""Trying again what is worth trying again."""

from __future__ import annotations

import anyio

from newel.agent.errors import ProviderError
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider

MAX_DELAY = 60.0
"""Seconds: the longest pause, also when a server asks for a longer one."""


class Retrying:
    """A ``Provider`` that makes a request of another up to ``attempts`` times in all.

    The pause grows from ``base_delay`` seconds, doubling, with a random part so that many clients do not
    come back together; where the server names a pause, that one counts. A ``Retry`` tells of each: its
    ``attempt`` is the one that comes next, its ``reason`` ends without a stop.
    """

    def __init__(self, provider: Provider, *, attempts: int = 5, base_delay: float = 1.0) -> None:
        self._provider = provider
        self._attempts = attempts
        self._base_delay = base_delay

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask; see ``Provider.complete``. Raises the last attempt's error."""
        attempt = 1
        while True:
            try:
                return await self._provider.complete(request, on_delta)
            except ProviderError as error:
                if not error.retryable or attempt >= self._attempts:
                    raise
                delay = pause(attempt, self._base_delay, error.retry_after)
                reason = str(error).rstrip(".")
            attempt += 1
            await on_delta(Retry(attempt=attempt, max_attempts=self._attempts, delay=delay, reason=reason))
            await anyio.sleep(delay)


def pause(attempt: int, base_delay: float, asked: float | None) -> float:
    """Seconds to wait after the failure of ``attempt``; ``asked``: what the server wishes."""
    if asked is not None:
        return min(asked, MAX_DELAY)
    from random import uniform

    longest = min(base_delay * 2 ** (attempt - 1), MAX_DELAY)
    return round(uniform(longest / 2, longest), 3)  # noqa: S311 — spreads load, guards nothing
