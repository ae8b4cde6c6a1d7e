"""A server that sends exact bytes, and the requests that tests make to it."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from newel.agent.messages import AssistantMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, Provider, ProviderEvent, ToolSpec
from newel.providers.openai.chat import OpenAIChat

Handler = Callable[[socket.socket], None]
"""Sends whatever it likes. The connection is closed afterwards."""

BASH = ToolSpec("bash", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})


class RawServer:
    """Answers the n-th request with the n-th of ``answers``, and repeats the last one: bytes, after which the
    connection stays open, or a handler. ``requests`` are (head, body) as received. With ``tls`` it speaks TLS.
    """

    def __init__(self, answers: list[bytes | Handler], tls: ssl.SSLContext | None = None) -> None:
        self.answers = answers
        self._tls = tls
        self.requests: list[tuple[bytes, bytes]] = []
        self.first_pieces: list[int] = []
        """Bytes of each request that had come when its head was whole."""
        self.connections = 0
        self.handled = threading.Event()
        """Set when a handler is through with its connection."""
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/v1"
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        for one in [self._listener, *self._sockets]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._acceptor.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._sockets.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with suppress(OSError), self._secured(accepted) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self.receive(connection):
                answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
                if callable(answer):
                    answer(connection)
                    self.handled.set()
                    return
                connection.sendall(answer)

    def _secured(self, accepted: socket.socket) -> socket.socket:
        if self._tls is None:
            return accepted
        with accepted:
            secured = self._tls.wrap_socket(accepted, server_side=True)
        self._sockets.append(secured)
        return secured

    def receive(self, connection: socket.socket) -> bool:
        """Read and note one request; False if the client has disconnected."""
        data = b""
        while b"\r\n\r\n" not in data:
            if not (piece := connection.recv(65536)):
                return False
            data += piece
        self.first_pieces.append(len(data))
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0
        while len(body) < length:
            body += connection.recv(65536)
        self.requests.append((head, body))
        return True

    def sent(self, at: int = -1) -> dict[str, Any]:
        """The decoded body of a request."""
        return json.loads(self.requests[at][1])


async def ask(provider: Provider, **options: Any) -> tuple[AssistantMessage, list[ProviderEvent]]:
    """Make one request; returns the answer and the deltas."""
    seen: list[ProviderEvent] = []

    async def on_delta(delta: ProviderEvent) -> None:
        seen.append(delta)

    fields: dict[str, Any] = {"messages": [UserMessage("Hi")], "tools": [BASH], "model": Model("m")} | options
    return await provider.complete(ModelRequest(system_prompt="", **fields), on_delta), seen


Serve = Callable[..., RawServer]
Connect = Callable[..., OpenAIChat]


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A complete answer with its length."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", *lines])
    return head.encode() + b"\r\n\r\n" + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
"""The head of an answer that ends with its connection."""


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    """One event of an answer's stream."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
HELLO = (
    chunk(role="assistant", content="") + chunk(content="Hello, ") + chunk(content="wörld") + chunk("stop")
)


def sse(*events: bytes, **headers: str) -> bytes:
    """A stream in one piece, on a connection that stays open."""
    return http(b"".join(events), content_type="text/event-stream", **headers)


def sends(*pieces: bytes, pause: float = 0.0, then: Handler | None = None) -> Handler:
    """A handler that sends pieces with pauses between them, and then runs a function or closes."""

    def handler(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        if then:
            then(connection)

    return handler


def floods(head: bytes, junk: bytes) -> Handler:
    """A handler that repeats junk behind a head, forever."""

    def handler(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(junk)

    return handler


def tunnels(port: int) -> Handler:
    """A handler that connects a client to a server on this machine, like a proxy on ``CONNECT``."""

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def handler(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=pass_on, args=(server, connection), daemon=True)
            back.start()
            pass_on(connection, server)
            back.join()

    return handler


def stalls(connection: socket.socket) -> None:
    """Wait until the client disconnects."""
    while connection.recv(1024):
        pass


def resets(connection: socket.socket) -> None:
    """End the connection with a TCP reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
