"""If these fail, a passing error ends a run, or a permanent one delays it."""

from __future__ import annotations

import pytest

from newel.agent.errors import (
    ConnectionFailed,
    GarbledAnswer,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from newel.agent.events import Retry, TextDelta
from newel.agent.messages import AssistantMessage, TextContent
from newel.agent.ports import Model, ModelRequest, ProviderEvent
from newel.providers.retry import Retrying, RetryLimits, retry_delay
from tests.scripted_provider import Answer, ScriptedProvider

REQUEST = ModelRequest(Model("m"), "", [])
ANSWER = AssistantMessage([TextContent("Hello")])


async def ask(
    script: list[Answer], limits: RetryLimits | None = None
) -> tuple[AssistantMessage, list[ProviderEvent]]:
    seen: list[ProviderEvent] = []

    async def on_delta(delta: ProviderEvent) -> None:
        seen.append(delta)

    provider = Retrying(ScriptedProvider(script), limits or RetryLimits(attempts=3), base_delay=0.002)
    return await provider.complete(REQUEST, on_delta), seen


@pytest.mark.anyio
async def test_temporary_failures_are_retried_and_reported() -> None:
    """Otherwise one dropped connection would end an hour's run, or a long pause look like a hang."""
    message, seen = await ask([ConnectionFailed("gone."), ServerFailed("503"), ANSWER])
    assert message == ANSWER
    first, second, text = seen
    assert isinstance(first, Retry)
    assert isinstance(second, Retry)
    assert (first.attempt, first.max_attempts, first.reason) == (2, 3, "gone")
    assert (second.attempt, second.reason) == (3, "503")
    assert 0.001 <= first.delay <= 0.002 <= second.delay <= 0.004
    assert text == TextDelta("Hello")


@pytest.mark.anyio
async def test_a_long_retry_after_is_respected() -> None:
    """Otherwise the agent retries too early, and is locked out for longer."""
    _, seen = await ask([RateLimited("slow", retry_after=0.003), ANSWER])
    assert [delta.delay for delta in seen if isinstance(delta, Retry)] == [0.003]
    assert retry_delay(1, 1.0, retry_after=150.0) == 150.0
    assert retry_delay(900, 1.0, retry_after=None) <= 60.0


@pytest.mark.anyio
async def test_a_retry_after_beyond_the_limit_ends_the_request_with_a_report() -> None:
    """Otherwise a run sleeps for hours at a server's word, or uses up its attempts before the named time."""
    with pytest.raises(
        RateLimited, match=r"pause of 7,200 seconds; \[retry\] max_wait in config.toml allows 300"
    ) as error:
        await ask([RateLimited("quota", retry_after=7_200), ANSWER], RetryLimits())
    assert str(error.value).startswith("quota. The server")


@pytest.mark.anyio
async def test_an_overloaded_server_gets_more_patience_than_an_unreachable_one() -> None:
    limits = RetryLimits(attempts=8, connections=2)
    busy: list[Answer] = [ServerFailed("busy", retry_after=0.001)] * 7
    message, _ = await ask([*busy, ANSWER], limits)
    assert message == ANSWER
    gone: list[Answer] = [ConnectionFailed("gone")] * 7
    with pytest.raises(ConnectionFailed, match=r"gone\. Gave up after 2 attempts\."):
        await ask([*gone, ANSWER], limits)


@pytest.mark.anyio
async def test_garbled_answers_are_paid_for_three_times_at_most() -> None:
    with pytest.raises(GarbledAnswer, match="Gave up after 3 attempts"):
        await ask([GarbledAnswer("garbled.")] * 9, RetryLimits(attempts=9))


def test_the_default_patience_is_about_three_minutes() -> None:
    """As long as most overloads last; five attempts in eleven seconds ended runs that only had to wait."""
    limits = RetryLimits()
    waits = [[retry_delay(attempt, 1.0, None) for attempt in range(1, limits.attempts)] for _ in range(200)]
    assert 150 < sum(map(sum, waits)) / len(waits) < 210


@pytest.mark.anyio
@pytest.mark.parametrize("error", [RequestRejected("no"), ValueError("a defect")])
async def test_permanent_failures_are_not_retried(error: Exception) -> None:
    """Otherwise a wrong key would be tried five times, with pauses, before the user hears of it."""
    with pytest.raises(type(error)):
        await ask([error, ANSWER])


@pytest.mark.anyio
async def test_a_server_that_restarts_is_waited_for() -> None:
    """Otherwise a crash of a local server ends the run, although it is back within seconds."""
    refused = ConnectionFailed("nothing listens there")
    refused.retryable = False
    message, _ = await ask([ConnectionFailed("it broke"), refused, ANSWER])
    assert message == ANSWER
    with pytest.raises(ConnectionFailed, match=r"^nothing listens there$"):
        await ask([refused, ANSWER])


@pytest.mark.anyio
async def test_a_server_that_restarts_between_two_requests_is_waited_for() -> None:
    """Otherwise its restart during a long command ends the work of hours."""
    refused = ConnectionFailed("nothing listens there")
    refused.retryable = False
    provider = Retrying(
        ScriptedProvider([ANSWER, refused, ANSWER]), RetryLimits(attempts=3), base_delay=0.002
    )
    seen: list[ProviderEvent] = []

    async def on_delta(delta: ProviderEvent) -> None:
        seen.append(delta)

    for _ in range(2):
        assert await provider.complete(REQUEST, on_delta) == ANSWER
    assert [delta.reason for delta in seen if isinstance(delta, Retry)] == ["nothing listens there"]


@pytest.mark.anyio
async def test_the_last_failure_is_raised() -> None:
    """Otherwise a server that is down is asked forever."""
    with pytest.raises(ProviderError, match="third"):
        await ask([ServerFailed("first"), ServerFailed("second"), ServerFailed("third"), ANSWER])
