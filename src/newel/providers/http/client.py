"""HTTP for providers: connections opened on first use and kept alive, bounded responses, errors of our own tree."""

from __future__ import annotations

import functools
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import anyio
import msgspec

from newel.agent.errors import (
    BadResponse,
    ConfigError,
    ConnectionFailed,
    ProviderError,
    RequestRejected,
    as_sentence,
)
from newel.providers.http.urls import (
    SOCKS,
    ascii_host,
    is_loopback,
    proxy_url,
    request_url,
    split_base_url,
    url_credentials,
)
from newel.text.json import regex
from newel.text.sanitize import redact_url

if TYPE_CHECKING:
    import httpcore2

MAX_PIECE = 2**20
"""Decoded bytes of one piece of a compressed body."""

_GZIP = b"\x1f\x8b"
_MAGIC = 2
"""Bytes that identify the format."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
"""What OpenSSL, depending on its version, calls an answer that is no TLS."""


def decompressor(encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    """Return a function from a piece of the body to its decoded pieces, at least one, which may be empty.

    It raises ``BadResponse`` for data that does not match the content encoding.
    """
    encoding = encoding.strip().lower()
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return _Inflate(is_deflate=encoding == "deflate").decompress
    return lambda piece: (piece,)


class _Inflate:
    """Gzip of one or several members, zlib's format, and the raw deflate that some servers send as ``deflate``.

    Data after the last member (padding, junk) is ignored, as in browsers.
    """

    def __init__(self, *, is_deflate: bool) -> None:
        import zlib

        self._zlib = zlib
        self._is_deflate = is_deflate
        self._stream = None
        self._input = b""
        self._started = self._finished = False

    def decompress(self, compressed: bytes) -> Iterator[bytes]:
        piece: bytes | None = None
        self._input += compressed
        while not self._finished:
            if self._stream is None:
                if len(self._input) < _MAGIC:
                    break
                self._start_member()
                continue
            try:
                yield (piece := self._stream.decompress(self._input, MAX_PIECE))
            except self._zlib.error as error:
                raise _bad_encoding() from error
            self._input = self._stream.unconsumed_tail
            if self._stream.eof:
                self._input = self._stream.unused_data.lstrip(b"\0")
                self._stream = None
            elif not self._input and len(piece) < MAX_PIECE:  # a full piece may have more behind it
                break
        if piece is None:
            yield b""

    def _start_member(self) -> None:
        """Detect the format by the first bytes; after a member only another gzip member counts."""
        is_zlib = (
            self._input[0] & 15 == self._zlib.DEFLATED and not int.from_bytes(self._input[:2], "big") % 31
        )
        if self._input.startswith(_GZIP):
            window = 16 + self._zlib.MAX_WBITS
        elif self._started:
            self._input, self._finished = b"", True
            return
        elif is_zlib:
            window = self._zlib.MAX_WBITS
        elif self._is_deflate:
            window = -self._zlib.MAX_WBITS
        else:
            raise _bad_encoding()
        self._stream = self._zlib.decompressobj(window)
        self._started = True


def _bad_encoding() -> BadResponse:
    return BadResponse("The server sent a body that does not match its content encoding.")


ENCODINGS = {"Accept-Encoding": "gzip, deflate"}
"""Sent unless the headers of a client say otherwise."""

CHECK_SERVER = "Check the network, the base URL, and that the server is running."

MAX_RESPONSE_BYTES = 64 * 2**20
"""Decoded bytes of one response: more than any model writes, even one chunk a token."""

CONNECT_TIMEOUT_S = 10.0
KEEP_ALIVE_S = 60.0
"""An idle connection is kept longer than most tools run."""

FILLER_FACTOR = 5
"""A body may bring only filler for as many times the timeout: comments and blank lines, which gateways send as keep-alive
while a model thinks."""

ERROR_BODY_TIMEOUT_S = 5.0
"""For reading the body of an error response."""


class HttpResponse:
    """Status, headers, and the decoded body as it arrives."""

    def __init__(
        self,
        response: httpcore2.Response,
        errors: Callable[[], AbstractContextManager[None]],
        url: str,
        filler_timeout: float,
    ) -> None:
        """``filler_timeout`` is in seconds without anything but filler."""
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
        }
        self._response = response
        self._errors = errors
        self._url = url
        self._filler_timeout = filler_timeout

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    async def chunks(self, limit: int | None = None) -> AsyncGenerator[bytes]:
        """Yield the pieces of the body. Raises ``ConnectionFailed`` if it breaks off or brings only filler for too long,
        ``BadResponse`` if it cannot be decoded or exceeds ``limit`` bytes (default: ``MAX_RESPONSE_BYTES``).
        """
        limit = MAX_RESPONSE_BYTES if limit is None else limit
        size = 0
        last_data = anyio.current_time()
        decompress = decompressor(self.headers.get("content-encoding", ""))
        with self._errors():
            async with aclosing(self._response.aiter_stream()) as pieces:
                async for compressed in pieces:
                    for piece in decompress(compressed):
                        size += len(piece)
                        if size > limit:
                            raise _too_large(limit)
                        yield piece
                        now = anyio.current_time()
                        if not _is_filler(piece):
                            last_data = now
                        elif now - last_data > self._filler_timeout:
                            raise ConnectionFailed(
                                f"{self._url} sent nothing but comments for {self._filler_timeout:g} s."
                            )

    async def read(self, limit: int) -> bytes:
        """Return the whole body; raises ``BadResponse`` if it is longer than ``limit`` bytes."""
        async with aclosing(self.chunks()) as chunks:
            return await collect(chunks, limit)

    async def read_prefix(self, limit: int) -> bytes:
        """Return up to ``limit`` bytes of the body that arrive within a few seconds, however it breaks off."""
        body = bytearray()
        with suppress(ProviderError), anyio.move_on_after(ERROR_BODY_TIMEOUT_S):
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) >= limit:
                        break
        return bytes(body[:limit])


class HttpClient:
    """Requests to one server. ``timeout`` is in seconds without a byte (a body may
    bring filler for ``FILLER_FACTOR`` as long); ``headers`` go with each request. ``socket`` is the path of the
    server's Unix socket; ``display_name`` replaces its URLs in messages. ``remedy`` ends the message about a connection that
    cannot be made.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        timeout: float,
        socket: str | None = None,
        display_name: str = "",
        remedy: str = CHECK_SERVER,
    ) -> None:
        self._remedy = remedy
        self._base_url, self._query = split_base_url(base_url)
        self._socket = socket
        self._is_local = socket is None and is_loopback(self._base_url)
        self._display_name = display_name
        self._headers = _check_headers(headers)
        self._targets: dict[str, _RequestTarget] = {}
        self._timeout = timeout
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._timeouts = {
            "connect": min(timeout, CONNECT_TIMEOUT_S),
            "read": timeout,
            "write": timeout,
            "pool": timeout,
        }

    def display_url(self, path: str) -> str:
        """Return the URL of a path for messages, without credentials."""
        return self._display_name or redact_url(self._url(path))

    @asynccontextmanager
    async def request(self, method: str, path: str, body: bytes = b"") -> AsyncGenerator[HttpResponse]:
        """Send a request; leaving the block closes the response. Raises ``ConnectionFailed``."""
        import httpcore2

        target = self._target(path)
        errors = functools.partial(
            _map_errors, target.display_url, self._timeout, self._remedy, is_local=self._is_local
        )
        length = [(b"Content-Length", b"%d" % len(body))] if body else []
        with errors():
            request = httpcore2.Request(
                method,
                target.target,
                headers=[*target.headers, *length],
                content=body,
                extensions={"timeout": self._timeouts},
            )
            response = await self._send(request)
        try:
            yield HttpResponse(response, errors, target.display_url, FILLER_FACTOR * self._timeout)
        finally:
            await response.aclose()

    async def _send(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send it once more if that failed on a connection that may have been closed since the last request: a server may do so at any
        moment, and then has not seen the request.
        """
        import httpcore2

        pool = self._open()
        may_be_closed = any(connection.is_idle() for connection in pool.connections)
        try:
            return await pool.handle_async_request(request)
        except (httpcore2.RemoteProtocolError, httpcore2.ReadError, httpcore2.WriteError):
            if not may_be_closed:
                raise
        return await pool.handle_async_request(request)

    def _target(self, path: str) -> _RequestTarget:
        """Return what all requests for a path share."""
        if path not in self._targets:
            url = self._url(path)
            headers = [
                (name.encode(), value.encode())
                for name, value in (ENCODINGS | self._headers | _default_headers(url)).items()
            ]
            self._targets[path] = _RequestTarget(request_url(url), headers, self.display_url(path))
        return self._targets[path]

    def _url(self, path: str) -> str:
        """Return the URL of a path, which may have a query besides that of the base URL."""
        query = f"&{self._query[1:]}" if "?" in path and self._query else self._query
        return f"{self._base_url}{path}{query}"

    async def aclose(self) -> None:
        """Close the connections. The next request opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    def _open(self) -> httpcore2.AsyncConnectionPool:
        if self._pool is None:
            self._pool = _pool(self._base_url, self._socket)
        return self._pool


class _RequestTarget(msgspec.Struct, frozen=True):
    """URL and headers of a request, and the URL for messages."""

    target: httpcore2.URL
    headers: list[tuple[bytes, bytes]]
    display_url: str


def _pool(base_url: str, socket: str | None) -> httpcore2.AsyncConnectionPool:
    """Return the connection pool: through the proxy of the environment, except to this machine."""
    import httpcore2

    from newel.providers.http.coalescing_backend import CoalescingBackend

    proxy = None if socket is not None or is_loopback(base_url) else proxy_url(base_url)
    if proxy is None:
        return httpcore2.AsyncConnectionPool(
            uds=socket, keepalive_expiry=KEEP_ALIVE_S, network_backend=CoalescingBackend()
        )
    kind = httpcore2.AsyncSOCKSProxy if urlsplit(proxy).scheme in SOCKS else httpcore2.AsyncHTTPProxy
    return kind(
        request_url(proxy),
        proxy_auth=url_credentials(proxy),
        keepalive_expiry=KEEP_ALIVE_S,
        network_backend=CoalescingBackend(),
    )


def _default_headers(url: str) -> dict[str, str]:
    """Return the headers of every request; credentials in the URL take precedence over a key."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if not host.isascii():
        host = ascii_host(parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    headers = {"Host": host}
    if credentials := url_credentials(url):
        headers["Authorization"] = "Basic " + b64encode(b":".join(credentials)).decode()
    return headers


def _is_filler(piece: bytes) -> bool:
    """Whether a piece of a body holds only blank lines and comments of event streams."""
    if piece.lstrip()[:1] not in {b"", b":"}:
        return False
    return all(not line.strip() or line.startswith(b":") for line in piece.splitlines())


async def collect(chunks: AsyncIterator[bytes], limit: int, prefix: bytes = b"") -> bytes:
    """Join ``prefix`` and the pieces; raises ``BadResponse`` beyond ``limit`` bytes."""
    body = bytearray(prefix)
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers. Raises ``ConfigError``, without the value, for one that HTTP cannot carry."""
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise ConfigError(
                f"The value of the header {name} has characters that HTTP cannot send. "
                + ("Check the API key." if name == "Authorization" else "Check its setting.")
            )
    return dict(headers)


@contextmanager
def _map_errors(url: str, timeout: float, remedy: str, *, is_local: bool) -> Generator[None]:
    """Raise the HTTP library's errors as ours. ``is_local``: the server is on the loopback."""
    import httpcore2

    try:
        yield
    except httpcore2.ReadTimeout as error:
        raise ConnectionFailed(f"{url} sent nothing for {timeout:g} s.") from error
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.ProxyError) as error:
        raise _connect_error(url, error, remedy, is_local=is_local) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
        default_reason = (
            "no answer in time" if isinstance(error, httpcore2.TimeoutException) else "it was closed"
        )
        reason = str(error) or default_reason
        raise ConnectionFailed(f"The connection to {url} broke: {as_sentence(reason)}") from error


def _too_large(limit: int) -> BadResponse:
    return BadResponse(f"The server sent more than {limit // 2**20} MiB; refused.")


def _connect_error(url: str, error: Exception, remedy: str, *, is_local: bool) -> ProviderError:
    reason = regex(r"^\[Errno -?\d+\] ").sub("", str(error)) or "no answer"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        remedy = (
            "Install its authority on this machine, or use the server's http:// address."
            if is_local
            else "Nothing was sent. Check the host name in the address and this machine's clock. If the server belongs to "
            "your organization, install its authority on this machine (SSL_CERT_FILE names a file of authorities). "
            "Otherwise the connection may be intercepted."
        )
        return RequestRejected(f"The certificate of {url} is not trusted: {as_sentence(reason)} {remedy}")
    if any(name in reason for name in _NO_TLS):
        address = (
            "Begin the base URL with http://." if is_local else "Check the address, and who answers there."
        )
        return _lasting(f"{url} answers without TLS, so nothing was sent. {address}")
    if is_local and _is_refused(error):
        return _lasting(
            f"No connection to {url}: nothing listens there. Start the server, or correct the base URL."
        )
    return ConnectionFailed(f"No connection to {url}: {as_sentence(reason)} {remedy}")


def _lasting(message: str) -> ConnectionFailed:
    """The error for a server that has to be started, or an address to be corrected: the user need not wait for more attempts."""
    failed = ConnectionFailed(message)
    failed.retryable = False
    return failed


def _is_refused(error: BaseException | None) -> bool:
    """Whether an address refused the connection; others of the same host name may not exist here."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            return any(map(_is_refused, cast("BaseExceptionGroup[BaseException]", error).exceptions))
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False
