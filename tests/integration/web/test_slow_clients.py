"""If these fail, a slow client delays all others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
import websockets
from anyio.abc import SocketStream
from starlette.types import Receive, Scope, Send

from newel.web.server import SocketConnection, listen, serve
from tests.integration.web.page import page
from tests.integration.web.served_workbench import TOKEN, Echo, ServedWorkbench, serve_workbench
from tests.integration.web.test_runs import SSE, Halting, begin

pytestmark = pytest.mark.anyio

PATIENCE = 1
"""Seconds that the servers of these tests give a client to say what it wants."""


def request(server: ServedWorkbench, line: str, *headers: str) -> bytes:
    """The head of a request; it lacks its end if the last header is empty."""
    return (
        "\r\n".join((f"{line} HTTP/1.1", f"Host: 127.0.0.1:{server.door.port}", *headers)).encode() + b"\r\n"
    )


def body_begun(server: ServedWorkbench) -> bytes:
    """A request, without its body."""
    json = "Content-Type: application/json"
    return request(
        server, "POST /api/login", json, f"Authorization: Bearer {TOKEN}", "Content-Length: 1000", ""
    )


@asynccontextmanager
async def connected(server: ServedWorkbench, said: bytes) -> AsyncGenerator[SocketStream]:
    async with await anyio.connect_tcp("127.0.0.1", server.door.port) as raw:
        await raw.send(said)
        yield raw


async def until_closed(raw: SocketStream, drop: bytes) -> bytes:
    """Keep sending slowly until the server closes the connection; returns its output."""
    heard = bytearray()

    async def drip() -> None:
        while True:
            await raw.send(drop)
            await anyio.sleep(PATIENCE / 10)

    with anyio.fail_after(8):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drip)
            try:
                while True:
                    heard += await raw.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                tasks.cancel_scope.cancel()
    return bytes(heard)


async def test_a_request_sent_byte_by_byte_is_given_up(tmp_path: Path) -> None:
    async with (
        serve_workbench(tmp_path, Echo(), request_timeout=PATIENCE) as server,
        connected(server, request(server, "GET /", "X-Slow: ")) as raw,
    ):
        answer = await until_closed(raw, b"a")
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_silent_connection_is_closed(tmp_path: Path) -> None:
    async with (
        serve_workbench(tmp_path, Echo(), request_timeout=PATIENCE) as server,
        connected(server, b"") as raw,
    ):
        assert await until_closed(raw, b"") == b""


async def test_a_second_request_on_a_connection_has_the_same_time_limit(tmp_path: Path) -> None:
    async with (
        serve_workbench(tmp_path, Echo(), request_timeout=PATIENCE) as server,
        connected(server, request(server, "GET /health", "")) as raw,
    ):
        assert (await raw.receive()).startswith(b"HTTP/1.1 401 ")
        await raw.send(request(server, "GET /health", "X-Slow: "))
        assert b"HTTP/1.1 408 " in await until_closed(raw, b"a")


async def test_a_refused_body_is_not_read_forever(tmp_path: Path) -> None:
    long = ("Content-Type: application/json", "Content-Length: 1000000", "")
    async with (
        serve_workbench(tmp_path, Echo(), request_timeout=PATIENCE) as server,
        connected(server, request(server, "POST /chat", *long)) as raw,
    ):
        assert (await until_closed(raw, b" ")).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        (f"GET /ws?{'x' * 9000}", []),
        ("GET /ws", [f"X-{number}: x" for number in range(200)]),
        ("POST /ws", ["Content-Length: 3"]),
    ],
    ids=["long", "many headers", "no GET"],
)
async def test_an_invalid_handshake_is_refused_at_once(line: str, headers: list[str], tmp_path: Path) -> None:
    """Otherwise its connection is held as a socket that nothing serves."""
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    async with (
        serve_workbench(tmp_path, Echo()) as server,
        connected(server, request(server, line, *upgrade, *headers, "")) as raw,
    ):
        assert (await until_closed(raw, b"")).startswith(b"HTTP/1.1 400 ")


async def test_junk_instead_of_a_body_harms_no_other_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chunked = ("Content-Type: application/json", "Transfer-Encoding: chunked", "")
    async with serve_workbench(tmp_path, Echo()) as server:
        nonsense = request(server, "POST /chat", *chunked) + b"this is no chunk\r\n"
        async with connected(server, nonsense) as raw:
            assert (await until_closed(raw, b"")).startswith(b"HTTP/1.1 400 ")
        assert (await server.client.get("/health")).status_code == 200
    assert not caplog.records


async def test_junk_after_an_answer_harms_no_other_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chunked = ("Content-Type: application/json", "Transfer-Encoding: chunked", "")
    async with serve_workbench(tmp_path, Echo()) as server:
        async with connected(server, request(server, "POST /chat", *chunked)) as raw:
            assert (await raw.receive()).startswith(b"HTTP/1.1 401 ")
            await until_closed(raw, b"this is no chunk\r\n")
        assert (await server.client.get("/health")).status_code == 200
    assert not caplog.records


@pytest.mark.slow  # a thousand connections
async def test_a_thousand_unfinished_requests_lock_no_client_out(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, AsyncExitStack() as stack:
        for said in (b"", b"GET / HTTP/1.1\r\nX-Slow: ", body_begun(server)):
            for _ in range(334):
                await stack.enter_async_context(connected(server, said))
        async with page(server) as one:
            tab = await one.open_chat()
            await one.ask("send", tab=tab, messageId="m1", text="Hello")
            await one.event("agent_end")
        assert (await server.client.get("/health")).status_code == 200


@pytest.mark.slow  # seconds of waiting
async def test_a_client_that_waits_for_events_may_wait_indefinitely(tmp_path: Path) -> None:
    """An idle page, a stream and a long poll are not slow requests."""
    model = Halting()
    async with (
        serve_workbench(tmp_path, model, request_timeout=PATIENCE) as server,
        page(server) as one,
    ):
        run = await begin(server)
        await model.halfway.wait()
        path = f"/api/runs/{run}/events"
        known = (await server.client.get(path)).json()["next"]
        later: list[int] = []

        async def wait() -> None:
            answer = await server.client.get(f"{path}?after={known}&wait=10")
            later.append(answer.json()["events"][0]["seq"])

        async with (
            server.client.stream("GET", path, headers=SSE) as stream,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(wait)
            await anyio.sleep(2 * PATIENCE)
            assert not later
            model.go_on.set()
            assert (await stream.aread()).rstrip().rpartition(b"event: ")[2].startswith(b"end")
        assert later == [known + 1]
        assert (await one.ask("ping"))["type"] == "reply"


async def test_a_page_that_answers_no_ping_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    """A laptop that went to sleep during a transfer is not a failure of the server."""
    is_told = anyio.Event()

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        socket: SocketConnection = receive.__self__  # pyright: ignore[reportFunctionMemberAccess] — to see it end
        socket.transport.set_write_buffer_limits(high=2**26)
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "x" * 2**24})  # more than fits into the buffers
        while not socket.close_sent:  # noqa: ASYNC110 — of that nobody is told
            await anyio.sleep(0.01)
        is_told.set()
        await send({"type": "websocket.send", "text": "more"})

    listener, ready, closing = listen("127.0.0.1", 0), anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve, app, listener, announce=ready.set, closing=closing, ping=0.1))
        await ready.wait()
        async with websockets.connect(f"ws://127.0.0.1:{listener.port}/ws", max_size=None) as stuck:
            stuck.transport.pause_reading()
            with anyio.fail_after(8):
                await is_told.wait()
            stuck.transport.abort()
        tasks.cancel_scope.cancel()
    assert not caplog.records
