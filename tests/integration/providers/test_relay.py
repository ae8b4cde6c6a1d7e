"""If these fail, keys leave the Newel server that proxies a model, or tools run on the wrong machine."""

from __future__ import annotations

import msgspec
import pytest

from newel.agent.errors import (
    BadResponse,
    ConnectionFailed,
    NewelError,
    ProviderError,
    RateLimited,
)
from newel.agent.events import AgentEvent, ErrorEvent, MessageEnd, Retry, TextDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, TextContent, ToolCall, Usage, UserMessage
from newel.agent.ports import Model, ModelRequest, RunConfig
from newel.agent.transform import Transformer
from newel.providers.errors import KeyRejected
from newel.providers.proxy import AppTransport, ModelProxy
from tests.integration.providers.raw import BASH, STREAM_HEAD, RawServer, Serve, ask, http, sends, sse

pytestmark = pytest.mark.anyio

MESSAGE = AssistantMessage(
    [TextContent("Hi"), ToolCall("c", "bash", {"command": "ls"})],
    model="m",
    provider="openai",
    usage=Usage(input=3, output=2),
    cost=0.01,
    stop_reason="toolUse",
)


def event(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))


def relay(server: RawServer) -> ModelProxy:
    return ModelProxy(server.url.removesuffix("/v1"), "a-token")


async def test_deltas_retries_and_the_message_arrive_unchanged(serve: Serve) -> None:
    """Otherwise a run through the server differs from a direct one."""
    retry = Retry(attempt=2, max_attempts=5, delay=1.5, reason="busy")
    deltas = [TextDelta("H"), retry, TextDelta("Hi"), ToolCallDelta(0, "bash")]
    events = [event("retry" if isinstance(delta, Retry) else "delta", delta) for delta in deltas]
    server = serve(sse(b": hello\n\n", event("greeting", {}), *events, event("message", MESSAGE)))
    provider = relay(server)
    message, seen = await ask(provider, messages=[UserMessage("Hi")])
    await provider.aclose()
    assert (message, seen) == (MESSAGE, deltas)


async def test_a_prompt_is_answered_through_the_server(serve: Serve) -> None:
    """Otherwise an agent without a key cannot run at all."""
    answer = AssistantMessage([TextContent("Hi")], model="m")
    server = serve(sse(event("delta", TextDelta("Hi")), event("message", answer)))
    transport = AppTransport(server.url.removesuffix("/v1"), "a-token")
    events: list[AgentEvent] = []

    async def emit(event: AgentEvent) -> None:
        events.append(event)

    config = RunConfig(model=Model("m"), transform=Transformer())
    end = await transport.run([], [UserMessage("Hello")], config, emit)
    await transport.aclose()
    assert end.reason == "done"
    said = [event.message for event in events if isinstance(event, MessageEnd)]
    assert isinstance(said[-1], AssistantMessage)
    assert said[-1].text == "Hi"


async def test_the_whole_request_is_sent_with_the_token(serve: Serve) -> None:
    """Otherwise the server cannot ask on our behalf, or asks something else."""
    server = serve(sse(event("message", MESSAGE)))
    provider = relay(server)
    said = UserMessage("Hi \ud800")
    await ask(provider, messages=[said])
    await provider.aclose()
    head, body = server.requests[0]
    assert head.startswith(b"POST /api/transport/run HTTP/1.1")
    assert b"authorization: bearer a-token" in head.lower()
    request = msgspec.json.decode(body, type=ModelRequest)
    assert request.tools == [BASH]
    assert request.messages == [msgspec.structs.replace(said, content="Hi ?")]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (sse(event("error", ErrorEvent(code="rate_limited", message="busy"))), RateLimited, "busy"),
        (sse(event("error", ErrorEvent(code="config_error", message="no model"))), ProviderError, "no model"),
        (sse(event("delta", TextDelta("Ha"))), ConnectionFailed, "before the response was complete"),
        (sends(STREAM_HEAD), ConnectionFailed, "before the response was complete"),
        (sse(b"event: message\ndata: {}\n\n"), BadResponse, "'message' event that is invalid"),
        (http(b"<html>", "200 OK"), ConnectionFailed, "before the response was complete"),
        (http(b'{"error": {"message": "unknown token"}}', "401 No"), KeyRejected, "unknown token"),
    ],
)
async def test_errors_keep_their_class(
    answer: bytes, kind: type[NewelError], words: str, serve: Serve
) -> None:
    """Otherwise the agent retries in vain, or gives up although a retry helps."""
    provider = relay(serve(answer))
    with pytest.raises(kind, match=words) as caught:
        await ask(provider)
    await provider.aclose()
    assert type(caught.value) is kind
