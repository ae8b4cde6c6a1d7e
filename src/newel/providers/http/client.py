"""HTTP for providers: one kept-alive client made on first use, bounded answers, errors of our own tree."""

from __future__ import annotations

import functools
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import urlsplit

import anyio

from newel.agent.errors import (
    BadResponse,
    ConfigError,
    ConnectionFailed,
    ProviderError,
    RequestRejected,
    as_sentence,
)
from newel.providers.http.decompression import unpacker
from newel.providers.http.urls import (
    SOCKS,
    ascii_host,
    credentials_of,
    is_loopback,
    proxy_of,
    split_base_url,
    target_of,
)
from newel.text.json import regex
from newel.text.sanitize import redact_url

if TYPE_CHECKING:
    import httpcore2

MAX_ANSWER = 64 * 2**20
"""Decoded bytes of one answer: more than any model writes, even one chunk a token."""

CONNECT_TIMEOUT = 10.0
KEEP_ALIVE = 60.0
"""Seconds that an idle connection is kept: longer than most tools run."""

FILLER_TIMES = 5
"""How many times the timeout a body may bring nothing but filler: comments and blank lines, by which a server
says that it is still there. Gateways send them while a model thinks, so that they get longer than silence."""

REFUSAL_TIME = 5.0
"""Seconds that the body of a refusal may take."""


class HttpResponse:
    """The answer to a request: its status, its headers, and its decoded body as it arrives."""

    def __init__(
        self,
        response: httpcore2.Response,
        errors: Callable[[], AbstractContextManager[None]],
        url: str,
        patience: float,
    ) -> None:
        """``patience``: the seconds that the body may bring nothing but filler."""
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
        }
        self._response = response
        self._errors = errors
        self._url = url
        self._patience = patience

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body's pieces. Raises ``ConnectionFailed`` if it breaks off or brings nothing but filler for
        long, ``BadResponse`` if it cannot be decoded or the pieces add up to more than ``MAX_ANSWER``.
        """
        size = 0
        heard = anyio.current_time()
        unpack = unpacker(self.headers.get("content-encoding", ""))
        with self._errors():
            async with aclosing(self._response.aiter_stream()) as pieces:
                async for packed in pieces:
                    for piece in unpack(packed):
                        size += len(piece)
                        if size > MAX_ANSWER:
                            raise _too_long(MAX_ANSWER)
                        yield piece
                        now = anyio.current_time()
                        if not _is_filler(piece):
                            heard = now
                        elif now - heard > self._patience:
                            raise ConnectionFailed(
                                f"{self._url} sent nothing but comments for {self._patience:g} s."
                            )

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


class HttpClient:
    """Requests to one server. ``timeout`` is in seconds without a byte (a body may
    bring filler for ``FILLER_TIMES`` as long); ``headers`` go with each request. ``socket`` is the path of the Unix
    socket at which the server is reached; ``place`` stands for its URLs in words.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        timeout: float,
        socket: str | None = None,
        place: str = "",
    ) -> None:
        self._base_url, self._query = split_base_url(base_url)
        self._socket = socket
        self._is_local = socket is None and is_loopback(self._base_url)
        self._place = place
        self._headers = _check_headers(headers)
        self._addressed: dict[str, _Address] = {}
        self._timeout = timeout
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._timeouts = {
            "connect": min(timeout, CONNECT_TIMEOUT),
            "read": timeout,
            "write": timeout,
            "pool": timeout,
        }

    def shown(self, path: str) -> str:
        """The URL of a path for people."""
        return self._place or redact_url(f"{self._base_url}{path}{self._query}")

    @asynccontextmanager
    async def ask(self, method: str, path: str, body: bytes = b"") -> AsyncGenerator[HttpResponse]:
        """Send a request; leaving the block closes the answer. Raises ``ConnectionFailed``."""
        import httpcore2

        address = self._address(path)
        errors = functools.partial(_translated, address.shown, self._timeout, is_local=self._is_local)
        length = [(b"Content-Length", b"%d" % len(body))] if body else []
        with errors():
            request = httpcore2.Request(
                method,
                address.target,
                headers=[*address.headers, *length],
                content=body,
                extensions={"timeout": self._timeouts},
            )
            response = await self._open().handle_async_request(request)
        try:
            yield HttpResponse(response, errors, address.shown, FILLER_TIMES * self._timeout)
        finally:
            await response.aclose()

    def _address(self, path: str) -> _Address:
        """What all requests for a path have in common."""
        if path not in self._addressed:
            url = f"{self._base_url}{path}{self._query}"
            headers = [
                (name.encode(), value.encode()) for name, value in (self._headers | _own_headers(url)).items()
            ]
            self._addressed[path] = _Address(target_of(url), headers, self.shown(path))
        return self._addressed[path]

    async def aclose(self) -> None:
        """Close the connections. The next request opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    def _open(self) -> httpcore2.AsyncConnectionPool:
        if self._pool is None:
            self._pool = _pool(self._base_url, self._socket)
        return self._pool


class _Address(NamedTuple):
    """Where a request goes, with which headers, and how that is called for people."""

    target: httpcore2.URL
    headers: list[tuple[bytes, bytes]]
    shown: str


def _pool(base_url: str, socket: str | None) -> httpcore2.AsyncConnectionPool:
    """The connections to a server: through the proxy of the environment, but for one on this machine."""
    import httpcore2

    from newel.providers.http.coalescing_backend import CoalescingBackend

    proxy = None if socket is not None or is_loopback(base_url) else proxy_of(base_url)
    if proxy is None:
        return httpcore2.AsyncConnectionPool(
            uds=socket, keepalive_expiry=KEEP_ALIVE, network_backend=CoalescingBackend()
        )
    kind = httpcore2.AsyncSOCKSProxy if urlsplit(proxy).scheme in SOCKS else httpcore2.AsyncHTTPProxy
    return kind(
        target_of(proxy),
        proxy_auth=credentials_of(proxy),
        keepalive_expiry=KEEP_ALIVE,
        network_backend=CoalescingBackend(),
    )


def _own_headers(url: str) -> dict[str, str]:
    """The headers that every request has; credentials in the URL win over a key."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    if not place.isascii():
        place = ascii_host(parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    headers = {
        "Host": place,
        "Accept-Encoding": "gzip, deflate",
    }
    if credentials := credentials_of(url):
        headers["Authorization"] = "Basic " + b64encode(b":".join(credentials)).decode()
    return headers


def _is_filler(piece: bytes) -> bool:
    """Whether a piece of a body is nothing but comments, as event streams have them, and blank lines."""
    if piece.lstrip()[:1] not in {b"", b":"}:
        return False
    return all(not line.strip() or line.startswith(b":") for line in piece.splitlines())


async def collect(chunks: AsyncIterator[bytes], limit: int, lead: bytes = b"") -> bytes:
    """The pieces in one, ``lead`` before them; raises ``BadResponse`` beyond ``limit`` bytes."""
    body = bytearray(lead)
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise _too_long(limit)
    return bytes(body)


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, if HTTP can carry them; else raises ``ConfigError``, which does not show the value."""
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise ConfigError(
                f"The value of the header {name} has characters that HTTP cannot send. "
                + ("Check the API key." if name == "Authorization" else "Check its setting.")
            )
    return dict(headers)


@contextmanager
def _translated(url: str, timeout: float, *, is_local: bool) -> Generator[None]:
    """The HTTP library's errors as ours. ``is_local`` is whether the server is one of this machine's loopback."""
    import httpcore2

    try:
        yield
    except httpcore2.ReadTimeout as error:
        raise ConnectionFailed(f"{url} sent nothing for {timeout:g} s.") from error
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.ProxyError) as error:
        raise _not_connected(url, error, is_local=is_local) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
        said_nothing = (
            "no answer in time" if isinstance(error, httpcore2.TimeoutException) else "it was closed"
        )
        reason = str(error) or said_nothing
        raise ConnectionFailed(f"The connection to {url} broke: {as_sentence(reason)}") from error


def _too_long(limit: int) -> BadResponse:
    return BadResponse(f"The server sent more than {limit // 2**20} MiB; refused.")


def _not_connected(url: str, error: Exception, *, is_local: bool) -> ProviderError:
    reason = regex(r"^\[Errno -?\d+\] ").sub("", str(error)) or "no answer"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        remedy = (
            "Install its authority on this machine, or use the server's http:// address."
            if is_local
            else "Nothing was sent. Check the host name in the address and this machine's clock. If the server belongs to "
            "your organisation, install its authority on this machine (SSL_CERT_FILE names a file of authorities). "
            "Otherwise somebody may be intercepting the connection."
        )
        return RequestRejected(f"The certificate of {url} is not trusted: {as_sentence(reason)} {remedy}")
    if is_local and _is_refused(error):
        failed = ConnectionFailed(
            f"No connection to {url}: nothing listens there. Start the server, or correct the base URL."
        )
        failed.retryable = (
            False  # only its start helps a server of this machine: do not keep the user waiting
        )
        return failed
    return ConnectionFailed(
        f"No connection to {url}: {as_sentence(reason)} Check the base URL, and that the server is running."
    )


def _is_refused(error: BaseException | None) -> bool:
    """Whether an address that was tried refused the connection; the others of the same name may not exist here."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            return any(map(_is_refused, cast("BaseExceptionGroup[BaseException]", error).exceptions))
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False
