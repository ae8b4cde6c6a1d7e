"""The network below ``httpcore2``, with the head of a request and the beginning of its body in one write.

One segment, one TLS record and one turn of the event loop then carry what would be two of each: with a conversation that has
just begun, the whole request.
"""

from __future__ import annotations

import ssl
from typing import Any, Final, cast

import httpcore2

_END_OF_HEAD: Final = b"\r\n\r\n"

_MOST: Final = 1 << 18
"""Bytes of a body's piece that are copied to go with the head; a longer one is sent behind it."""


class CoalescingBackend(httpcore2.AsyncNetworkBackend):
    """A network backend of ``httpcore2``."""

    def __init__(self) -> None:
        # Type checkers see the substitute for a missing anyio.
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._network.connect_tcp(*args, **kwargs))

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._network.connect_unix_socket(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """Keeps back what ends like a head, until the next write, which may be empty, or until an answer is read."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 — the port's
        head, self._head = self._head, b""
        if not head and buffer.endswith(_END_OF_HEAD):
            self._head = buffer
        elif len(buffer) <= _MOST:
            await self._stream.write(head + buffer, timeout)
        else:
            await self._stream.write(head, timeout)
            await self._stream.write(buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 — the port's
        if self._head:
            await self.write(b"", timeout)
        return await self._stream.read(max_bytes, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 — the port's
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
