"""The cost of idle pages for the server: memory of 1,000 open WebSockets, and the time until all get a change.

    python benchmarks/sockets.py [-n 1000] [--watch]

The server runs in a process of its own, with the engine, the tabs and everything else of a workbench except the model;
with ``--watch`` each socket also watches a tab. ``memory``: resident, in MiB. ``hear``: milliseconds from a request
that changes the tabs until the last socket gets the change. ``stop``: median and 95th percentile of 100 runs of an
endless model, from the page's request until its acknowledgement, and until the run has ended.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import websockets

ROOT = Path(__file__).resolve().parent.parent
STOPS = 100


class Row(NamedTuple):
    """One measurement; memory in MiB, times in milliseconds."""

    before: float
    after: float
    open: float
    hear: float
    stops: list[tuple[float, float]]
    """Each until it was taken, and until it was done."""


def resident(pid: int) -> float:
    """MiB of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(count: int, *, watch: bool) -> Row:
    """Open the sockets, then change something."""
    with (
        tempfile.TemporaryDirectory(prefix="newel-bench-") as folder,
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.web.program", folder],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        url, _, token = server.stdout.readline().strip().partition("/#token=")
        try:
            return anyio.run(lambda: visit(count, f"ws{url[4:]}/ws", token, server.pid, watch=watch))
        finally:
            server.terminate()
            server.communicate()


async def visit(count: int, url: str, token: str, pid: int, *, watch: bool) -> Row:
    def connect() -> websockets.connect:
        headers = {"Authorization": f"Bearer {token}"}
        return websockets.connect(
            url, additional_headers=headers, compression=None, ping_interval=None, proxy=None
        )

    async with connect() as alone:
        stops = [await stop(alone) for _ in range(STOPS)]
    before = resident(pid)
    sockets: list[websockets.ClientConnection] = []

    async def open_one() -> None:
        sockets.append(await connect())

    began = time.monotonic()
    for start in range(0, count, 50):
        async with anyio.create_task_group() as tasks:
            for _ in range(start, min(start + 50, count)):
                tasks.start_soon(open_one)
    took = time.monotonic() - began
    if watch:
        tab = (await ask(sockets[0], "openChat"))["tab"]
        for socket in sockets:
            await ask(socket, "watch", tab=tab)
    await anyio.sleep(1)
    after = resident(pid)
    began = time.monotonic()
    await sockets[0].send('{"type": "openAgent", "id": "a"}')
    async with anyio.create_task_group() as tasks:
        for socket in sockets:
            tasks.start_soon(hear, socket, "tabs")
    heard = time.monotonic() - began
    for socket in sockets:
        socket.transport.abort()
    return Row(before, after, 1000 * took, 1000 * heard, stops)


async def hear(socket: websockets.ClientConnection, kind: str) -> dict[str, Any]:
    while (message := msgspec.json.decode(await socket.recv()))["type"] != kind:
        pass
    return message


async def ask(socket: websockets.ClientConnection, kind: str, **fields: object) -> dict[str, Any]:
    await socket.send(msgspec.json.encode({"type": kind, "id": "a", **fields}).decode())
    return await hear(socket, "reply")


async def stop(socket: websockets.ClientConnection) -> tuple[float, float]:
    """Let the model begin to answer, then stop it: milliseconds until the acknowledgement, and until the end."""
    tab = (await ask(socket, "openChat"))["tab"]
    await ask(socket, "watch", tab=tab)
    await ask(socket, "send", tab=tab, messageId=tab, text="Speak")
    while (await hear(socket, "event"))["event"]["type"] != "message_update":
        pass
    await anyio.sleep(0.1)  # the time to read it
    began = time.monotonic()
    await ask(socket, "stop", tab=tab, now=True)
    taken = time.monotonic()
    while (await hear(socket, "tabs"))["tabs"][-1]["status"] != "idle":
        pass
    done = time.monotonic()
    await ask(socket, "closeTab", tab=tab)
    return 1000 * (taken - began), 1000 * (done - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", "--count", type=int, default=1000, help="sockets (1000)")
    parser.add_argument("--watch", action="store_true", help="each socket watches a tab")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    row = measure(options.count, watch=options.watch)
    each = 1024 * (row.after - row.before) / options.count
    print("sockets  before MiB  memory MiB  each KiB  open ms  hear ms")
    print(
        f"{options.count:7}  {row.before:10.1f}  {row.after:10.1f}  {each:8.1f}  {row.open:7.0f}  {row.hear:7.0f}"
    )
    for what, times in zip(("taken", "done"), zip(*row.stops, strict=True), strict=True):
        print(
            f"stop {what}: median {statistics.median(times):.1f} ms, p95 {sorted(times)[len(times) * 95 // 100]:.1f} ms"
        )


if __name__ == "__main__":
    main()
