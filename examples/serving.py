"""Shared by the two servers: one token, this machine only, and streams that end with their client."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import newel

MAX_BODY = 32 * 1024 * 1024

Write = Callable[[object], Awaitable[None]]


class EventStream(Response):
    """Server-sent events that ``produce`` writes. When the client disconnects, ``produce`` is cancelled."""

    def __init__(self, produce: Callable[[Write], Awaitable[None]]) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._produce = produce

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def write(value: object) -> None:
            data = b"data: %s\n\n" % newel.to_json(value)
            await send({"type": "http.response.body", "body": data, "more_body": True})

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                await self._produce(write)
            except newel.NewelError as error:
                await write({"type": "error", "code": error.code, "message": str(error)})
            tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def read_body(request: Request, token: str) -> bytes:
    """The body of a request that has the token. A page of another site knows no token, so it cannot ask anything."""
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not secrets.compare_digest(given.encode(), token.encode()):
        raise HTTPException(401, "Send `Authorization: Bearer TOKEN` with the token that the server printed.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"The body has more than {MAX_BODY} bytes.")
    return body


async def serve(app: Starlette, port: int) -> None:
    """Serve on this machine alone, until Ctrl+C."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1
    )
    await uvicorn.Server(config).serve()
