"""Addresses of web pages, as they are judged and requested."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from newel.workspace.sandbox.domains import WEB_PORTS, Domain, parse_host

MAX_ADDRESS: Final = 4_000
"""Characters of an address."""

_PORTS: Final = {"http": 80, "https": 443}

_KEPT: Final = "/:@!$&'()*+,;=%?~-._[]"
"""Characters that are not encoded: the address may have them encoded already."""


class WebAddress(msgspec.Struct, frozen=True):
    """An address in ASCII, without credentials and fragment; ``target`` is its path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The host, with a port other than that of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def server(self) -> str:
        """The server as rules name it."""
        return str(Domain(self.host, None if self.port in WEB_PORTS else self.port))

    @property
    def is_literal(self) -> bool:
        """Whether no name server is asked where it leads."""
        return is_literal(self.host)

    def join(self, reference: str) -> WebAddress:
        """Where a link or a redirection on the page leads. Raises ``ValueError``."""
        return parse_web_address(urljoin(str(self), reference))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_web_address(text: str) -> WebAddress:
    """Parse an address; one without a scheme is ``https``. Raises ``ValueError``, which says what is wrong."""
    text = text.strip()
    if len(text) > MAX_ADDRESS:
        raise ValueError(f"it has more than {MAX_ADDRESS:,} characters")
    if not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("it has spaces, backslashes or invisible characters")
    if re.match(r"[\w.-]+\.[a-z]{2,}(?:/|\Z)", text, re.IGNORECASE):
        text = f"https://{text}"
    parts = urlsplit(text)
    if parts.scheme not in _PORTS:
        raise ValueError("it does not begin with https:// or http://")
    if "@" in parts.netloc:
        raise ValueError("it has a user name or a password; pages are fetched without")
    host = parse_host(
        _ascii(f"[{parts.hostname}]" if ":" in parts.netloc.rpartition("]")[0] else parts.hostname or "")
    )
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    return WebAddress(
        parts.scheme, host, parts.port or _PORTS[parts.scheme], quote(parts.path or "/", safe=_KEPT) + query
    )


def is_literal(host: str) -> bool:
    """Whether a host is an address, or a name that is this machine's by definition."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return True


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode("ascii")
