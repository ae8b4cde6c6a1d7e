"""Serves the application on a listener until the process is asked to end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from starlette.types import ASGIApp

from newel.concurrency import task_group
from newel.web.access import ServerSocket
from newel.web.http_protocol import DeadlineProtocol, SocketConnection
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


async def serve(
    app: ASGIApp,
    listener: ServerSocket,
    *,
    announce: Callable[[], Any],
    closing: anyio.Event,
    request_timeout: int = REQUEST_TIMEOUT_S,
    ping: float = PING_INTERVAL_S,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, or until cancelled; then end within two seconds, regardless of open connections.

    ``announce`` is called as soon as connections are accepted. ``closing`` is set at the end, for streams that would not end by
    themselves. ``request_timeout`` and ``ping`` are in seconds. Must run in the main thread.
    """
    _allow_many_files()
    server = _Server(_config(app, request_timeout, ping), announce, closing)

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
            with receiver(_end_signals()) as signals:
                async for _ in signals:
                    server.force_exit = server.should_exit  # a second signal ends it at once
                    end()
        finally:
            end()


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


def _end_signals() -> list[signal.Signals]:
    """The signals that end the process; SIGHUP too, unless it is ignored (``nohup``)."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


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
