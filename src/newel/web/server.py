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
"""Bytes of a request's head: browsers send along the cookies of all that is served on this machine."""
REQUEST_PATIENCE = 10
"""Seconds that a connection may take to say its next request, headers and all."""
PING = 20.0
"""Seconds between two pings of a WebSocket, and for the answer to one."""
GRACE = 1
"""Seconds that answers under way get to end."""


async def serve(
    app: ASGIApp,
    listener: ServerSocket,
    *,
    announce: Callable[[], Any],
    closing: anyio.Event,
    request_patience: int = REQUEST_PATIENCE,
    ping: float = PING,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, or until cancelled; then end within two seconds, whoever is connected.

    ``announce`` is called as soon as connections are accepted. ``closing`` is set when the end has come: streams without
    an end of their own watch it. ``request_patience`` and ``ping`` are in seconds. Must run in the main thread.
    """
    _allow_many_files()
    server = _Server(_config(app, request_patience, ping), announce, closing)

    def end() -> None:
        server.should_exit = True
        closing.set()

    async def run() -> None:
        with anyio.CancelScope(shield=True):  # an end in the middle would leave connections open
            await server.serve(sockets=[listener.bound])
        tasks.cancel_scope.cancel()

    async with task_group() as tasks:
        tasks.start_soon(run)
        try:
            with receiver(_end_signals()) as signals:
                async for _ in signals:
                    server.force_exit = server.should_exit  # whoever asks twice is in a hurry
                    end()
        finally:
            end()


class _Server(uvicorn.Server):
    """Tells when it serves, and leaves the signals to its owner, whose files want to be closed after it."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], Any], closing: anyio.Event) -> None:
        super().__init__(config)
        self._announce = announce
        self._closing = closing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def main_loop(self) -> None:
        """Wakes for the end, and once a second for the time that answers bear: who is idle should be so."""
        while not self._closing.is_set():
            await self.on_tick(0)
            with anyio.move_on_after(1):
                await self._closing.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _config(app: ASGIApp, request_patience: int, ping: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=DeadlineProtocol,
        timeout_keep_alive=request_patience,
        h11_max_incomplete_event_size=MAX_HEAD,
        ws=SocketConnection,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=ping,
        ws_ping_timeout=ping,
        ws_per_message_deflate=False,  # the reader is near; compression would cost time and 30 KiB a socket
        lifespan="off",  # what the application needs is opened and closed around it
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,  # nothing that a client says of itself is believed
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE,
    )


def _end_signals() -> list[signal.Signals]:
    """What asks the process to end. That its terminal is gone does, too, unless somebody (``nohup``) has it ignored."""
    asks = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        asks.append(signal.SIGHUP)
    return asks


def _allow_many_files() -> None:
    """Each connection is a file; the usual limit of 1,024 is lower than what is served."""
    try:
        import resource
    except ImportError:  # not on Windows, where there is no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * MAX_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
