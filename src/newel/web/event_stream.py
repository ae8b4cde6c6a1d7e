"""Server-sent events: an answer that is written while it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from newel.concurrency import background_tasks
from newel.text.json import to_json

MAX_WAIT = 30.0
"""Seconds that a page of events may be waited for."""
HEARTBEAT = 15.0
"""Seconds after which a comment shows that the connection lives."""


class Events:
    """Writes events into one answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = anyio.Lock()

    async def __call__(self, name: str, value: object, *, number: int | None = None) -> None:
        """An event with ``value`` as JSON; ``number`` is where a reader that comes back goes on."""
        head = f"event: {name}\n" if number is None else f"event: {name}\nid: {number}\n"
        await self.write(b"%sdata: %s\n\n" % (head.encode(), to_json(value)))

    async def write(self, data: bytes) -> None:
        async with self._lock:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})


class EventStream(Response):
    """``produce`` writes the events; when it returns the answer is over. It is cancelled when the reader goes away and
    when ``closing`` is set.
    """

    media_type = "text/event-stream"

    def __init__(self, produce: Callable[[Events], Awaitable[None]], closing: anyio.Event) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._produce = produce
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 — the shape of ASGI
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        events = Events(send)
        async with until(self._closing.wait, lambda: _disconnected(receive), lambda: _beat(events)):
            await self._produce(events)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def resumed(last_event_id: str | None, otherwise: int) -> int:
    """The number after which a reader that came back goes on; ``otherwise`` for one that says none."""
    known = last_event_id or ""
    return int(known) if known.isascii() and known.isdecimal() and len(known) < 17 else otherwise


@asynccontextmanager
async def until(*ends: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Leave the block when one of these returns, if it is not done before. What the block raises leaves as itself."""
    async with background_tasks() as tasks:

        async def leave(ended: Callable[[], Awaitable[object]]) -> None:
            await ended()
            tasks.cancel_scope.cancel()

        for ended in ends:
            tasks.start_soon(leave, ended)
        yield


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _beat(events: Events) -> None:
    while True:
        await anyio.sleep(HEARTBEAT)
        await events.write(b": \n\n")
