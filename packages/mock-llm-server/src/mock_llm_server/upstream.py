"""Forwards requests to a real endpoint, to record its answers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import ByteStream

from mock_llm_server.dialects import CHAT_COMPLETIONS
from mock_llm_server.http1 import BodyInterrupted, Request
from mock_llm_server.reply import Piece, Reply

_DROPPED = {"transfer-encoding", "connection", "keep-alive"}
_CONNECTION_ERRORS = (
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    h11.RemoteProtocolError,
    OSError,
)


class Upstream:
    """An endpoint at ``url``, with its path: ``https://host/v1``. ``key`` replaces the client's key. Raises ``ValueError`` unless
    the URL is one of http or https.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url} is not an http or https URL")
        self._tls = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._netloc = parts.netloc.rpartition("@")[2]
        self._path = parts.path.rstrip("/")
        self._key = key

    @asynccontextmanager
    async def forward(self, request: Request) -> AsyncGenerator[Reply]:
        """The endpoint's reply, whose body is still arriving; without one, an error reply with status 502."""
        http = h11.Connection(h11.CLIENT)
        try:
            stream = await self._connect()
        except OSError as error:
            yield CHAT_COMPLETIONS.error(502, f"The upstream {self._netloc} cannot be reached: {error}.")
            return
        async with stream:
            try:
                await self._send(http, stream, request)
                head = await _next_event(http, stream)
                while isinstance(head, h11.InformationalResponse):
                    head = await _next_event(http, stream)
            except _CONNECTION_ERRORS as error:
                yield CHAT_COMPLETIONS.error(502, f"The upstream {self._netloc} sent no HTTP reply: {error}.")
                return
            if not isinstance(head, h11.Response):
                yield CHAT_COMPLETIONS.error(
                    502, f"The upstream {self._netloc} closed the connection without a reply."
                )
                return
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            headers = {name: value for name, value in headers.items() if name not in _DROPPED}
            yield Reply(head.status_code, headers, [], more=_body(http, stream))

    async def _connect(self) -> ByteStream:
        if not self._tls:
            return await anyio.connect_tcp(self._host, self._port)
        context = ssl.create_default_context()
        return await anyio.connect_tcp(
            self._host, self._port, ssl_context=context, tls_standard_compatible=False
        )

    async def _send(self, http: h11.Connection, stream: ByteStream, request: Request) -> None:
        authorization = f"Bearer {self._key}" if self._key else request.headers.get("authorization")
        headers = {
            "host": self._netloc,
            "accept": request.headers.get("accept", "*/*"),
            "accept-encoding": "identity",
            "connection": "close",
            "content-type": request.headers.get("content-type", "application/json"),
            "content-length": str(len(request.body)),
        }
        if authorization:
            headers["authorization"] = authorization
        target = self._path + request.path.removeprefix("/v1")
        head = h11.Request(method=request.method, target=target, headers=list(headers.items()))
        for event in (head, h11.Data(data=request.body), h11.EndOfMessage()):
            if data := http.send(event):
                await stream.send(data)


async def _next_event(http: h11.Connection, stream: ByteStream) -> h11.Event:
    while True:
        event = http.next_event()
        if isinstance(event, h11.Event):
            return event
        try:
            http.receive_data(await stream.receive())
        except anyio.EndOfStream:
            http.receive_data(b"")


async def _body(http: h11.Connection, stream: ByteStream) -> AsyncGenerator[Piece]:
    try:
        while isinstance(part := await _next_event(http, stream), h11.Data):
            yield Piece(bytes(part.data))
    except _CONNECTION_ERRORS as error:
        raise BodyInterrupted from error
