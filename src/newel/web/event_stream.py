"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
from fastapi import Header
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from newel.concurrency import background_tasks
from newel.text.json import to_json

MAX_WAIT = 30.0
"""For events in a JSON page, in seconds."""
HEARTBEAT = 15.0
"""Between two comments that keep the connection alive, in seconds."""

LastEventId = Annotated[
    str | None, Header(description="The number of the last event received, for a stream.")
]


class Events:
    """Writes events to one response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = anyio.Lock()

    async def __call__(self, name: str, value: object, *, number: int | None = None) -> None:
        """Write an event with ``value`` as JSON; a reader that reconnects resumes after ``number``."""
        head = f"event: {name}\n" if number is None else f"event: {name}\nid: {number}\n"
        await self.write(b"%sdata: %s\n\n" % (head.encode(), to_json(value)))

    async def write(self, data: bytes) -> None:
        async with self._lock:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})


class EventStream(Response):
    """A response that ``produce`` writes; it ends when that returns, and cancels it when the client disconnects or ``closing`` is
    set.
    """

    media_type = "text/event-stream"

    def __init__(self, produce: Callable[[Events], Awaitable[None]], closing: anyio.Event) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})  # nginx would hold events back
        del self.headers["content-length"]
        self._produce = produce
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 — the shape of ASGI
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        events = Events(send)
        async with cancel_when_any(
            self._closing.wait, lambda: _wait_for_disconnect(receive), lambda: _beat(events)
        ):
            await self._produce(events)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def accepts_stream(request: Request) -> bool:
    """Whether a reader wants a stream rather than a page."""
    return "text/event-stream" in request.headers.get("accept", "")


def resume_after(last_event_id: str | None, otherwise: int) -> int:
    """The number after which a reader resumes: its ``Last-Event-ID``, or ``otherwise``."""
    number = last_event_id or ""
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 17 else otherwise


@asynccontextmanager
async def cancel_when_any(*ends: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Leave the block when one of these returns."""
    async with background_tasks() as tasks:

        async def leave(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            tasks.cancel_scope.cancel()

        for wait in ends:
            tasks.start_soon(leave, wait)
        yield


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _beat(events: Events) -> None:
    while True:
        await anyio.sleep(HEARTBEAT)
        await events.write(b": \n\n")
