"""Where the server listens, and who may come in: the token, the names it answers to, the cookie."""

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

READER_GONE = 40_000
"""Milliseconds after which the system drops a connection whose other end takes nothing any more."""


def cookie_name(port: int) -> str:
    """Browsers share cookies among the ports of a host, so the port is in the name."""
    return f"newel-{port}"


class ServerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """``host`` is the name or address that was asked for, ``port`` the one that is really served."""

    token: str
    host: str
    port: int

    @property
    def cookie(self) -> str:
        return cookie_name(self.port)

    @property
    def url(self) -> str:
        """The whole address of the page. Browsers do not send what stands behind the ``#``."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 — not bound here
        return f"http://{_authority(host, self.port)}/#token={self.token}"

    def accepts(self, tokens: Iterable[str]) -> bool:
        """Whether one of these is the token; how long it takes says nothing of how wrong one is."""
        expected = self.token.encode()
        return any(hmac.compare_digest(token.encode(errors="replace"), expected) for token in tokens)

    def hosts(self, address: str) -> frozenset[str]:
        """The values of ``Host`` that mean this server on a connection to ``address``, one of this machine."""
        names = {self.host, address}
        if is_loopback(address):
            names |= {"127.0.0.1", "localhost", "::1"}
        found = {_authority(name, self.port) for name in names}
        return frozenset(found | {name.removesuffix(":80") for name in found} if self.port == 80 else found)


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


def is_token(words: str) -> bool:
    """Whether a text can be a token."""
    return _TOKEN.fullmatch(words) is not None


def choose_token(host: str, given: str | None, made: Callable[[], str] | None = None) -> str:
    """The token of this start: the given one, else what ``made`` returns, else a new one of 192 bits. Raises
    ``ConfigError`` where one must be given, or cannot be used.
    """
    if not given:
        if is_loopback(host):
            return made() if made is not None else secrets.token_urlsafe(24)
        raise ConfigError(
            f"Serving on {host} lets other machines in. Set {TOKEN_VARIABLE} to a secret of at least 32 "
            f"characters first, for example the output of: openssl rand -hex 24"
        )
    if not is_token(given):
        raise ConfigError(
            f"{TOKEN_VARIABLE} must have 32 to 256 letters, digits, '-' or '_'; it has {len(given)} characters."
        )
    return given


class ServerSocket(msgspec.Struct, frozen=True):
    """A socket that takes connections, and where."""

    bound: socket.socket
    host: str
    port: int

    def close(self) -> None:
        self.bound.close()


def listen(host: str, port: int) -> ServerSocket:
    """Take the port, 0 for any free one. Connections wait until they are served. Raises ``ConfigError``."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"{port} is no port. Ports go from 1 to 65535; --port 0 takes any free one.")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise ConfigError(
            f"'{host}' is no host of this machine: {error}. Give another with --bind."
        ) from error
    # With its protocol named, asyncio lets connections send at once: else every answer on one that is kept waits 40 ms.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
            with contextlib.suppress(OSError):
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, READER_GONE)
        taken.bind(address)
        taken.listen(1024)
    except OSError as error:
        taken.close()
        raise ConfigError(_why_not(error, host, port)) from error
    taken.setblocking(False)
    return ServerSocket(taken, host, taken.getsockname()[1])


def _why_not(error: OSError, host: str, port: int) -> str:
    another = "Choose another with --port N; --port 0 takes any free one."
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is taken, perhaps by another Newel. {another}"
        case errno.EACCES:
            return f"Port {port} on {host} may not be used by this account. {another}"
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine. Give another with --bind."
        case _:
            return f"Port {port} on {host} cannot be used: {error.strerror}. {another}"
