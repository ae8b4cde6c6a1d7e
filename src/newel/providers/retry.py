"""Retries: a few after failed connections, many while a server is overloaded."""

from __future__ import annotations

from typing import Final

import msgspec

from newel.agent.errors import ConnectionFailed, GarbledAnswer, ProviderError, as_sentence
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider

MAX_BACKOFF_S: Final = 60.0
"""The longest pause if the server names none."""


class RetryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """At most ``attempts`` requests, and pauses of at most ``max_wait`` seconds if the server names them.

    ``connections`` bounds the attempts while no server answers: a wrong address does not improve within minutes. ``garbled`` bounds
    those at an answer that its server cannot read: each costs as much as a good one.
    """

    attempts: int = 10
    max_wait: float = 300.0
    connections: int = 5
    garbled: int = 3


DEFAULT_LIMITS: Final = RetryLimits()
"""While the user waits: about three minutes."""

UNATTENDED_LIMITS: Final = RetryLimits(attempts=30, max_wait=3_600.0, connections=15)
"""Without a user: about 20 minutes, ten of them without a connection."""


class Retrying:
    """A ``Provider`` that repeats the requests of another.

    The pause doubles from ``base_delay`` seconds, with jitter. A pause that the server names takes precedence; one
    longer than ``max_wait`` ends the request at once. A ``Retry`` reports each: its ``attempt`` is the next one, and its
    ``reason`` has no final stop.
    """

    def __init__(
        self, provider: Provider, limits: RetryLimits = DEFAULT_LIMITS, *, base_delay: float = 1.0
    ) -> None:
        self._provider = provider
        self._limits = limits
        self._base_delay = base_delay
        self._has_answered = False

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask; see ``Provider.complete``. Raises the last attempt's error."""
        import anyio  # not with the settings, which import the limits

        attempt = 1
        while True:
            try:
                message = await self._provider.complete(request, on_delta)
            except ProviderError as error:
                max_attempts = self._max_attempts(error)
                # A local server that was there before is being restarted.
                is_away = (attempt > 1 or self._has_answered) and isinstance(error, ConnectionFailed)
                if not (error.retryable or is_away) or max_attempts == 1:
                    raise
                if attempt >= max_attempts:
                    error.args = (f"{as_sentence(str(error))} Gave up after {attempt} attempts.",)
                    raise
                if (error.retry_after or 0) > self._limits.max_wait:
                    error.args = (f"{as_sentence(str(error))} {self._too_long(error.retry_after or 0)}",)
                    raise
                delay = retry_delay(attempt, self._base_delay, error.retry_after)
                reason = str(error).rstrip(".")
            else:
                self._has_answered = True
                return message
            attempt += 1
            await on_delta(Retry(attempt=attempt, max_attempts=max_attempts, delay=delay, reason=reason))
            await anyio.sleep(delay)

    def _max_attempts(self, error: ProviderError) -> int:
        limits = self._limits
        if isinstance(error, ConnectionFailed):
            return min(limits.attempts, limits.connections)
        return min(limits.attempts, limits.garbled) if isinstance(error, GarbledAnswer) else limits.attempts

    def _too_long(self, retry_after: float) -> str:
        return (
            f"The server asks for a pause of {retry_after:,.0f} seconds; [retry] max_wait in config.toml allows "
            f"{self._limits.max_wait:,.0f}. Try again later."
        )


def retry_delay(attempt: int, base_delay: float, retry_after: float | None) -> float:
    """Return the seconds to wait after the failure of ``attempt``; ``retry_after`` is the server's."""
    if retry_after is not None:
        return retry_after
    from random import uniform

    longest = min(base_delay * 2 ** min(attempt - 1, 30), MAX_BACKOFF_S)
    return round(uniform(longest / 2, longest), 3)  # noqa: S311 — spreads load, guards nothing
