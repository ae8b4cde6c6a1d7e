"""Retries what is worth it: failed connections a few times, a server that has too much to do patiently."""

from __future__ import annotations

import anyio

from newel.agent.errors import ConnectionFailed, ProviderError, as_sentence
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.providers.http.timeouts import RequestTimeouts

MAX_BACKOFF = 60.0
"""Seconds: the longest pause where the server names none."""


class Retrying:
    """A ``Provider`` that repeats the requests of another.

    The pause grows from ``base_delay`` seconds, doubling, with a random part so that many clients do not
    come back together; where the server names a pause, that one counts, and one of more than ``max_wait`` ends the
    request at once. A ``Retry`` tells of each: its ``attempt`` is the one that comes next, its ``reason`` ends without a stop.
    """

    def __init__(
        self, provider: Provider, patience: RequestTimeouts | None = None, *, base_delay: float = 1.0
    ) -> None:
        self._provider = provider
        self._patience = patience or RequestTimeouts()
        self._base_delay = base_delay

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask; see ``Provider.complete``. Raises the last attempt's error."""
        attempt = 1
        while True:
            try:
                return await self._provider.complete(request, on_delta)
            except ProviderError as error:
                most = self._most(error)
                if not error.retryable or most == 1:
                    raise
                if attempt >= most:
                    error.args = (f"{as_sentence(str(error))} Gave up after {attempt} attempts.",)
                    raise
                if (error.retry_after or 0) > self._patience.max_wait:
                    error.args = (f"{as_sentence(str(error))} {self._too_long(error.retry_after or 0)}",)
                    raise
                delay = pause(attempt, self._base_delay, error.retry_after)
                reason = str(error).rstrip(".")
            attempt += 1
            await on_delta(Retry(attempt=attempt, max_attempts=most, delay=delay, reason=reason))
            await anyio.sleep(delay)

    def _most(self, error: ProviderError) -> int:
        """Attempts in all for an error of this kind."""
        patience = self._patience
        if isinstance(error, ConnectionFailed):
            return min(patience.attempts, patience.connections)
        return patience.attempts

    def _too_long(self, asked: float) -> str:
        return (
            f"The server asks to wait {asked:,.0f} seconds, more than the {self._patience.max_wait:,.0f} that are allowed "
            "([retry] max_wait in config.toml). Try again later."
        )


def pause(attempt: int, base_delay: float, asked: float | None) -> float:
    """Seconds to wait after the failure of ``attempt``; ``asked``: what the server wishes."""
    if asked is not None:
        return asked
    from random import uniform

    longest = min(base_delay * 2 ** min(attempt - 1, 30), MAX_BACKOFF)
    return round(uniform(longest / 2, longest), 3)  # noqa: S311 — spreads load, guards nothing
