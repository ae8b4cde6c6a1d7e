"""If these fail, a failure of the Gemini API ends a run that could go on, or hides its reason."""

from __future__ import annotations

from typing import Any

import pytest

from mock_llm_server import serve as mock
from newel.agent.errors import (
    BadResponse,
    ConnectionFailed,
    ContextOverflow,
    GarbledAnswer,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from newel.agent.events import Retry, TextDelta
from newel.agent.ports import Model
from newel.providers.errors import KeyRejected
from newel.providers.retry import Retrying, RetryLimits
from tests.integration.providers.gemini_wire import Connect, answer, bash, chunk, error, events, script
from tests.integration.providers.raw import Serve, ask, http

pytestmark = pytest.mark.anyio

QUOTA = "You exceeded your current quota, please check your plan and billing details."


def quota(period: str) -> dict[str, Any]:
    violation = {"quotaId": f"GenerateRequests{period}PerProjectPerModel-FreeTier"}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


PAUSE = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.5s"}
BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (error(429, QUOTA, "RESOURCE_EXHAUSTED", quota("PerMinute"), PAUSE), RateLimited, QUOTA),
        (error(429, "Resource has been exhausted.", "RESOURCE_EXHAUSTED"), RateLimited, "exhausted"),
        (
            error(429, QUOTA, "RESOURCE_EXHAUSTED", quota("PerMinute"), quota("PerDay"), PAUSE),
            RequestRejected,
            "Wait until it is renewed, choose another model, or raise the quota.",
        ),
        (
            error(
                429, "Quota exceeded for metric: requests, limit: 0, model: m", "RESOURCE_EXHAUSTED", PAUSE
            ),
            RequestRejected,
            "The quota for m at ",
        ),
        (
            error(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT", BAD_KEY),
            KeyRejected,
            "rejected the API key (401): API key not valid. Please pass a valid API key. Set ",
        ),
        (
            error(403, "Method doesn't allow unregistered callers.", "PERMISSION_DENIED"),
            KeyRejected,
            "key",
        ),
        (
            error(400, "User location is not supported for the API use.", "FAILED_PRECONDITION"),
            RequestRejected,
            "API use. Use a server that serves your location.",
        ),
        (
            error(404, "models/m is not found for API version v1beta.", "NOT_FOUND"),
            RequestRejected,
            "does not have the model 'm' (404)",
        ),
        (
            error(
                400,
                "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
                "INVALID_ARGUMENT",
            ),
            ContextOverflow,
            "too long for m",
        ),
        (error(503, "The model is overloaded.", "UNAVAILABLE"), ServerFailed, "is overloaded (503)"),
        (error(499, "The operation was cancelled.", "CANCELLED"), ServerFailed, "cancelled"),
        (
            events({"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}),
            ServerFailed,
            "Busy.",
        ),
        (
            events(
                chunk({"text": "a"}),
                {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [PAUSE]}},
            ),
            RateLimited,
            "Too many requests",
        ),
        (
            http(b'[{"error": {"code": 500, "message": "Oops.", "status": "INTERNAL"}}]'),
            ServerFailed,
            "Oops.",
        ),
        (events(chunk({"text": "half"})), ConnectionFailed, "before the response was complete"),
        (
            http(b'{"status": "ok"}', content_type="application/json"),
            BadResponse,
            "like the Gemini API",
        ),
        (answer(finish="STOP"), ServerFailed, "without text and calls"),
        (answer({"text": "Hm", "thought": True}), ServerFailed, "without text and calls"),
        (answer(finish="MALFORMED_FUNCTION_CALL", finishMessage="print(1"), GarbledAnswer, "print(1."),
    ],
)
async def test_failures_say_what_to_do(
    gemini: Connect, serve: Serve, reply: bytes, kind: type[ProviderError], text: str
) -> None:
    """Otherwise a hopeless request is repeated for minutes, or a short pause ends the run."""
    server = serve(reply.replace(b"content-length", b"connection: close\r\ncontent-length"))
    with pytest.raises(ProviderError) as failure:
        await ask(gemini(server.url), model=Model("m"))
    assert type(failure.value) is kind
    if b"retryDelay" in reply and kind is RateLimited:
        assert failure.value.retry_after == 45.5
    assert text in str(failure.value)
    assert len(server.requests) == 1
    assert "test-key" not in str(failure.value)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        {"kind": "status", "status": 503},
        {"kind": "reset", "after_chunks": 3},
        {"kind": "end_early"},
        {"kind": "truncated_json"},
        {"kind": "stream_error"},
        {"kind": "stall"},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}",
)
async def test_temporary_faults_are_overcome(gemini: Connect, fault: dict[str, Any]) -> None:
    """Otherwise common temporary faults end the run."""
    step = {"response": {"content": "At last, an answer."}, "fault": fault | {"times": 2}}
    async with mock(script(step)) as server:
        message, seen = await ask(Retrying(gemini(server.url, timeout=0.5), base_delay=0.001))
        retries = [at for at, delta in enumerate(seen) if isinstance(delta, Retry)]
        text = [delta.delta for delta in seen[retries[-1] :] if isinstance(delta, TextDelta)]
        assert len(retries) == 2
        assert "".join(text) == message.text == "At last, an answer."


@pytest.mark.parametrize(
    "garbled",
    [
        {"response": {"tool_calls": [bash("ls")]}, "fault": {"kind": "malformed_arguments", "times": 1}},
        {"response": {"tool_calls": [bash("ls")]}, "fault": {"kind": "status", "status": 200, "times": 1}},
    ],
    ids=["malformed call", "empty answer"],
)
async def test_garbled_answers_are_asked_for_again(gemini: Connect, garbled: dict[str, Any]) -> None:
    """Otherwise the run ends in the middle of the work, without a word."""
    if "body" not in garbled["fault"] and garbled["fault"]["kind"] == "status":
        garbled["fault"] |= {"body": chunk(finish="STOP")}
    async with mock(script(garbled)) as server:
        message, _ = await ask(Retrying(gemini(server.url), RetryLimits(attempts=2), base_delay=0.001))
        assert [call.arguments for call in message.tool_calls] == [{"command": "ls"}]
