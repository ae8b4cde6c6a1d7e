"""Listens, and serves the application until the process is asked to end.

uvicorn waits indefinitely for the rest of a request, so a few thousand slow clients would block all others. Here a
connection without a response in progress must send its next request in time, and so must one that was answered before its
request was complete. The security middleware limits the time to send a body and to read a response; WebSockets have pings.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import anyio
import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from newel.agent.errors import ConfigError
from newel.concurrency import task_group
from newel.web.security import OF_CONNECTION, SECURITY_HEADERS, Refusal
from newel.workspace.process.signals import receiver

MAX_MESSAGE = 8 * 2**20
"""Bytes of a WebSocket message; a longer one closes its socket with 1009."""
MAX_CONNECTIONS = 4096
MAX_HEAD = 64 * 2**10
"""Bytes of a request's head: browsers send the cookies of all servers on this machine."""
REQUEST_TIMEOUT_S = 10
"""For a connection's next request to arrive, with its headers."""
PING_INTERVAL_S = 20.0
"""Of a WebSocket, and the timeout for the answer."""
SHUTDOWN_TIMEOUT_S = 1
"""For responses in progress."""
ACK_TIMEOUT_MS = 40_000
"""Milliseconds after which the kernel drops a connection whose other end does not acknowledge data."""


class ServerSocket(msgspec.Struct, frozen=True):
    """A listening socket and its address."""

    bound: socket.socket
    host: str
    port: int

    def close(self) -> None:
        self.bound.close()


def listen(host: str, port: int) -> ServerSocket:
    """Listen on a port, 0 for any free one. Connections are queued until they are served. Raises ``ConfigError``."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"{port} is not a port. Use 1 to 65535, or --port 0 for any free one.")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise ConfigError(
            f"'{host}' is not an address of this machine: {error}. Choose another with --bind."
        ) from error
    # asyncio sets TCP_NODELAY only if the protocol is named: without it responses on a reused connection wait 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ACK_TIMEOUT_MS)
        bound.bind(address)
        bound.listen(1024)
    except OSError as error:
        bound.close()
        raise ConfigError(_explain(error, host, port)) from error
    bound.setblocking(False)
    return ServerSocket(bound, host, bound.getsockname()[1])


def _explain(error: OSError, host: str, port: int) -> str:
    another = "Choose another with --port N, or any free one with --port 0."
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is in use, perhaps by another Newel. {another}"
        case errno.EACCES:
            return f"Port {port} on {host} requires privileges. {another}"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine. Choose another with --bind."
        case _:
            return f"Port {port} on {host} cannot be used: {error.strerror}. {another}"


async def serve(
    app: ASGIApp,
    listener: ServerSocket,
    *,
    announce: Callable[[], Any],
    closing: anyio.Event,
    request_timeout: int = REQUEST_TIMEOUT_S,
    ping: float = PING_INTERVAL_S,
) -> signal.Signals | None:
    """Serve until SIGINT, SIGTERM or SIGHUP, which is returned, or until cancelled; then end within two seconds, regardless of open
    connections.

    ``announce`` is called as soon as connections are accepted. ``closing`` is set at the end, for streams that would not end by
    themselves. ``request_timeout`` and ``ping`` are in seconds. Must run in the main thread.
    """
    _allow_many_files()
    server = _Server(_config(app, request_timeout, ping), announce, closing)
    ended_by: signal.Signals | None = None

    def end() -> None:
        server.should_exit = True
        closing.set()

    async def run() -> None:
        with anyio.CancelScope(shield=True):  # cancelling it would leave connections open
            await server.serve(sockets=[listener.bound])
        tasks.cancel_scope.cancel()

    async with task_group() as tasks:
        tasks.start_soon(run)
        try:
            with receiver((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)) as signals:
                async for number in signals:
                    ended_by = ended_by or number
                    server.force_exit = server.should_exit  # a second signal ends it at once
                    end()
        finally:
            end()
    return ended_by


class _Server(uvicorn.Server):
    """Announces when it serves, and leaves signals to its owner, which closes its files after it."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], Any], closing: anyio.Event) -> None:
        super().__init__(config)
        self._announce = announce
        self._closing = closing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def main_loop(self) -> None:
        """Wakes at the end, and once a second for the ``Date`` header."""
        while not self._closing.is_set():
            await self.on_tick(0)
            with anyio.move_on_after(1):
                await self._closing.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


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
        self.headers = [(name, value) for name, value in self.headers if name != b"cookie"]
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


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that reports when uvicorn has closed it, after an unanswered ping or a message that is too long."""

    async def send(self, message: Any) -> None:
        """Raises ``OSError`` if the socket is closed; uvicorn alone does so only if the other end closed it."""
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)


def _config(app: ASGIApp, request_timeout: int, ping: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=DeadlineProtocol,
        timeout_keep_alive=request_timeout,
        h11_max_incomplete_event_size=MAX_HEAD,
        ws=SocketConnection,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=ping,
        ws_ping_timeout=ping,
        ws_per_message_deflate=False,  # the page is near; compression would cost time and 30 KiB a socket
        lifespan="off",  # the composition root opens and closes the application's parts
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,  # headers of a client are not trusted
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
    )


def _allow_many_files() -> None:
    """Each connection is a file, and the usual limit of 1,024 is too low."""
    try:
        import resource
    except ImportError:  # not on Windows, where there is no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * MAX_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
