"""The way out of a sandbox: an HTTP proxy on a socket that is mounted into it.

    command ── HTTPS_PROXY ──> 127.0.0.1 inside ── forwarded ──> this proxy's socket ──> the server

It answers ``CONNECT`` (for TLS), and requests for ``http://`` addresses. Names are looked up here, and the address that was judged is
the one that is connected to, so that a name cannot lead to this machine, its network or its cloud. What is sent is not read: a
command may send anything to a server that it may reach.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, Listener, SocketStream

from newel.concurrency import task_group
from newel.workspace.sandbox.domains import (
    WEB_PORTS,
    Domain,
    IPAddress,
    is_intranet_name,
    is_reachable,
    parse_host,
)
from newel.workspace.sandbox.reach import NotReachable, Resolve, find_reachable, resolve

Allows = Callable[[str], Awaitable[bool]]


class ReachabilityCheck(Protocol):
    def __call__(self, address: IPAddress, /, *, is_named: bool) -> bool: ...


MAX_HEAD: Final = 32 * 1024
"""Bytes of a request's line and headers."""

HEAD_S: Final = 30.0
"""Seconds for them to arrive."""

CONNECT_S: Final = 30.0

DRAIN_S: Final = 1.0
"""Seconds in which the rest of a refused request is read."""

MAX_CONNECTIONS: Final = 256

BLOCK: Final = 65_536

REFUSED: Final = (
    "{host} cannot be reached from the sandbox: it is not allowed.\n"
    'The user can allow it: [sandbox] domains = ["{rule}"] in config.toml.\n'
)


PRIVATE: Final = (
    "{host} cannot be reached from the sandbox: it leads to this machine, to a cloud's metadata service, or into a private network.\n"
    'For a private network, the user can allow it by its name: [sandbox] domains = ["{rule}"] in config.toml.\n'
)


NOT_ALLOWED: Final = "403 Not allowed by the sandbox"


class _RequestRefused(Exception):
    """The answer to a request that is not passed on."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class _ProxyTarget(NamedTuple):
    host: str
    port: int
    head: bytes
    """What the server is sent first."""

    @property
    def rule(self) -> str:
        return str(Domain(self.host, None if self.port in WEB_PORTS else self.port))


async def allow_none(_: str) -> bool:
    return False


class NetworkProxy:
    """Connects to the servers that ``domains`` of the settings match, to those that answers have ``kept`` (it is called for each request:
    the user may revoke them), and to those that ``allows`` allows (it gets a name, with a port other than those of the web, and may ask
    the user). An answer opens a private network only by a name that cannot be one on the internet, whose owner may lead it anywhere later.

    ``is_reachable`` judges an address; tests, whose servers are on this machine, have another one.
    """

    def __init__(
        self,
        domains: Callable[[], Sequence[Domain]],
        *,
        kept: Callable[[], Sequence[Domain]] = tuple,
        allows: Allows = allow_none,
        resolve: Resolve = resolve,
        is_reachable: ReachabilityCheck = is_reachable,
    ) -> None:
        self._domains = domains
        self._kept = kept
        self._allows = allows
        self._resolve = resolve
        self._is_reachable = is_reachable
        self._limit = anyio.CapacityLimiter(MAX_CONNECTIONS)

    async def serve(self, listener: Listener[SocketStream]) -> None:
        """Answer on a socket until it is cancelled."""
        await listener.serve(self._serve)

    async def _serve(self, client: ByteStream) -> None:
        with contextlib.suppress(
            anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError
        ):
            async with self._limit, client:
                try:
                    with anyio.fail_after(HEAD_S):
                        head, rest = await _read_head(client)
                    target = _parse_head(head)
                    server = await self._connect(target)
                except _RequestRefused as error:
                    await _refuse(client, error.status, str(error))
                    return
                except TimeoutError:
                    await _refuse(client, "408 Request Timeout", "The request did not arrive in time.\n")
                    return
                async with server:
                    if target.head:
                        await server.send(target.head + rest)
                    else:
                        await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        if rest:
                            await server.send(rest)
                    await _relay(client, server)

    async def _connect(self, target: _ProxyTarget) -> ByteStream:
        """Connect to a server that is allowed. Raises ``_RequestRefused``."""
        rules, kept = (
            [domain for domain in domains() if domain.matches(target.host, target.port)]
            for domains in (self._domains, self._kept)
        )
        if not (rules or kept or await self._allows(target.rule)):
            raise _RequestRefused(NOT_ALLOWED, REFUSED.format(host=target.host, rule=target.rule))
        is_named = any(rule.name != "*" for rule in rules) or (not rules and is_intranet_name(target.host))
        try:
            with anyio.fail_after(CONNECT_S):
                may_reach = partial(self._is_reachable, is_named=is_named)
                found = await find_reachable(target.host, target.port, may_reach, resolve=self._resolve)
                return await _connect_first(found, target.port)
        except NotReachable:
            raise _RequestRefused(NOT_ALLOWED, PRIVATE.format(host=target.host, rule=target.rule)) from None
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "it did not answer in time"
            raise _RequestRefused(
                "502 Bad Gateway", f"{target.host} cannot be reached: {reason}.\n"
            ) from error


async def _connect_first(addresses: Sequence[IPAddress], port: int) -> ByteStream:
    """Connect to the first address that answers. Raises ``OSError``."""
    problem: OSError | None = None
    for address in addresses:
        try:
            return await anyio.connect_tcp(str(address), port)
        except OSError as error:
            problem = error
    raise problem or OSError("it has no address")


async def _read_head(client: ByteStream) -> tuple[bytes, bytes]:
    """A request's line and headers with their empty line, and what has come behind them."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEAD:
            raise _RequestRefused("431 Request Header Fields Too Large", "The headers are too long.\n")
        data += await client.receive(BLOCK)
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def _parse_head(head: bytes) -> _ProxyTarget:
    """Raises ``_RequestRefused``."""
    line, _, headers = head.partition(b"\r\n")
    try:
        method, address, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            host, _, port = address.rpartition(":")
            return _ProxyTarget(parse_host(host), _port(port), b"")
        return _plain_target(method, address, version, headers)
    except ValueError as error:
        raise _RequestRefused("400 Bad Request", f"The request is not understood: {error}.\n") from error


def _plain_target(method: str, address: str, version: str, headers: bytes) -> _ProxyTarget:
    """That of a request for an ``http://`` address. Raises ``ValueError``."""
    url = urlsplit(address)
    if url.scheme != "http" or not url.hostname or version not in {"HTTP/1.0", "HTTP/1.1"}:
        raise ValueError("it must be CONNECT, or a request for an http:// address")
    host = parse_host(f"[{url.hostname}]" if ":" in url.hostname else url.hostname)
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    request = f"{method} {path} {version}\r\n".encode()
    return _ProxyTarget(host, url.port or 80, request + _forwarded(headers))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 65536):
        raise ValueError(f"{text[:20]!r} is not a port")
    return int(text)


def _forwarded(headers: bytes) -> bytes:
    """The headers for the server. One request per connection: the next one may be for another server, which is to be judged."""
    lines = [
        line
        for line in headers.split(b"\r\n")
        if line and not line.lower().startswith((b"proxy-", b"connection:", b"keep-alive:"))
    ]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


async def _relay(client: ByteStream, server: ByteStream) -> None:
    """Pass bytes on in both directions until both have ended, or one breaks."""

    async def copy(source: ByteStream, sink: ByteStream) -> None:
        try:
            async for data in source:
                await sink.send(data)
            await sink.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            group.cancel_scope.cancel()

    async with task_group() as group:
        group.start_soon(copy, client, server)
        group.start_soon(copy, server, client)


async def _refuse(client: ByteStream, status: str, text: str) -> None:
    """Answer, and read the rest of the request: closing a socket with unread data would lose the answer."""
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    await client.send(head.encode() + body)
    await client.send_eof()
    with anyio.move_on_after(DRAIN_S):
        async for _ in client:
            pass
