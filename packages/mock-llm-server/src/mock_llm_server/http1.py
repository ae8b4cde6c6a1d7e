"""An HTTP/1.1 connection: reads requests and sends timed replies. Faults can reset its socket."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import Literal

import anyio
import h11
import msgspec
from anyio.abc import SocketAttribute, SocketStream

from mock_llm_server.reply import Piece, Reply

MAX_BODY = 64 * 1024 * 1024
_MAX_HEAD = 64 * 1024
_MAX_AHEAD = 1024 * 1024
_LINGER_S = 2
_BEFORE_RESET_S = 0.05

Ending = Literal["complete", "reset"]


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    """Names in lower case; repeated headers are joined by commas."""
    body: bytes


class BadRequest(Exception):
    """An unreadable request. The connection ends with a reply that gives the reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BodyInterrupted(Exception):
    """Raised by a reply's body when its source fails. The client gets a reset."""


class Connection:
    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._method = b""

    async def receive(self) -> Request | None:
        """Read the next request; None if the client has closed the connection. Raises ``BadRequest``."""
        try:
            head = await self._next_event()
            if not isinstance(head, h11.Request):
                return None
            self._method = head.method
            body = bytearray()
            while isinstance(part := await self._next_event(), h11.Data):
                body += part.data
                if len(body) > MAX_BODY:
                    raise BadRequest(413, f"The body is larger than {MAX_BODY // 1024**2} MiB.")
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, f"This is not valid HTTP: {error}.") from error
        path, _, query = head.target.decode("latin-1").partition("?")
        headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Request(head.method.decode("latin-1"), path, query, headers, bytes(body))

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.ConnectionClosed | h11.Request | h11.Data | h11.EndOfMessage):
                return event
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
            try:
                data = await self._stream.receive()
            except anyio.EndOfStream:
                data = b""
            self._http.receive_data(data)

    async def reply(self, reply: Reply, on_sent: Callable[[bytes], None]) -> Ending:
        """Send a reply, and call ``on_sent`` with each piece of its body.

        Raises a stream error of anyio once the client has disconnected.
        """
        await self._pause(reply.wait)
        if reply.reset and not reply.pieces:
            await self._reset()
            return "reset"
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in reply.headers.items()]
        reason = _reason(reply.status)
        await self._send(h11.Response(status_code=reply.status, headers=headers, reason=reason))
        interrupted = False
        if self._method != b"HEAD":
            try:
                await self._send_body(reply, on_sent)
            except BodyInterrupted:
                interrupted = True
        if interrupted or reply.reset:
            await self._reset()
            return "reset"
        await self._send(h11.EndOfMessage())
        return "complete"

    async def _send_body(self, reply: Reply, on_sent: Callable[[bytes], None]) -> None:
        for piece in reply.pieces:
            await self._send_piece(piece, on_sent)
        if reply.more:
            async with aclosing(reply.more) as more:
                async for piece in more:
                    await self._send_piece(piece, on_sent)

    async def _send_piece(self, piece: Piece, on_sent: Callable[[bytes], None]) -> None:
        await self._pause(piece.wait)
        await self._send(h11.Data(data=piece.data))
        on_sent(piece.data)

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send(data)

    async def _pause(self, seconds: float) -> None:
        """Wait. Raises ``EndOfStream`` if the client disconnects meanwhile."""
        if not seconds:
            return
        with anyio.move_on_after(seconds):
            ahead = 0
            while ahead < _MAX_AHEAD:
                data = await self._stream.receive()
                ahead += len(data)
                self._http.receive_data(data)
            await anyio.sleep_forever()

    async def _reset(self) -> None:
        # Some kernels drop unread data when a reset arrives: give the client time to read it.
        await anyio.sleep(_BEFORE_RESET_S)
        raw = self._stream.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self._stream.aclose()

    def next_cycle(self) -> bool:
        """Whether the connection stays open for another request."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def close(self) -> None:
        """Half-close, and read until the client closes its side: closing a socket with unread input would reset it, and the
        client could lose the end of the reply. Raises ``EndOfStream`` then; returns after ``_LINGER_S`` otherwise.
        """
        with anyio.move_on_after(_LINGER_S):
            await self._stream.send_eof()
            while True:
                await self._stream.receive()


def _reason(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Unknown"
