"""What pages that are only open cost the server: memory of 1,000 idle WebSockets, and how soon all of them hear of a change.

    python benchmarks/sockets.py [-n 1000] [--watch]

A server in a process of its own, with the engine, the board and all that a workbench has but the model; ``--watch``
has each socket watch a tab, too. ``memory``: resident, in MiB. ``hear``: milliseconds from a request that changes the
tabs until the last socket has heard of it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
import websockets

ROOT = Path(__file__).resolve().parent.parent


class Row(NamedTuple):
    """One measurement; memory in MiB, times in milliseconds."""

    before: float
    after: float
    open: float
    hear: float


def resident(pid: int) -> float:
    """MiB of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(count: int, *, watch: bool) -> Row:
    """Open that many sockets, then change something."""
    with (
        tempfile.TemporaryDirectory(prefix="newel-bench-") as folder,
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.web.program", folder, "0"],
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
    before = resident(pid)
    sockets: list[websockets.ClientConnection] = []

    async def open_one() -> None:
        sockets.append(
            await websockets.connect(
                url,
                additional_headers={"Authorization": f"Bearer {token}"},
                compression=None,
                ping_interval=None,
                proxy=None,
            )
        )

    async def hear(socket: websockets.ClientConnection, kind: str) -> dict[str, str]:
        while (message := msgspec.json.decode(await socket.recv()))["type"] != kind:
            pass
        return message

    began = time.monotonic()
    for start in range(0, count, 50):
        async with anyio.create_task_group() as tasks:
            for _ in range(start, min(start + 50, count)):
                tasks.start_soon(open_one)
    took = time.monotonic() - began
    if watch:
        await sockets[0].send('{"type": "openChat", "id": "o"}')
        tab = (await hear(sockets[0], "reply"))["tab"]
        for socket in sockets:
            await socket.send(msgspec.json.encode({"type": "watch", "id": "w", "tab": tab}).decode())
            await hear(socket, "snapshot")
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
    return Row(before, after, 1000 * took, 1000 * heard)


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


if __name__ == "__main__":
    main()
