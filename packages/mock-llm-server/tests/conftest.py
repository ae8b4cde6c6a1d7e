"""The event loop of all tests, and a client that sees the bytes."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from mock_llm_server import MockServer

Exchange = Callable[..., tuple[bytes, bool]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def send() -> Exchange:
    """``send(server, body, …)`` posts a chat completion over a bare socket and returns all that came back,
    and whether it ended with a reset. ``patience`` is how many seconds of silence end the reading.
    """

    def exchange(
        server: MockServer, body: Any, *, limit: int = 1 << 24, patience: float = 5
    ) -> tuple[bytes, bool]:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=patience) as sock:
            sock.sendall(head.encode() + b"Connection: close\r\n\r\n" + content)
            received = bytearray()
            try:
                while len(received) < limit and (data := sock.recv(65536)):
                    received += data
            except ConnectionResetError:
                return bytes(received), True
            except TimeoutError:
                return bytes(received), False
        return bytes(received), False

    return exchange
