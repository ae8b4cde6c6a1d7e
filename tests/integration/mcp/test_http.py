"""If these fail, a broken HTTP server costs more than its own tools."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from newel.mcp.server_config import ServerConfig
from tests.integration.mcp.rogues import SOON, Started, call, status, until
from tests.integration.mcp.test_faulty_servers import peak

pytestmark = pytest.mark.anyio

TOOL = {"name": "act", "inputSchema": {"type": "object"}}


class Rogue(BaseHTTPRequestHandler):
    """Answers the handshake, and a call according to the server's ``way``."""

    protocol_version = "HTTP/1.1"

    @property
    def way(self) -> Way:
        assert isinstance(self.server, Way)
        return self.server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the base's name
        pass

    def do_GET(self) -> None:
        self.answer(405, b"")

    def do_DELETE(self) -> None:
        self.answer(405, b"")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.way.seen.append(self.headers)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "rogue", "version": "1"},
            },
            "tools/list": {"tools": [TOOL]},
        }
        if self.way.name == "locked":
            self.answer(401, b"")
        elif self.way.name == "silly":
            self.answer(200, b"hello", kind="text/html")
        elif "id" not in request:
            self.answer(202, b"")
        elif request["method"] == "server/discover":
            self.answer(404, b"")
        elif request["method"] == "tools/call" and not self.way.knows_session:
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            self.answer(400, json.dumps({"jsonrpc": "2.0", "error": error, "id": None}).encode())
        elif request["method"] == "tools/call":
            self.act(request)
        else:
            self.way.knows_session = True
            self.result(request, results[request["method"]])

    def act(self, request: dict[str, Any]) -> None:
        result = {"content": [{"type": "text", "text": "done"}]}
        match self.way.name:
            case "huge":
                self.answer(200, b" " * (100 * 2**20))
            case "packed":
                packed = gzip.compress(b" " * (100 * 2**20))
                self.answer(200, packed, **{"content-encoding": "gzip"})
            case "event":
                self.answer(200, b"data: " + b"x" * (40 * 2**20), kind="text/event-stream")
            case "forgetful" if self.way.calls == 0:
                self.answer(404, b"")
            case "gone":
                self.close_connection = True
                self.connection.close()
            case _:
                self.result(request, result)
        self.way.calls += 1

    def result(self, request: dict[str, Any], result: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        self.answer(200, body, **{"mcp-session-id": "s"})

    def answer(self, code: int, body: bytes, *, kind: str = "application/json", **headers: str) -> None:
        self.send_response(code)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


class Way(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, way: str) -> None:
        super().__init__(("127.0.0.1", 0), Rogue)
        self.name = way
        self.calls = 0
        self.knows_session = False
        self.seen: list[Any] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """These tests are about clients that disconnect."""

    def config(self, **fields: Any) -> ServerConfig:
        url = f"http://127.0.0.1:{self.server_address[1]}/mcp"
        return ServerConfig(
            name="rogue", origin=Path("/etc/mcp_config.json"), level="user", url=url, **fields
        )


@pytest.fixture
def serving() -> Iterator[Callable[[str], Way]]:
    servers: list[Way] = []

    def serve(way: str) -> Way:
        server = Way(way)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


async def test_headers_are_sent_with_their_variables_filled_in(
    started: Started, serving: Callable[[str], Way]
) -> None:
    server = serving("plain")
    async with started(server.config(headers={"X-Key": "k ${KEY}"}), environ={"KEY": "v"}) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.output == "done"
    assert {headers["x-key"] for headers in server.seen} == {"k v"}


async def test_a_server_that_requires_authorization_is_broken_with_the_reason(
    started: Started, serving: Callable[[str], Way]
) -> None:
    async with started(serving("locked").config()) as manager:
        assert status(manager).state == "broken"
        assert "needs authorization" in status(manager).reason


@pytest.mark.parametrize("way", ["silly", "nobody"])
async def test_a_url_without_an_mcp_server_is_broken_with_a_reason(
    started: Started, serving: Callable[[str], Way], way: str
) -> None:
    server = serving(way)
    config = server.config()
    if way == "nobody":
        server.shutdown()
        server.server_close()
    async with started(config) as manager:
        assert status(manager).state == "broken"
        assert len(status(manager).reason) > 10


@pytest.mark.slow  # hundreds of megabytes
@pytest.mark.parametrize("way", ["huge", "packed", "event"])
async def test_an_endless_response_fails_only_its_call_in_bounded_memory(
    started: Started, serving: Callable[[str], Way], way: str
) -> None:
    async with started(serving(way).config()) as manager:
        before = peak()
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        grown = peak() - before
        assert grown < (330 if way == "huge" else 120)  # the server is in this process, with its own 100 MiB
        assert status(manager).state == "active"


async def test_a_session_that_the_server_forgot_is_started_again(
    started: Started, serving: Callable[[str], Way]
) -> None:
    async with started(serving("forgetful").config(), pauses=SOON) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        await until(lambda: status(manager).state == "active")
        result, _ = await call(manager, "rogue__act")
        assert result.output == "done"


async def test_a_server_that_was_restarted_and_answers_400_is_connected_again(
    started: Started, serving: Callable[[str], Way]
) -> None:
    """Many do that for a session that they do not know. Else all calls fail until the user restarts Newel."""
    server = serving("plain")
    async with started(server.config(), pauses=SOON) as manager:
        server.knows_session = False
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        await until(lambda: server.knows_session and status(manager).state == "active")
        result, _ = await call(manager, "rogue__act")
        assert result.output == "done"


async def test_a_connection_lost_during_a_call_is_a_result_and_the_server_is_retried(
    started: Started, serving: Callable[[str], Way]
) -> None:
    server = serving("gone")
    async with started(server.config(), pauses=SOON) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        assert "may have had an effect" in result.output
        server.name = "plain"
        await until(lambda: status(manager).state == "active")
