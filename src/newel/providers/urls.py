"""URLs of model servers: taken apart, told apart, and made fit for the wire."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from newel.agent.errors import ConfigError

if TYPE_CHECKING:
    import httpcore2

_IN_PATHS = "/:@!$&'()*+,;=%?~-._[]"
"""What stays as it is in paths and queries: they come from a user who may have encoded them already."""

LOCAL_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localhost")


def split_base_url(base_url: str) -> tuple[str, str]:
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


def without_secrets(url: str) -> str:
    """The URL for people: without credentials and without the query, which may hold some."""
    scheme, separator, rest = url.partition("?")[0].partition("://")
    host, slash, folders = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{folders}"


def target_of(url: str) -> httpcore2.URL:
    """The URL as the connections take it; what is not ASCII is encoded, credentials are left out."""
    import httpcore2

    parts = urlsplit(url)
    host = parts.hostname or ""
    target = quote(parts.path or "/", safe=_IN_PATHS) + (
        f"?{quote(parts.query, safe=_IN_PATHS)}" if parts.query else ""
    )
    return httpcore2.URL(
        scheme=parts.scheme,
        host=host if host.isascii() else host.encode("idna"),
        port=parts.port,
        target=target,
    )


def credentials_of(url: str) -> tuple[bytes, bytes] | None:
    """The name and the password that stand in a URL."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    return unquote(parts.username).encode(), unquote(parts.password or "").encode()


def proxy_of(url: str) -> str | None:
    """The proxy that the environment (or the system) names for a URL."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or proxy_bypass(parts.hostname or ""):
        return None
    return named if "://" in named else f"http://{named}"


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine."""
    host = _host(url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def is_private(url: str) -> bool:
    """Whether the URL's host is this machine or one of its own network."""
    host = _host(url)
    address = _address(host)
    if address is not None:
        return address.is_private or address.is_loopback
    return "." not in host or host.endswith(LOCAL_SUFFIXES)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
