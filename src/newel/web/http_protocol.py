"""HTTP connections with a deadline for each request.

uvicorn waits indefinitely for the rest of a request, so a few thousand slow clients would block all others. Here a
connection without a response in progress must send its next request in time, and so must one that was answered before its
request was complete. The security middleware limits the time to send a body and to read a response; WebSockets have pings.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from newel.web.access import cookie_name
from newel.web.security import OF_CONNECTION, SECURITY_HEADERS, Refusal


class DeadlineProtocol(H11Protocol):
    """``timeout_keep_alive`` is the number of seconds that a client has for its next request."""

    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] — as in the base
        of_connection: dict[str, bool] = {}
        self.app_state: dict[str, Any] = {**self.app_state, OF_CONNECTION: of_connection}
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._await_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Remove the cookies of other servers on this machine, which may exceed the limit of the WebSocket parser."""
        port = self.transport.get_extra_info("sockname")[1]
        self.headers = [
            (name, _cookies(value, cookie_name(port)) if name == b"cookie" else value)
            for name, value in self.headers
        ]
        self._deadline.cancel()  # otherwise it would keep the HTTP connection alive
        super().handle_websocket_upgrade(event)
        socket = self.transport.get_protocol()
        if isinstance(socket, SocketConnection) and not socket.handshake_initiated:  # and it never will be
            self._end(Refusal(400, "bad_request", "This is not a WebSocket handshake."))

    def send_400_response(self, msg: str) -> None:
        self._end(Refusal(400, "bad_request", msg))

    def _await_request(self) -> None:
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._on_deadline)

    def _on_deadline(self) -> None:
        is_answering = self.cycle and not self.cycle.response_complete
        became_a_socket = self.transport.get_protocol() is not self
        if is_answering or became_a_socket or self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.transport.close()  # no request was started
        else:
            message = f"The request did not arrive within {self.timeout_keep_alive} seconds."
            self._end(Refusal(408, "too_slow", message))

    def _end(self, refusal: Refusal) -> None:
        """Close the connection, with the reason unless a response has started."""
        if self.cycle:
            self.cycle.disconnected = True  # the application must not answer any more
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            headers, body = refusal.encode()
            response = h11.Response(
                status_code=refusal.status,
                reason=HTTPStatus(refusal.status).phrase,
                headers=[*headers, (b"connection", b"close"), *SECURITY_HEADERS],
            )
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _cookies(header: bytes, name: str) -> bytes:
    """The cookies of a name in a ``Cookie`` header."""
    return b";".join(pair for pair in header.split(b";") if pair.strip().startswith(f"{name}=".encode()))


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that reports when uvicorn has closed it, after an unanswered ping or a message that is too long."""

    async def send(self, message: Any) -> None:
        """Raises ``OSError`` if the socket is closed; uvicorn alone does so only if the other end closed it."""
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)
