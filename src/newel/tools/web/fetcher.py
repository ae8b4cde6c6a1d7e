"""Fetches a page: bounded in bytes, time and redirections, and only from addresses that may be reached.

A request has no cookies and no credentials, and goes directly to the address that was judged, not through a proxy, which would look the
name up again. A redirection to another server is followed only if a rule allows that one; else its address is the result.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import httpcore2
import msgspec

from newel.agent.errors import ToolError, as_sentence
from newel.workspace.sandbox.reach import FindAccess, NotReachable, find_reachable
from newel.workspace.sandbox.web_address import WebAddress

if TYPE_CHECKING:
    import ssl

MAX_BYTES: Final = 5 * 2**20
"""Of a body, before and after it is unpacked."""

MAX_REDIRECTS: Final = 5

TIMEOUT_S: Final = 30.0
"""For all requests together."""

ADDRESS_S: Final = 5.0
"""For one of several addresses to accept a connection."""

HEADERS: Final = {
    "Accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5",
    "Accept-Encoding": "gzip",
    "Accept-Language": "en, *;q=0.5",
    "Connection": "close",
    "User-Agent": "newel",
}

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_ANY_FORMAT: Final = 32 + zlib.MAX_WBITS
"""Of zlib: gzip or its own, by the first bytes."""

NOT_REACHED: Final = (
    "{host} was not reached: it leads to this machine, into a private network, or to a cloud's metadata service. Only the user can "
    'allow that, with [permissions] allow = ["web_fetch({server})"] in their config.toml (this machine only by its address or as '
    "localhost)."
)


class ForbiddenRedirect(Exception):
    """The page is on another server, which no rule allows."""

    def __init__(self, to: WebAddress) -> None:
        super().__init__(str(to))
        self.to = to


class WebPage(msgspec.Struct, frozen=True):
    """An answer; ``is_cut`` tells that the body is longer."""

    address: WebAddress
    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False


async def fetch(address: WebAddress, find_access: FindAccess) -> WebPage:
    """Fetch a page. Raises ``ForbiddenRedirect``, and ``ToolError`` if there is none."""
    try:
        with anyio.fail_after(TIMEOUT_S):
            for _ in range(MAX_REDIRECTS + 1):
                page = await _request(address, find_access)
                if page.status not in _REDIRECTS or "location" not in page.headers:
                    return page
                following = _redirected(address, page.headers["location"])
                if (
                    following.server != address.server
                    and not find_access(following.host, following.port).is_allowed
                ):
                    raise ForbiddenRedirect(following)
                address = following
    except TimeoutError:
        raise ToolError(f"{address} did not answer completely within {TIMEOUT_S:g} s.") from None
    raise ToolError(f"{address}: there are more than {MAX_REDIRECTS} redirections.")


def check_literal(address: WebAddress, find_access: FindAccess) -> None:
    """Refuse a numerical address, or a localhost, that must not be reached, before anybody is asked. Raises ``ToolError``."""
    import ipaddress

    if not address.is_literal:
        return
    access = find_access(address.host, address.port)
    try:
        may_reach = access.may_reach(ipaddress.ip_address(address.host))
    except ValueError:
        may_reach = access.is_own
    if not may_reach:
        raise _not_reached(address)


def _redirected(address: WebAddress, location: str) -> WebAddress:
    try:
        return address.join(location)
    except ValueError as error:
        raise ToolError(f"{address} redirects to an address that is not followed: {error}.") from error


async def _request(address: WebAddress, find_access: FindAccess) -> WebPage:
    headers = {"Host": address.authority, **HEADERS}
    request = httpcore2.Request(
        "GET",
        httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target),
        headers=[(name.encode(), value.encode()) for name, value in headers.items()],
    )
    try:
        async with httpcore2.AsyncConnectionPool(
            ssl_context=_tls(), network_backend=_JudgingBackend(find_access)
        ) as pool:
            response = await pool.handle_async_request(request)
            try:
                return await _read(address, response)
            finally:
                await response.aclose()
    except NotReachable:
        raise _not_reached(address) from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError) as error:
        reason = as_sentence(str(error) or type(error).__name__)
        raise ToolError(f"{address.authority} cannot be reached: {reason}") from error


async def _read(address: WebAddress, response: httpcore2.Response) -> WebPage:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    body, is_cut = b"", False
    if response.status not in _REDIRECTS:
        body, is_cut = await _read_body(response, headers.get("content-encoding", ""))
    return WebPage(address, response.status, headers, body, is_cut)


async def _read_body(response: httpcore2.Response, encoding: str) -> tuple[bytes, bool]:
    """The body, unpacked, and whether it is longer."""
    encoding = encoding.strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise ToolError(
            f"The server sent a body with the encoding {encoding[:40]!r}, which it was not asked for."
        )
    unpack = zlib.decompressobj(_ANY_FORMAT) if encoding not in {"", "identity"} else None
    body, received = bytearray(), 0
    async with aclosing(response.aiter_stream()) as pieces:
        async for piece in pieces:
            received += len(piece)
            try:
                body += unpack.decompress(piece, MAX_BYTES + 1 - len(body)) if unpack else piece
            except zlib.error as error:
                raise ToolError("The server sent a body that does not match its encoding.") from error
            if max(len(body), received) > MAX_BYTES:
                return bytes(body[:MAX_BYTES]), True
    if received and not body:
        raise ToolError("The server sent a body that does not match its encoding.")
    return bytes(body), False


def _not_reached(address: WebAddress) -> ToolError:
    return ToolError(NOT_REACHED.format(host=address.host, server=address.server))


@cache
def _tls() -> ssl.SSLContext:
    """The certificates are read once."""
    return httpcore2.default_ssl_context()


class _JudgingBackend(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that may be reached, and to no other that the name leads to."""

    def __init__(self, find_access: FindAccess) -> None:
        self._find_access = find_access
        # Type checkers see the substitute for a missing anyio.
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        found = await find_reachable(host, port, self._find_access(host, port).may_reach)
        for address in found[:-1]:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._network.connect_tcp(str(address), port, timeout=ADDRESS_S)
        return await self._network.connect_tcp(str(found[-1]), port)

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
