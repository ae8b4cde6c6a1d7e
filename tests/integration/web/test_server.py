"""If these fail, the server does not announce its address, or does not shut down when asked to."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import msgspec
import pytest
import websockets

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]
REQUEST = {"model": {"id": "m"}, "systemPrompt": "", "messages": [{"role": "user", "content": "Hi"}]}


class Server:
    """A server in a process of its own; ``output`` is what it printed on both streams, once it has ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.line = process.stdout.readline().strip()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#token=([A-Za-z0-9_-]{32,})", self.line)
        assert found, self.line
        self.url, self.token = found[1], found[2]
        self.headers = {"Authorization": f"Bearer {self.token}"}

    def end(self) -> tuple[int, str, float]:
        """Its exit code, its output since the URL, and the seconds that it took to end."""
        began = time.monotonic()
        output, _ = self.process.communicate(timeout=10)
        return self.process.returncode, output, time.monotonic() - began


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.web.program", str(folder)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[Server]:
    with start(folder) as process:
        try:
            yield await anyio.to_thread.run_sync(Server, process)
        finally:
            process.kill()


async def messages(socket: websockets.ClientConnection) -> AsyncGenerator[str | bytes]:
    """Read everything until the socket closes."""
    with contextlib.suppress(websockets.ConnectionClosed):
        while True:
            yield await socket.recv()


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_it_stops_at_once_with_pages_and_streams_open(which: signal.Signals, tmp_path: Path) -> None:
    """Otherwise Ctrl+C hangs on every open tab, or leaves the journal as after a crash."""
    async with (
        running(tmp_path) as server,
        httpx2.AsyncClient(
            base_url=server.url, headers=server.headers, timeout=10, trust_env=False
        ) as client,
        websockets.connect(f"ws{server.url[4:]}/ws", additional_headers=server.headers) as socket,
        client.stream("POST", "/api/transport/run", json=REQUEST) as relay,
        client.stream("POST", "/chat", json={"message": "Hi"}) as chat,
    ):
        await socket.recv()
        assert await anext(relay.aiter_bytes())
        run = msgspec.json.decode((await client.get("/api/state")).content)["tabs"][0]["run"]
        waiting = client.get(f"/api/runs/{run}/events?after=1000&wait=30")

        async def wait() -> None:
            assert (await waiting).json()["events"] == []

        async def end() -> None:
            await anyio.sleep(0.2)
            server.process.send_signal(which)
            code, output, seconds = await anyio.to_thread.run_sync(server.end)
            assert (code, output) == (0, "closed\n")
            assert seconds < 15  # the open request for events waits 30

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(end)
        assert [each async for each in messages(socket)]
        assert socket.close_code == 1012
        assert await chat.aread() == b""


async def test_the_printed_url_works_at_once_and_the_token_is_nowhere_else(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as client:
            assert (await client.get("/health", headers=server.headers)).status_code == 200
            for path in ("/health", f"/nothing?token={server.token}", "/ws"):
                await client.get(path, headers=server.headers)
            await client.post("/api/login", json={"challenge": "x" * 16}, headers=server.headers)
        async with await anyio.connect_tcp("127.0.0.1", int(server.url.rpartition(":")[2])) as raw:
            await raw.send(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            assert (await raw.receive()).startswith(b"HTTP/1.1 400")
        server.process.send_signal(signal.SIGTERM)
        code, output, _ = await anyio.to_thread.run_sync(server.end)
    assert code == 0
    assert server.token not in output
