"""How soon ``newel acp`` and ``newel rpc`` answer, how soon an event reaches their client, and their memory.

    ./run python -m benchmarks.front_ends [--runs 5]

*first answer* is the time from the start of the process to the answer to its first request (``initialize``, ``state``), in
milliseconds. *event* is the time from the moment in which the model's server sends a piece of text to its arrival at the client: the HTTP
client, the parser, the agent, the session and the pipe are in between. *memory* is the largest resident size after a prompt, in MiB. The
floor is a Python process that answers a line with a line, and one that passes on what the server sends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

PIECES = 200
PAUSE_S = 0.005

ECHO = "import sys; line = sys.stdin.readline(); print(line, end='', flush=True); sys.stdin.readline()"
RELAY = """\
import sys, urllib.request
print(sys.stdin.readline(), end="", flush=True)
answer = urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/chat/completions", b"{}"))
for line in answer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""


async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request with pieces of text that hold the time in which each was sent, in nanoseconds."""
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"GET"):
        body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body)
    else:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for _ in range(PIECES):
            delta = {"choices": [{"index": 0, "delta": {"content": f"<{time.time_ns()}>"}}]}
            writer.write(f"data: {json.dumps(delta)}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(PAUSE_S)
        end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        writer.write(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())
    await writer.drain()
    writer.close()


class Client:
    """A process that reads and writes lines, and when its lines arrived."""

    def __init__(self, process: Process, started: float) -> None:
        self.process = process
        self.started = started
        self.delays: list[float] = []

    async def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def until(self, part: bytes) -> bytes:
        """The first line with this part; the times in the lines before it are collected, in milliseconds."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            now = time.time_ns()
            sent = line.partition(b"<")[2].partition(b">")[0]
            if sent.isdigit() and b"message_end" not in line:
                self.delays.append((now - int(sent)) / 1e6)
            if part in line:
                return line
        raise RuntimeError(f"the process ended without {part!r}")

    def memory(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@asynccontextmanager
async def running(*words: str, url: str) -> AsyncGenerator[Client]:
    with tempfile.TemporaryDirectory() as home:
        environ = {"PATH": "/usr/bin:/bin", "HOME": home, "LLM_BASE_URL": url, "LLM_DEFAULT_MODEL": "m"}
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=home,
            env=environ,
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=2**24,
        )
        try:
            yield Client(process, started)
        finally:
            process.kill()
            await process.wait()


async def acp(url: str) -> tuple[float, list[float], float]:
    async with running(sys.executable, "-m", "newel", "acp", url=url) as client:
        rpc = {"jsonrpc": "2.0", "id": 1}
        await client.send({**rpc, "method": "initialize", "params": {"protocolVersion": 1}})
        await client.until(b"agentCapabilities")
        first = time.perf_counter() - client.started
        await client.send(
            {**rpc, "id": 2, "method": "session/new", "params": {"cwd": str(Path.cwd()), "mcpServers": []}}
        )
        session = json.loads(await client.until(b'"id":2'))["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Go."}]}
        await client.send({**rpc, "id": 3, "method": "session/prompt", "params": prompt})
        await client.until(b'"id":3')
        return first * 1000, client.delays, client.memory()


async def rpc(url: str) -> tuple[float, list[float], float]:
    async with running(sys.executable, "-m", "newel", "rpc", url=url) as client:
        await client.send({"id": 1, "type": "state"})
        await client.until(b'"response"')
        first = time.perf_counter() - client.started
        await client.send({"id": 2, "type": "prompt", "text": "Go."})
        await client.until(b"agent_end")
        return first * 1000, client.delays, client.memory()


async def floor(url: str) -> tuple[float, list[float], float]:
    async with running(sys.executable, "-c", ECHO, url=url) as client:
        await client.send({"id": 1})
        await client.until(b"id")
        first = time.perf_counter() - client.started
    async with running(sys.executable, "-c", RELAY, url, url=url) as client:
        await client.send({"id": 1})
        await client.until(b"[DONE]")
        return first * 1000, client.delays, client.memory()


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    server = await asyncio.start_server(stream, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    print("             first answer   event: median, 95 %   memory")
    for name, measure in (("newel acp", acp), ("newel rpc", rpc), ("floor", floor)):
        results = [await measure(url) for _ in range(runs)]
        delays = sorted(delay for _, each, _ in results for delay in each)
        print(
            f"{name:<12} {statistics.median(first for first, _, _ in results):7.0f} ms "
            f"{statistics.median(delays):11.2f} ms {delays[len(delays) * 95 // 100]:6.2f} ms "
            f"{max(memory for _, _, memory in results):8.0f} MiB"
        )


if __name__ == "__main__":
    asyncio.run(main())
