"""URLs of model servers: taken apart, told apart, and made fit for the wire."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from newel.agent.errors import ConfigError
from newel.text.sanitize import is_clear, redact_url

if TYPE_CHECKING:
    import httpcore2

_IN_PATHS = "/:@!$&'()*+,;=%?~-._[]"
"""What stays as it is in paths and queries: they come from a user who may have encoded them already."""

HTTP = ("http", "https")
OLLAMA = {"ollama": "http", "ollama+https": "https"}
"""How Ollama's own API is named, and by what it is reached."""

OLLAMA_PORT = 11434
SOCKS = ("socks5", "socks5h")

LOCAL_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localhost")

ENCODE = " In a name or a password write / ? # @ as %2F %3F %23 %40; an @ behind the host is %40, too."


def split_base_url(base_url: str) -> tuple[str, str]:
    """The base URL without what people paste too much of, and its query. Raises ``ConfigError`` if it is
    none, without showing a password.
    """
    url, question, query = base_url.strip().partition("?")
    url = url.rstrip("/").removesuffix("/chat/completions")
    if not (_is_whole(url, HTTP) and is_clear(base_url.strip())) or not base_url.isprintable() or " " in url:
        raise ConfigError(_refusal(base_url, "base URL", "https://host/v1"))
    if "#" in base_url:
        raise ConfigError("The base URL has a '#' in it, behind which nothing is sent. Leave that part out.")
    return url, question + query


def of_ollama(base_url: str) -> str | None:
    """The HTTP address of a server that is named as one of Ollama's own API, ``ollama://host``; None for any other.
    Raises ``ConfigError`` if nothing can be reached there, without showing a password.
    """
    scheme, _, rest = base_url.strip().partition("://")
    if (http := OLLAMA.get(scheme.lower())) is None:
        return None
    place, mark, query = rest.partition("?")
    url = f"{http}://{place.rstrip('/').removesuffix('/v1').removesuffix('/api')}"
    if not (_is_whole(url, HTTP) and is_clear(base_url.strip())):
        raise ConfigError(_refusal(base_url, "address", "ollama://host:11434"))
    parts = urlsplit(url)
    if http == "http" and parts.port is None:
        url = parts._replace(netloc=f"{parts.netloc}:{OLLAMA_PORT}").geturl()
    return url + mark + query


def of_chat_completions(base_url: str) -> str:
    """The address before ``/chat/completions``, which Ollama has too, beside its own API."""
    ollama = of_ollama(base_url)
    if ollama is None:
        return base_url
    url, mark, query = ollama.partition("?")
    return f"{url}/v1{mark}{query}"


def address_of(base_url: str) -> str:
    """The server that a base URL names, in the one spelling in which a user decides on it: ASCII throughout, the host as
    DNS has it, without credentials and query. Raises ``ConfigError`` if it names none, without showing a password.
    """
    ollama = of_ollama(base_url)
    parts = urlsplit(ollama or split_base_url(base_url)[0])
    host = ascii_host(parts.hostname or "")
    place = (f"[{host}]" if ":" in host else host) + (f":{parts.port}" if parts.port else "")
    scheme = (
        parts.scheme if ollama is None else next(own for own, http in OLLAMA.items() if http == parts.scheme)
    )
    return f"{scheme}://{place}{quote(parts.path.rstrip('/'), safe=_IN_PATHS)}"


def name_of(base_url: str) -> str:
    """A server by its host, as sessions name it."""
    return "openai" if (host := _host(base_url)) == "api.openai.com" else host or "unknown"


def target_of(url: str) -> httpcore2.URL:
    """The URL as the connections take it; what is not ASCII is encoded, credentials are left out."""
    import httpcore2

    parts = urlsplit(url)
    target = quote(parts.path or "/", safe=_IN_PATHS) + (
        f"?{quote(parts.query, safe=_IN_PATHS)}" if parts.query else ""
    )
    return httpcore2.URL(
        scheme=parts.scheme,
        host=ascii_host(parts.hostname or ""),
        port=parts.port,
        target=target,
    )


def ascii_host(host: str) -> str:
    """A host's name as it stands on the wire. Raises ``ValueError`` for one that cannot be."""
    if host.isascii() and "xn--" not in host:
        return host
    name = host.encode("idna")
    name.decode("idna")  # what looks encoded and is not would pass until the connection is made
    return name.decode("ascii")


def credentials_of(url: str) -> tuple[bytes, bytes] | None:
    """The name and the password that stand in a URL."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    return unquote(parts.username).encode(), unquote(parts.password or "").encode()


def proxy_of(url: str) -> str | None:
    """The proxy that the environment (or the system) names for a URL. Raises ``ConfigError`` for one that
    cannot be used, without showing it: it may hold a password.
    """
    from importlib.util import find_spec
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or proxy_bypass(parts.hostname or ""):
        return None
    proxy = named if "://" in named else f"http://{named}"
    where = f"{parts.scheme.upper()}_PROXY or ALL_PROXY"
    if not _is_whole(proxy, (*HTTP, *SOCKS)):
        raise ConfigError(f"The proxy in {where} is no address: it must be like http://host:3128.")
    if urlsplit(proxy).scheme in SOCKS and find_spec("socksio") is None:
        raise ConfigError(
            f"{where} names a SOCKS proxy, for which the package 'socksio' is missing. Install Newel with its extra "
            "`socks`, set the variable to an http:// proxy, or name the server's host in NO_PROXY."
        )
    return proxy


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


def _refusal(url: str, what: str, example: str) -> str:
    hint = ENCODE if "@" in url else ""
    return f"'{redact_url(url.strip())}' is no {what}: it must be like {example}.{hint}"


def _is_whole(url: str, schemes: Collection[str]) -> bool:
    """Whether one can connect to what the URL names."""
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(ascii_host(parts.hostname or "")) and (parts.port or 1) > 0
    except ValueError:
        return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
