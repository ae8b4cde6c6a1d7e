"""One connection over HTTP, which may not take for ever to say what it wants.

uvicorn waits as long as a client likes for the rest of a request, so that a few thousand of them that send a letter now and
then would keep everybody else out. Here whoever is not being answered must say its next request in time, and the rest
of one that was answered before it was whole. How long a body may take that is read, and how long a reader may take
nothing, is the boundary's to say; WebSockets have their pings.
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
    """uvicorn's ``timeout_keep_alive`` is how many seconds a client has for a request, from when it is waited for."""

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
        """Leave out the cookies of other programs on this host, which the reader of WebSockets may find too long."""
        port = self.transport.get_extra_info("sockname")[1]
        self.headers = [
            (name, _cookies(value, cookie_name(port)) if name == b"cookie" else value)
            for name, value in self.headers
        ]
        self._deadline.cancel()  # nothing holds what HTTP needed
        super().handle_websocket_upgrade(event)
        socket = self.transport.get_protocol()
        if isinstance(socket, SocketConnection) and not socket.handshake_initiated:  # and never will be
            self._end(Refusal(400, "bad_request", "This is no WebSocket handshake."))

    def send_400_response(self, msg: str) -> None:
        self._end(Refusal(400, "bad_request", msg))

    def _await_request(self) -> None:
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._too_late)

    def _too_late(self) -> None:
        is_answering = self.cycle and not self.cycle.response_complete
        became_a_socket = self.transport.get_protocol() is not self
        if is_answering or became_a_socket or self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.transport.close()  # nothing was asked
        else:
            words = f"The request was not there after {self.timeout_keep_alive} seconds."
            self._end(Refusal(408, "too_slow", words))

    def _end(self, refusal: Refusal) -> None:
        """Close the connection; say why, unless an answer was begun already."""
        if self.cycle:
            self.cycle.disconnected = True  # what the application answers now would come too late
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
    """What a ``Cookie`` header says of the cookies of a name."""
    return b";".join(pair for pair in header.split(b";") if pair.strip().startswith(f"{name}=".encode()))


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that uvicorn may close by itself: its page answered no ping, or said too much."""

    async def send(self, message: Any) -> None:
        """Raises ``OSError`` where the other end is gone; for a socket that it closed itself uvicorn knows no such word."""
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)
