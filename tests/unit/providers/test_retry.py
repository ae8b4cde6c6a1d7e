"""What is worth trying again is tried again, and everything else is told at once."""

from __future__ import annotations

import pytest

from newel.agent.errors import ConnectionFailed, ProviderError, RateLimited, RequestRejected, ServerFailed
from newel.agent.events import Delta, Retry, TextDelta
from newel.agent.messages import AssistantMessage, TextContent
from newel.agent.ports import Model, ModelRequest
from newel.providers.retry import Retrying, pause
from newel.providers.scripted import Answer, Scripted

REQUEST = ModelRequest(Model("m"), "", [])
ANSWER = AssistantMessage([TextContent("Hello")])


async def ask(script: list[Answer], attempts: int = 3) -> tuple[AssistantMessage, list[Delta | Retry]]:
    seen: list[Delta | Retry] = []

    async def on_delta(delta: Delta | Retry) -> None:
        seen.append(delta)

    provider = Retrying(Scripted(script), attempts=attempts, base_delay=0.002)
    return await provider.complete(REQUEST, on_delta), seen


@pytest.mark.anyio
async def test_passing_failures_are_overcome_and_seen() -> None:
    """Else one dropped connection would end an hour's run, or a long pause look like a hang."""
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
async def test_the_servers_pause_counts_up_to_a_minute() -> None:
    """Else the agent would be shut out for longer, or wait for hours on a server's word."""
    _, seen = await ask([RateLimited("slow", retry_after=0.003), ANSWER])
    assert [delta.delay for delta in seen if isinstance(delta, Retry)] == [0.003]
    assert pause(1, 1.0, asked=9e9) == 60.0
    assert pause(900, 1.0, asked=None) <= 60.0


@pytest.mark.anyio
@pytest.mark.parametrize("error", [RequestRejected("no"), ValueError("a defect")])
async def test_what_will_fail_again_is_not_tried_again(error: Exception) -> None:
    """Else a wrong key would be tried five times, with pauses, before the user hears of it."""
    with pytest.raises(type(error)):
        await ask([error, ANSWER])


@pytest.mark.anyio
async def test_the_last_failure_is_told() -> None:
    """Else a server that is down would be asked for ever."""
    with pytest.raises(ProviderError, match="third"):
        await ask([ServerFailed("first"), ServerFailed("second"), ServerFailed("third"), ANSWER])
