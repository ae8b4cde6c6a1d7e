"""The address of the server and access to it: its socket, host names, token and cookie."""

from __future__ import annotations

import contextlib
import errno
import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable, Iterable

import msgspec

from newel.agent.errors import ConfigError

TOKEN_VARIABLE = "NEWEL_WEB_TOKEN"  # noqa: S105 — the variable's name
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,256}")

ACK_TIMEOUT_MS = 40_000
"""Milliseconds after which the kernel drops a connection whose other end does not acknowledge data."""


def cookie_name(port: int) -> str:
    """Contains the port, as browsers share cookies among the ports of a host."""
    return f"newel-{port}"


class ServerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """``host`` is the requested name or address, ``port`` the bound port."""

    token: str
    host: str
    port: int

    @property
    def cookie(self) -> str:
        return cookie_name(self.port)

    @property
    def url(self) -> str:
        """The address of the page. Browsers do not send the token after the ``#``."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 — not bound here
        return f"http://{_authority(host, self.port)}/#token={self.token}"

    def accepts(self, tokens: Iterable[str]) -> bool:
        """Whether one of these is the token, compared in constant time."""
        expected = self.token.encode()
        return any(hmac.compare_digest(token.encode(errors="replace"), expected) for token in tokens)

    def hosts(self, address: str) -> frozenset[str]:
        """The accepted values of ``Host`` on a connection to ``address``, one of this machine."""
        names = {self.host, address}
        if is_loopback(address):
            names |= {"127.0.0.1", "localhost", "::1"}
        hosts = {_authority(name, self.port) for name in names}
        return frozenset(hosts | {host.removesuffix(":80") for host in hosts} if self.port == 80 else hosts)


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}".lower()


def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_token(text: str) -> bool:
    """Whether a text can be a token."""
    return _TOKEN.fullmatch(text) is not None


def choose_token(host: str, requested: str | None, load: Callable[[], str] | None = None) -> str:
    """The token for this start: the requested one, else the result of ``load``, else a new one of 192 bits. Raises
    ``ConfigError`` if the requested one is invalid, or is missing although other machines can connect.
    """
    if not requested:
        if is_loopback(host):
            return load() if load is not None else secrets.token_urlsafe(24)
        raise ConfigError(
            f"Serving on {host} lets other machines in. Set {TOKEN_VARIABLE} to a secret of at least 32 "
            f"characters first, for example the output of: openssl rand -hex 24"
        )
    if not is_token(requested):
        raise ConfigError(
            f"{TOKEN_VARIABLE} must have 32 to 256 letters, digits, '-' or '_'; it has {len(requested)} characters."
        )
    return requested


class ServerSocket(msgspec.Struct, frozen=True):
    """A listening socket and its address."""

    bound: socket.socket
    host: str
    port: int

    def close(self) -> None:
        self.bound.close()


def listen(host: str, port: int) -> ServerSocket:
    """Listen on a port, 0 for any free one. Connections are queued until they are served. Raises ``ConfigError``."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"{port} is not a port. Use 1 to 65535, or --port 0 for any free one.")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise ConfigError(
            f"'{host}' is not an address of this machine: {error}. Choose another with --bind."
        ) from error
    # asyncio sets TCP_NODELAY only if the protocol is named: without it responses on a reused connection wait 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ACK_TIMEOUT_MS)
        bound.bind(address)
        bound.listen(1024)
    except OSError as error:
        bound.close()
        raise ConfigError(_explain(error, host, port)) from error
    bound.setblocking(False)
    return ServerSocket(bound, host, bound.getsockname()[1])


def _explain(error: OSError, host: str, port: int) -> str:
    another = "Choose another with --port N, or any free one with --port 0."
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is in use, perhaps by another Newel. {another}"
        case errno.EACCES:
            return f"Port {port} on {host} requires privileges. {another}"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine. Choose another with --bind."
        case _:
            return f"Port {port} on {host} cannot be used: {error.strerror}. {another}"
