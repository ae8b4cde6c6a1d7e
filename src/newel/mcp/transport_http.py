"""A server at a URL: MCP over streamable HTTP, with limited responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from newel.mcp.framing import MAX_MESSAGE, StderrTail
from newel.mcp.server_config import ServerConfig

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 30.0
READ_TIMEOUT = 300.0
"""Seconds of silence after which a stream of events is resumed."""


class HttpTransport:
    """The connection to a server. ``ended`` is set when its session is over; ``reason`` is the last error. Without a
    process, it cannot be ``exited``.
    """

    def __init__(self, server: ServerConfig, *, auth: httpx2.Auth | None = None) -> None:
        self.ended = anyio.Event()
        self.exited = False
        self.reason = ""
        self.tail = StderrTail()
        self._server = server
        self._auth = auth

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Any]:
        """The SDK's transport over our own client. The session raises errors of the connection."""
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        url = self._server.url or ""
        headers = {"accept-encoding": "identity", **self._server.headers}
        timeout = httpx2.Timeout(CONNECT_TIMEOUT, read=READ_TIMEOUT)
        hooks: dict[str, list[Any]] = {"response": [self._on_response]}
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=timeout, auth=self._auth, event_hooks=hooks
            ) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
        ):
            yield streams

    async def _on_response(self, response: httpx2.Response) -> None:
        """Check each response before its body is read."""
        if response.status_code in {401, 403}:
            self.reason = (
                f"It needs authorization (HTTP {response.status_code}): give it a token in `headers`."
            )
        elif "mcp-session-id" in response.request.headers and await _is_session_lost(response):
            self.reason = "It no longer knows this session."
            self.ended.set()
        elif response.status_code >= 400:
            self.reason = f"It answered with HTTP {response.status_code}."
        else:
            self.reason = ""
        response.stream = limit_body(response)


async def _is_session_lost(response: httpx2.Response) -> bool:
    """Whether a server no longer knows the session: 404 says so, and many servers answer 400 with words about it."""
    if response.status_code != 400:
        return response.status_code == 404
    response.stream = limit_body(response)
    try:
        words = (await response.aread()).lower()
    except Exception:  # noqa: BLE001 — the caller of the request gets this, too
        return False
    return b"session" in words or b"not initialized" in words


def limit_body(response: httpx2.Response) -> httpx2.AsyncByteStream:
    """The body of a response, at most ``MAX_MESSAGE`` bytes; a stream of events may continue forever, and the SDK
    limits each event. A compressed body is refused: it was not requested, and a small one can expand to a huge
    one.
    """
    import httpx2

    whole = response.stream
    assert isinstance(whole, httpx2.AsyncByteStream)  # noqa: S101 — the client is an asynchronous one
    events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    packed = response.headers.get("content-encoding", "identity").lower() not in {"identity", ""}

    class BoundedStream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            if packed:
                raise TooLong("it is compressed, although Newel did not ask for that")
            size = 0
            async for chunk in whole:
                size += len(chunk)
                if size > MAX_MESSAGE and not events:
                    raise TooLong(f"it has more than {MAX_MESSAGE // 2**20} MiB")
                began = anyio.current_time()
                yield chunk
                await anyio.sleep(anyio.current_time() - began)  # a flood gets at most half of the time

        async def aclose(self) -> None:
            await whole.aclose()

    class TooLong(httpx2.StreamError):
        """The SDK turns this class into an error of the call alone."""

    return BoundedStream()
