"""If these fail, requests to model servers hang, or a rejected feature is requested again each time."""

from __future__ import annotations

import json
import os
import socket

import anyio
import pytest

from newel.agent.errors import ConfigError, ConnectionFailed, ProviderError, RequestRejected, ServerFailed
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage, TextContent, ThinkingContent, UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.providers.discovery import LocalServer, discover
from newel.providers.openai.chat import OpenAIChat
from tests.integration.providers.raw import (
    DONE,
    HELLO,
    STREAM_HEAD,
    Connect,
    Handler,
    Serve,
    ask,
    chunk,
    floods,
    http,
    sends,
    sse,
    stalls,
)

pytestmark = pytest.mark.anyio

ANSWER = sse(HELLO, DONE)


def refusal(words: str, status: str = "400 Bad Request") -> bytes:
    return http(json.dumps({"error": {"message": words}}).encode(), status)


async def test_one_connection_serves_all_requests(serve: Serve, connect: Connect) -> None:
    """Otherwise every step pays for a new connection, which is expensive over TLS."""
    server = serve(ANSWER, http(b"{}", "500 Broken"), ANSWER, sse(HELLO), ANSWER)
    provider = connect(server.url)
    await ask(provider)
    with pytest.raises(ServerFailed):
        await ask(provider)
    for _ in range(3):
        await ask(provider)
    assert (server.connections, len(server.requests)) == (1, 5)


async def test_a_connection_closed_by_the_server_is_replaced(serve: Serve, connect: Connect) -> None:
    """Otherwise the first request after a pause would fail with many gateways."""
    server = serve(sends(ANSWER), ANSWER)
    provider = connect(server.url)
    await ask(provider)
    await anyio.sleep(0.05)
    message, _ = await ask(provider)
    assert message.text == "Hello, wörld"


async def test_a_connection_closed_at_the_moment_of_a_request_costs_no_retry(
    serve: Serve, connect: Connect
) -> None:
    """llama.cpp closes one in ten kept connections: each would cost a second and a warning."""
    server = serve(ANSWER, sends(), ANSWER, sends())
    provider = connect(server.url)
    await ask(provider)
    message, _ = await ask(provider)
    assert message.text == "Hello, wörld"
    assert server.connections == 2
    with pytest.raises(ConnectionFailed):  # also on the new connection: the server does not answer
        await ask(provider)
    assert len(server.requests) == 5


async def test_the_request_has_the_expected_headers_and_body(serve: Serve, connect: Connect) -> None:
    """Otherwise a server does not know the caller, the model, or the headers."""
    server = serve(ANSWER)
    url = server.url + "/chat/completions/"
    await ask(connect(url, headers={"X-Team": "blue"}), model=Model("org/model"))
    head = server.requests[0][0].decode().lower()
    assert head.startswith("post /v1/chat/completions http/1.1")
    assert "authorization: bearer sk-test-key" in head
    assert "x-team: blue" in head
    assert server.sent()["model"] == "org/model"
    assert server.sent()["stream"] is True


async def test_a_request_is_sent_in_one_write(serve: Serve, connect: Connect) -> None:
    """Otherwise each request costs two packets, and over TLS two records, instead of one."""
    server = serve(ANSWER)
    provider = connect(server.url)
    for _ in range(2):
        await ask(provider)
    assert server.first_pieces == [len(head) + 4 + len(body) for head, body in server.requests]


async def test_a_long_request_arrives_completely(serve: Serve, connect: Connect) -> None:
    """Otherwise a long conversation would break off."""
    server = serve(ANSWER)
    said = "word " * 40_000
    await ask(connect(server.url), messages=[UserMessage(said)])
    assert server.sent()["messages"][-1]["content"] == said


async def test_credentials_in_the_url_are_used_and_not_shown(serve: Serve, connect: Connect) -> None:
    """Otherwise a server behind a gateway is unusable, or its password is in every error."""
    server = serve(refusal("no"))
    url = server.url.replace("http://", "http://me:hidden@") + "/?api-version=1&key=hidden"
    with pytest.raises(RequestRejected) as caught:
        await ask(connect(url, api_key=None))
    head = server.requests[0][0]
    assert head.startswith(b"POST /v1/chat/completions?api-version=1&key=hidden ")
    assert b"authorization: basic " in head.lower()
    shown = server.url.replace("http://", "http://…@") + "/chat/completions?…"
    assert str(caught.value) == f"{shown} rejected the request (400): no."


async def test_without_a_key_there_is_no_header(serve: Serve, connect: Connect) -> None:
    """Otherwise local servers without keys get an unknown one."""
    server = serve(ANSWER)
    await ask(connect(server.url, api_key=None))
    assert b"authorization" not in server.requests[0][0].lower()


@pytest.mark.parametrize(
    ("words", "field", "left"),
    [
        ("Unrecognized request argument supplied: stream_options", "stream_options", "stream"),
        ("reasoning_effort is not supported by this model", "reasoning_effort", "stream"),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "max_completion_tokens",
        ),
        ("Streaming is not supported", "stream", "model"),
    ],
)
async def test_a_rejected_field_is_omitted_from_then_on(
    words: str, field: str, left: str, serve: Serve, connect: Connect
) -> None:
    """Otherwise a server that does not know one field could not be used, or would refuse every second request."""
    server = serve(refusal(words), ANSWER)
    provider = connect(server.url)
    options = {"model": Model("m", max_output=50), "thinking": "low"}
    message, seen = await ask(provider, **options)
    await ask(provider, **options)
    assert message.text == "Hello, wörld"
    retry = seen[0]
    assert isinstance(retry, Retry)
    assert retry.delay == 0
    assert "the server rejected the request; retrying without " in retry.reason
    assert not retry.reason.endswith(".")
    first, second, third = (server.sent(at) for at in range(3))
    assert field in first
    assert field not in second
    assert field not in third
    assert left in second


async def test_reasoning_is_sent_back_when_the_server_requires_it(serve: Serve, connect: Connect) -> None:
    """Otherwise the second request to a reasoning model of that kind would always fail."""
    server = serve(refusal("thinking is enabled but reasoning_content is missing in message 1"), ANSWER)
    said = AssistantMessage([ThinkingContent("hm", field="reasoning_content"), TextContent("Hi")])
    await ask(connect(server.url), messages=[UserMessage("a"), said, UserMessage("b")])
    assert "reasoning_content" not in server.sent(0)["messages"][1]
    assert server.sent(1)["messages"][1]["reasoning_content"] == "hm"


async def test_a_rejected_request_is_reported(serve: Serve, connect: Connect) -> None:
    """Otherwise the one sentence that explains the failure would be lost."""
    server = serve(refusal("messages must alternate"))
    with pytest.raises(RequestRejected, match=r"rejected the request \(400\): messages must alternate"):
        await ask(connect(server.url))
    assert len(server.requests) == 1


async def test_a_redirect_is_not_followed(serve: Serve, connect: Connect) -> None:
    """Otherwise the key and the conversation go to any server that the first one names."""
    other = serve(ANSWER)
    server = serve(http(b"", "307 Temporary Redirect", location=other.url + "/chat/completions"))
    with pytest.raises(RequestRejected, match="redirect"):
        await ask(connect(server.url))
    assert other.connections == 0


async def test_an_endless_error_body_is_cut(serve: Serve, connect: Connect) -> None:
    """Otherwise an error page could fill the memory or hang the agent."""
    server = serve(floods(b"HTTP/1.1 400 Bad Request\r\n\r\n", b"no " * 20_000))
    with pytest.raises(RequestRejected) as caught:
        await ask(connect(server.url))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("sent", [b"", STREAM_HEAD, STREAM_HEAD + chunk(content="Half")])
async def test_a_server_that_falls_silent_times_out(sent: bytes, serve: Serve, connect: Connect) -> None:
    """Otherwise the agent waits forever on a dead connection."""
    server = serve(sends(sent, then=stalls))
    with pytest.raises(ConnectionFailed, match=r"sent nothing for 0\.4 s"):
        await ask(connect(server.url, timeout=0.4))


async def test_a_server_that_sends_only_comments_times_out(serve: Serve, connect: Connect) -> None:
    """Otherwise a gateway whose model is gone blocks the agent forever."""

    async def given_up(sent: bytes, filler: bytes) -> None:
        server = serve(sends(STREAM_HEAD + sent, *[filler] * 200, pause=0.02))
        with pytest.raises(ConnectionFailed, match=r"sent nothing but comments for 1\.5 s"):
            await ask(connect(server.url, timeout=0.3))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(given_up, b"", b"\n")
        tasks.start_soon(given_up, b"", b": ping\n\n")
        tasks.start_soon(given_up, chunk(content="Half"), b":\r\n: still there\r\n\r\n")


async def test_comments_keep_a_thinking_model_alive(serve: Serve, connect: Connect) -> None:
    """Otherwise a slow model behind a gateway with keep-alive comments is unusable."""
    server = serve(sends(STREAM_HEAD, *[b": ping\n\n"] * 20, HELLO, DONE, pause=0.04))
    message, _ = await ask(connect(server.url, timeout=0.5))
    assert message.text == "Hello, wörld"


async def test_a_refused_connection_is_reported(connect: Connect) -> None:
    """Otherwise a server that is not running would end in a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ConnectionFailed, match=f"No connection to http://127.0.0.1:{port}/chat/completions"):
        await ask(connect(f"http://127.0.0.1:{port}"))


async def test_stop_closes_the_connection(serve: Serve, connect: Connect) -> None:
    """Otherwise the server goes on computing, and charging, for an answer that nobody reads."""
    server = serve(sends(STREAM_HEAD + chunk(content="Half"), then=stalls), ANSWER)
    provider = connect(server.url)
    with anyio.CancelScope() as scope:

        async def stop(_: object) -> None:
            scope.cancel()

        await provider.complete(ModelRequest(Model("m"), "", [UserMessage("Hi")]), stop)
    assert scope.cancelled_caught
    assert await anyio.to_thread.run_sync(server.handled.wait, 5), "the server sees the connection end"
    message, _ = await ask(provider)
    assert message.text == "Hello, wörld"
    assert server.connections == 2


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://x",
        "http://",
        "http://a b",
        "http://x:99999",
        "http://x:y",
        "http://[::1",
        "http://me:hidden@[::1",
        "http://me:hidden@ho st",
        "http://xn--\xdf-.com",
        "http://xn--\xdf-.com:8000/v1",
        "http://" + "\xfc" * 70,
    ],
)
def test_an_invalid_base_url_is_refused_at_once(url: str) -> None:
    """Otherwise a mistake in the settings shows only in the middle of a run."""
    with pytest.raises(ConfigError, match="is not a valid base URL") as caught:
        OpenAIChat(base_url=url, api_key=None)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://x/v1#a", "http://x/#/v1", "http://x/v1?a=1#b"])
def test_a_base_url_with_a_fragment_is_refused(url: str) -> None:
    """Otherwise the path behind it is never sent, and the wrong URL answers."""
    with pytest.raises(ConfigError, match="contains a '#'"):
        OpenAIChat(base_url=url, api_key=None)


async def test_the_scheme_is_case_insensitive(serve: Serve, connect: Connect) -> None:
    """Otherwise a copied URL is refused although every browser accepts it."""
    server = serve(ANSWER)
    message, _ = await ask(connect(server.url.replace("http://", "HTTP://")))
    assert message.text == "Hello, wörld"


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("garbage://me:hidden@x", "HTTP_PROXY or ALL_PROXY is not a valid URL"),
        ("http://me:hidden@[::1", "is not a valid URL"),
        ("http://me:hidden@x:99999", "is not a valid URL"),
        ("http://me:hidden@xn--\xdf-.com", "is not a valid URL"),
        (":", "is not a valid URL"),
        ("socks5://me:hidden@127.0.0.1:1", "names a SOCKS proxy, for which the package 'socksio' is missing"),
        ("SOCKS5H://me:hidden@127.0.0.1:1", "names a SOCKS proxy"),
    ],
)
async def test_an_invalid_proxy_is_refused_and_not_shown(
    proxy: str, words: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a mistake in a variable of other programs ends in a traceback with the password in it."""
    monkeypatch.setitem(os.environ, "http_proxy", proxy)
    with pytest.raises(ConfigError, match=words) as caught:
        await ask(connect("http://model.example/v1"))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-\u200bsecret", "sk-secret\nX-Evil: 1", "sk-sécret"])
def test_an_invalid_key_is_refused_and_not_shown(key: str) -> None:
    """Otherwise a key with a pasted line break would end in a traceback that shows it."""
    with pytest.raises(ConfigError) as caught:
        OpenAIChat(base_url="http://x", api_key=key)
    assert "secret" not in str(caught.value)
    assert "sécret" not in str(caught.value)


async def test_loopback_requests_bypass_the_proxy(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise local models are unreachable in company networks; other servers go through the proxy."""
    proxy, server = serve(ANSWER), serve(ANSWER)
    monkeypatch.setitem(os.environ, "http_proxy", f"http://127.0.0.1:{proxy.port}")
    await ask(connect(server.url))
    assert (proxy.connections, server.connections) == (0, 1)
    await ask(connect("http://model.example/v1"))
    assert proxy.requests[0][0].startswith(b"POST http://model.example/v1/chat/completions")


async def test_the_message_has_its_cost(serve: Serve, connect: Connect) -> None:
    """Otherwise a cost limit never takes effect."""

    def price(message: AssistantMessage) -> float:
        return float(len(message.text))

    message, _ = await ask(connect(serve(ANSWER).url, price=price))
    assert message.cost == 12.0


@pytest.mark.parametrize(
    ("body", "models"),
    [
        (b'{"object": "list", "data": [{"id": "b"}, {"id": "a"}, {}]}', ["b", "a"]),
        (b'{"models": [{"name": "a"}]}', ["a"]),
        (b'{"data": null}', []),
    ],
)
async def test_a_servers_models_are_listed(
    body: bytes, models: list[str], serve: Serve, connect: Connect
) -> None:
    """Otherwise a user cannot choose one."""
    server = serve(http(body))
    assert await connect(server.url).models() == models
    assert server.requests[0][0].startswith(b"GET /v1/models ")


@pytest.mark.parametrize("answer", [http(b"<html>", "200 OK"), http(b"{}"), http(b"[]"), http(b"", "401 No")])
async def test_an_invalid_list_of_models_is_reported(answer: bytes, serve: Serve, connect: Connect) -> None:
    """Otherwise a web server passes for a model server without models."""
    with pytest.raises(ProviderError):
        await connect(serve(answer).url).models()


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (stalls, r"/models sent nothing for 0\.3 s"),
        (sends(b"HTTP/1.1 200 OK\r\n\r\n", *[b" "] * 100, pause=0.02), r"sent no complete list for 0\.3 s"),
    ],
)
async def test_the_list_of_models_has_a_shorter_timeout(
    answer: Handler, words: str, serve: Serve, connect: Connect
) -> None:
    """Otherwise the start of the program, which asks for it, hangs for minutes."""
    server = serve(answer)
    provider = connect(server.url, timeout=60, list_timeout=0.3)
    with pytest.raises(ConnectionFailed, match=words):
        await provider.models()
    with pytest.raises(ConnectionFailed, match=words):
        await provider.window("m")


async def test_local_servers_are_found_beside_silent_and_foreign_ones(serve: Serve) -> None:
    """Otherwise a new user with a local model is told that there is none, or waits long."""
    ours, page, silent = serve(http(b'{"data": [{"id": "a"}]}')), serve(http(b"<html>")), serve(stalls)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = unused.getsockname()[1]
    ports = [("Silent", silent.port), ("Page", page.port), ("Nobody", nobody), ("Ours", ours.port)]
    assert await discover(1.0, servers=ports) == [LocalServer("Ours", ours.url, ["a"])]
