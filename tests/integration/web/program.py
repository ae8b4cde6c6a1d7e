"""A workbench's server in a process of its own: ``python -m tests.integration.web.program FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from newel.agent.events import TextDelta
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from tests.integration.web.served_workbench import serve_workbench


class Endless:
    """A model whose answer never ends."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        await on_delta(TextDelta("Well, "))
        await anyio.sleep_forever()
        raise AssertionError


async def main(folder: Path) -> None:
    async with serve_workbench(folder, Endless(), relay=Endless()) as server:
        print(server.door.url, flush=True)  # noqa: T201 — a program says it
        await server.ended.wait()
    print("closed", flush=True)  # noqa: T201 — a program says it


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
