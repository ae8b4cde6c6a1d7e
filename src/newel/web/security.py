"""Access control for every HTTP request and WebSocket.

A server that can run a shell must never be open. A request must name this server exactly (``Host``), come from its own page
or from no page (``Origin``, ``Sec-Fetch-Site``), know the token, and, if it changes anything, not come from an agent's
command. Its body must be JSON and within the limits. Responses have security headers and a send timeout.

    ``Authorization: Bearer <token>``   programs
    ``Newel-Page-Proof: <proof>``       the page; its socket has the proof in a subprotocol (``page_login``)

There is no cookie: browsers send those to all ports of a machine.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import string
from collections.abc import Mapping
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from newel.agent.errors import ConfigError
from newel.web.page_login import HEADER, PROOF_SUBPROTOCOL, derive_key, page_proof, server_proof
from newel.workspace.process.callers import Callers

OPEN = frozenset(
    {("GET", "/"), ("GET", "/favicon.ico"), ("GET", "/api/login"), ("GET", "/docs"), ("GET", "/openapi.json")}
)
"""Requests without a token, besides the files under ``OPEN_FILES``: the page, the start of its login, and the description of the
API, which says nothing about the project.
"""
OPEN_FILES = "/static/"

MAX_BODY = 8 * 2**20
MAX_BODIES: Mapping[str, int] = {
    "/api/login": 4096,
    "/api/transport/run": 64 * 2**20,
    # ``ReviewLimits`` bounds their texts; JSON may need six bytes for one.
    "/api/agent/run": 16 * 2**20,
    "/api/agent/edit": 16 * 2**20,
}
"""Bytes of a request's body if not ``MAX_BODY``."""
BODY_TIMEOUT_S = 60.0
"""For a body to arrive."""
SEND_TIMEOUT_S = 30.0
"""For a client to take a piece of the response."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)

_READS = ("GET", "HEAD")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]")

OF_CONNECTION = "newel.connection"
"""In a scope's ``state``: facts about the connection that hold for its further requests."""


class ServerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """``host`` is the requested name or address, ``port`` the bound port, ``nonce`` that of this start. ``public_url`` is the origin
    at which a proxy or a forwarded port offers this server (``parse_public_url``).
    """

    token: str
    host: str
    port: int
    public_url: str = ""
    nonce: str = msgspec.field(default_factory=secrets.token_urlsafe)

    @property
    def url(self) -> str:
        """The address of the page. Browsers do not send the token after the ``#``."""
        address = f"{self.public_url}/" if self.public_url else self.local_url
        return f"{address}#token={self.token}"

    @property
    def local_url(self) -> str:
        """The address for programs on this machine, without the token."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 — not bound here
        return f"http://{_authority(host, self.port)}/"

    @property
    def public_host(self) -> str:
        """The ``Host`` of the public URL; empty if there is none."""
        return self.public_url.partition("://")[2]

    def accepts(self, token: str) -> bool:
        return _is_same(token, self.token)

    def accepts_page(self, proof: str, host: str) -> bool:
        """Whether this is the proof of a page at an address, which is the ``Host`` header."""
        return _is_same(proof, page_proof(derive_key(self.token, host), self.nonce))

    def prove(self, challenge: str, host: str) -> str:
        """The answer to a page's challenge."""
        return server_proof(derive_key(self.token, host), self.nonce, challenge)

    def hosts(self, address: str) -> frozenset[str]:
        """The accepted values of ``Host`` on a connection to ``address``, one of this machine."""
        names = {self.host, address}
        if is_loopback(address):
            names |= {"127.0.0.1", "localhost", "::1"}
        hosts = {_authority(name, self.port) for name in names}
        if self.port == 80:
            hosts |= {host.removesuffix(":80") for host in hosts}
        return frozenset(hosts | {self.public_host} if self.public_url else hosts)

    def origin(self, host: str) -> str:
        """The origin of the page at an accepted ``Host``."""
        return self.public_url if host == self.public_host else f"http://{host}"


def _is_same(given: str, secret: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}".lower()


def parse_public_url(text: str) -> str:
    """The origin of a public URL, as browsers write it. Raises ``ConfigError``."""
    invalid = ConfigError(
        f"--public-url takes an address such as https://newel.example.com, without a path, not {text!r}. It is the one at which a "
        f"proxy or a forwarded port offers the workbench."
    )
    try:
        parts = urlsplit(text)
        name, port = parts.hostname or "", parts.port
        host = f"[{ipaddress.IPv6Address(name)}]" if ":" in name else name.encode("idna").decode()
    except ValueError as error:
        raise invalid from error
    has_more = (
        parts.path not in {"", "/"} or "@" in parts.netloc or set(text) & {"?", "#", *string.whitespace}
    )
    if has_more or parts.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host):
        raise invalid
    return f"{parts.scheme}://{host}" + ("" if port in {None, _DEFAULT_PORTS[parts.scheme]} else f":{port}")


def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Refusal(Exception):
    """A refused request; answered with ``{"error": {"code", "message"}}``."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def encode(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """The answer's own headers, and its body."""
        body = msgspec.json.encode({"error": {"code": self.code, "message": str(self)}})
        return [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ], body


class SecurityMiddleware:
    """ASGI middleware around the whole application. ``send_timeout`` and ``body_timeout`` are in seconds."""

    def __init__(
        self,
        app: ASGIApp,
        access: ServerAccess,
        *,
        send_timeout: float = SEND_TIMEOUT_S,
        body_timeout: float = BODY_TIMEOUT_S,
    ) -> None:
        self._app = app
        self._access = access
        self._send_timeout = send_timeout
        self._body_timeout = body_timeout
        self._callers = Callers(access.port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        way_out = _TimedSend(send, self._send_timeout)
        try:
            request = _RequestInfo(scope)
            check(request, self._access)
            await self._check_caller(request, scope)
            if request.writes:
                receive = await _whole_body(request, receive, self._body_timeout)
        except Refusal as refusal:
            await _refuse(scope, way_out, refusal)
            return
        try:
            await self._app(scope, receive, way_out)
        except Exception:
            if not way_out.timed_out:
                raise

    async def _check_caller(self, request: _RequestInfo, scope: Scope) -> None:
        """Raises ``Refusal`` for a write by an agent's command, which could know the token."""
        client: tuple[str, int] | None = scope.get("client")
        if client is None or request.is_open or not (request.socket or request.writes):
            return
        facts: dict[str, bool] = scope.get("state", {}).get(OF_CONNECTION, {})  # finding it out takes 20 ms
        if "is_agent" not in facts:
            facts["is_agent"] = await anyio.to_thread.run_sync(self._callers.is_agent, *client)
        if facts["is_agent"]:
            raise Refusal(
                403,
                "agent",
                "Only the user may do this. It does not work in a program that an agent's command has started, or in one that "
                "closes its connection. Use a browser or a terminal of your own.",
            )


class _RequestInfo:
    """The checked parts of a request."""

    def __init__(self, scope: Scope) -> None:
        self.socket = scope["type"] == "websocket"
        self.method: str = "GET" if self.socket else scope["method"]
        self.path: str = scope["path"]
        self.address = _address(scope)
        self._headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            self._headers.setdefault(name, []).append(value.decode("latin-1"))

    def header(self, name: bytes) -> str | None:
        """Raises ``Refusal`` for an ambiguous header."""
        values = self._headers.get(name, [])
        if len(values) > 1:
            raise Refusal(400, "bad_request", f"The header {name.decode()} is repeated.")
        return values[0] if values else None

    @property
    def page_proof(self) -> str:
        if not self.socket:
            return self.header(HEADER) or ""
        offered = ",".join(self._headers.get(b"sec-websocket-protocol", [])).split(",")
        proofs = [each.strip() for each in offered if each.strip().startswith(PROOF_SUBPROTOCOL)]
        return proofs[0].removeprefix(PROOF_SUBPROTOCOL) if proofs else ""

    @property
    def writes(self) -> bool:
        return self.method not in _READS

    @property
    def is_open(self) -> bool:
        if self.socket:
            return False
        method = "GET" if self.method == "HEAD" else self.method
        return (method, self.path) in OPEN or (method == "GET" and self.path.startswith(OPEN_FILES))

    @property
    def opens_the_page(self) -> bool:
        """Whether the user follows a link to the page, which reveals nothing."""
        navigates = (self.header(b"sec-fetch-mode"), self.header(b"sec-fetch-dest")) == (
            "navigate",
            "document",
        )
        return navigates and (self.method, self.path) == ("GET", "/")


def _address(scope: Scope) -> str:
    """This machine's end of the connection, as ``Host`` would write it."""
    server: tuple[str, int | None] | None = scope.get("server")
    try:
        address = ipaddress.ip_address(server[0] if server else "")
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def check(request: _RequestInfo, access: ServerAccess) -> None:
    """Raises ``Refusal`` unless the request is allowed."""
    host = (request.header(b"host") or "").lower()
    if host not in access.hosts(request.address):
        raise Refusal(
            421,
            "wrong_host",
            "The Host header does not name this server. Use the URL that it printed. If a proxy or a forwarded port gives it "
            "another address, start it with --public-url.",
        )
    origin = request.header(b"origin")
    if origin is not None and origin != access.origin(host):
        if access.public_url and origin == access.public_url:
            raise Refusal(
                403, "wrong_origin", f"The proxy has to pass on the Host header, '{access.public_host}'."
            )
        raise Refusal(403, "wrong_origin", "Only the page of this server may send this request.")
    if request.header(b"sec-fetch-site") not in {None, "same-origin", "none"} and not request.opens_the_page:
        raise Refusal(403, "wrong_origin", "Only the page of this server may send this request.")
    by_header = _bearer(request)
    if not request.is_open and not (
        access.accepts(by_header) if by_header else access.accepts_page(request.page_proof, host)
    ):
        raise Refusal(
            401,
            "unauthorized",
            "The token is missing or wrong. Open the URL that the server printed at its start, or send its token "
            "as 'Authorization: Bearer …'.",
        )
    if origin is None and not by_header and (request.socket or request.writes):
        raise Refusal(
            403, "wrong_origin", "A request of the page needs an Origin header; programs send a bearer token."
        )
    if request.writes and _media_type(request) != "application/json":
        raise Refusal(415, "not_json", "Send JSON: 'Content-Type: application/json'.")


def _bearer(request: _RequestInfo) -> str | None:
    scheme, _, token = (request.header(b"authorization") or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _media_type(request: _RequestInfo) -> str:
    return (request.header(b"content-type") or "").partition(";")[0].strip().lower()


async def _whole_body(request: _RequestInfo, receive: Receive, body_timeout: float) -> Receive:
    """Read the body up to its limit, and replay it in one piece. Raises ``Refusal``."""
    limit = MAX_BODIES.get(request.path, MAX_BODY)
    too_large = Refusal(413, "too_large", f"The body has more than {limit:,} bytes.")
    length = request.header(b"content-length") or ""
    if length.isdecimal() and int(length) > limit:
        raise too_large
    body = bytearray()
    more = True
    with anyio.move_on_after(body_timeout):
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Refusal(400, "bad_request", "The body is incomplete.")
            body += message.get("body", b"")
            if len(body) > limit:
                raise too_large
            more = message.get("more_body", False)
    if more:
        raise Refusal(408, "too_slow", f"The body did not arrive within {body_timeout:g} seconds.")
    whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay


class _TimedSend:
    """``send`` with security headers and a timeout."""

    def __init__(self, send: Send, send_timeout: float) -> None:
        self._send = send
        self._send_timeout = send_timeout
        self.timed_out = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            headers = list(message.get("headers", []))
            present = {name.lower() for name, _ in headers}
            message["headers"] = [*headers, *(pair for pair in SECURITY_HEADERS if pair[0] not in present)]
        with anyio.move_on_after(self._send_timeout) as scope:
            await self._send(message)
        if scope.cancelled_caught:
            self.timed_out = True
        if self.timed_out:
            raise OSError("the client stopped reading")


async def _refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    kind = "http"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        kind = "websocket.http"
    headers, body = refusal.encode()
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": f"{kind}.response.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body, "more_body": False})
    if scope["type"] == "websocket":
        # Without this uvicorn logs an incomplete handshake.
        await anyio.lowlevel.checkpoint()
