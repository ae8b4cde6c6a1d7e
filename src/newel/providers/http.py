"""HTTP for providers: one kept-alive client made on first use, bounded answers, errors of our own tree."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from newel.agent.errors import BadResponse, ConfigError, ConnectionFailed, ProviderError, RequestRejected

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER = 64 * 2**20
"""Decoded bytes of one answer: more than any model writes, even one chunk a token."""

CONNECT_TIMEOUT = 10.0
KEEP_ALIVE = 60.0
"""Seconds that an idle connection is kept: longer than most tools run."""

REFUSAL_TIME = 5.0
"""Seconds that the body of a refusal may take."""

LOCAL_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localhost")


class Reply:
    """The answer to a request: its status, its headers, and its decoded body as it arrives."""

    def __init__(self, response: httpx2.Response, errors: Callable[[], AbstractContextManager[None]]) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._errors = errors

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body's pieces. Raises ``ConnectionFailed`` if it breaks off, ``BadResponse`` if it cannot be
        decoded or the pieces add up to more than ``MAX_ANSWER``.
        """
        size = 0
        with self._errors():
            async with aclosing(self._response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    if size > MAX_ANSWER:
                        raise _too_long(MAX_ANSWER)
                    yield piece

    async def read(self, limit: int) -> bytes:
        """The whole body; raises ``BadResponse`` if it is longer than ``limit`` bytes."""
        async with aclosing(self.chunks()) as chunks:
            return await collect(chunks, limit)

    async def beginning(self, limit: int) -> bytes:
        """What arrives of the body within a few seconds, up to ``limit`` bytes, however it breaks off."""
        body = bytearray()
        with suppress(ProviderError), anyio.move_on_after(REFUSAL_TIME):
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) >= limit:
                        break
        return bytes(body[:limit])


class Http:
    """Requests to one server. ``timeout`` is in seconds without a byte; ``headers`` go with each request."""

    def __init__(self, base_url: str, *, headers: Mapping[str, str], timeout: float) -> None:
        self._base_url, self._query = _split_url(base_url)
        self._headers = _check_headers(headers)
        self._timeout = timeout
        self._client: httpx2.AsyncClient | None = None

    def shown(self, path: str) -> str:
        """The URL of a path for people: without credentials and without the query, which may hold some."""
        scheme, separator, rest = self._base_url.partition("://")
        host, slash, folders = rest.partition("/")
        return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{folders}{path}"

    @asynccontextmanager
    async def ask(self, method: str, path: str, body: bytes = b"") -> AsyncGenerator[Reply]:
        """Send a request; leaving the block closes the answer. Raises ``ConnectionFailed``."""
        import httpx2

        client = self._open()
        url = f"{self._base_url}{path}{self._query}"
        errors = functools.partial(_translated, self.shown(path), self._timeout)
        with errors():
            request = httpx2.Request(method, url, headers=self._headers, content=body or None)
            response = await client.send(request, stream=True, auth=None)
        try:
            yield Reply(response, errors)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connections. The next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2

            self._client = httpx2.AsyncClient(
                # Plain HTTP needs no certificates, and loading them takes longer than the first request.
                verify=self._base_url.startswith("https:"),
                trust_env=not is_loopback(self._base_url),
                timeout=httpx2.Timeout(self._timeout, connect=min(self._timeout, CONNECT_TIMEOUT)),
                limits=httpx2.Limits(keepalive_expiry=KEEP_ALIVE),
            )
        return self._client


async def collect(chunks: AsyncIterator[bytes], limit: int, lead: bytes = b"") -> bytes:
    """The pieces in one, ``lead`` before them; raises ``BadResponse`` beyond ``limit`` bytes."""
    body = bytearray(lead)
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise _too_long(limit)
    return bytes(body)


def _split_url(base_url: str) -> tuple[str, str]:
    """The base URL without what people paste too much of, and its query. Raises ``ConfigError`` if it is
    none.
    """
    url, question, query = base_url.strip().partition("?")
    url = url.rstrip("/").removesuffix("/chat/completions")
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        whole = False
    if not whole or not base_url.isprintable() or " " in url:
        raise ConfigError(f"'{url.rpartition('@')[2]}' is no base URL: it must be like https://host/v1.")
    return url, question + query


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, if HTTP can carry them; else raises ``ConfigError``, which does not show the value."""
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise ConfigError(
                f"The header {name} has characters that HTTP cannot carry; check what it is set to."
            )
    return dict(headers)


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def is_private(url: str) -> bool:
    """Whether the URL's host is this machine or one of its own network."""
    host = urlsplit(url).hostname or ""
    address = _address(host)
    if address is not None:
        return address.is_private or address.is_loopback
    return "." not in host or host.endswith(LOCAL_SUFFIXES)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


@contextmanager
def _translated(url: str, timeout: float) -> Generator[None]:
    """The HTTP library's errors as ours."""
    import httpx2

    try:
        yield
    except httpx2.ReadTimeout as error:
        raise ConnectionFailed(f"{url} sent nothing for {timeout:g} s.") from error
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise _not_connected(url, error) from error
    except httpx2.DecodingError as error:
        raise BadResponse(f"{url} sent a body that does not match its content encoding.") from error
    except httpx2.TransportError as error:
        reason = str(error) or type(error).__name__
        raise ConnectionFailed(f"The connection to {url} broke: {reason}.") from error


def _too_long(limit: int) -> BadResponse:
    return BadResponse(f"The server sent more than {limit // 2**20} MiB; refused.")


def _not_connected(url: str, error: httpx2.TransportError) -> ProviderError:
    reason = str(error) or "no answer"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return RequestRejected(
            f"The certificate of {url} is not trusted: {reason}. "
            "Install its authority on this machine, or use the server's http:// address."
        )
    return ConnectionFailed(f"No connection to {url}: {reason}. Check that the server runs and the base URL.")
