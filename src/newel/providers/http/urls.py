"""URLs of model servers: validation, normalization and encoding."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from newel.agent.errors import ConfigError
from newel.text.sanitize import is_clear, redact_url

if TYPE_CHECKING:
    import httpcore2

_IN_PATHS = "/:@!$&'()*+,;=%?~-._[]"
"""Characters that are not encoded in paths and queries: the user may have encoded them already."""

HTTP = ("http", "https")
OLLAMA = {"ollama": "http", "ollama+https": "https"}
"""The schemes of Ollama's own API, with the schemes of their requests."""

OLLAMA_PORT = 11434
LLAMACPP = "llamacpp:"
"""The scheme of model files on this machine."""
EXTENSION = "extension:"
"""The scheme of providers that extensions add."""

_MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

SOCKS = ("socks5", "socks5h")

LOCAL_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localhost")

ENCODE = (
    " In a user name or password, write / ? # @ as %2F %3F %23 %40; also write an @ after the host as %40."
)


def split_base_url(base_url: str) -> tuple[str, str]:
    """Return the base URL without a pasted ``/chat/completions`` or ``/responses``, and its query. Raises ``ConfigError``, without
    showing a password, if it is invalid.
    """
    url, question, query = base_url.strip().partition("?")
    url = url.rstrip("/").removesuffix("/chat/completions").removesuffix("/responses")
    if not (_is_valid(url, HTTP) and is_clear(base_url.strip())) or not base_url.isprintable() or " " in url:
        raise ConfigError(_refusal(base_url, "base URL", "https://host/v1"))
    if "#" in base_url:
        raise ConfigError(
            "The base URL contains a '#'. Remove it and what follows: HTTP does not send that part."
        )
    return url, question + query


def ollama_http_url(base_url: str) -> str | None:
    """Return the HTTP address for ``ollama://host``, a server of Ollama's own API; None for other schemes. Raises ``ConfigError``,
    without showing a password, if it is invalid.
    """
    scheme, _, rest = base_url.strip().partition("://")
    if (http := OLLAMA.get(scheme.lower())) is None:
        return None
    place, mark, query = rest.partition("?")
    url = f"{http}://{place.rstrip('/').removesuffix('/v1').removesuffix('/api')}"
    if not (_is_valid(url, HTTP) and is_clear(base_url.strip())):
        raise ConfigError(_refusal(base_url, "address", "ollama://host:11434"))
    parts = urlsplit(url)
    if http == "http" and parts.port is None:
        url = parts._replace(netloc=f"{parts.netloc}:{OLLAMA_PORT}").geturl()
    return url + mark + query


def is_model_name(text: str) -> bool:
    """Whether a text can be the short name of a pulled model: no path, and no file name."""
    return re.fullmatch(_MODEL_NAME, text) is not None and not text.lower().endswith((".gguf", ".part"))


def pulled_model(base_url: str) -> str | None:
    """Return the name in ``llamacpp:NAME``, a model that ``newel models pull`` has stored; None for other addresses."""
    scheme, name = base_url.strip()[: len(LLAMACPP)], base_url.strip()[len(LLAMACPP) :]
    return name if scheme.lower() == LLAMACPP and is_model_name(name) else None


def model_file_path(base_url: str) -> str | None:
    """Return the absolute path in ``llamacpp:/path/model.gguf``, a model file on this machine; None for other addresses. Raises
    ``ConfigError`` if it is invalid.
    """
    address = base_url.strip()
    if address[: len(LLAMACPP)].lower() != LLAMACPP:
        return None
    path = address[len(LLAMACPP) :]
    if path.startswith("//"):
        path = "/" + path.lstrip("/")
    expanded = os.path.expanduser(path)  # noqa: PTH111 — a text: the network needs no pathlib
    if not os.path.isabs(expanded) or not path.isprintable():  # noqa: PTH117 — likewise
        raise ConfigError(
            _refusal(
                base_url,
                "address",
                "llamacpp:/path/model.gguf, llamacpp:~/model.gguf, or llamacpp:NAME for a pulled model",
            )
        )
    return os.path.normpath(expanded)


def extension_provider(base_url: str) -> str | None:
    """Return the name in ``extension:NAME``, a provider that an extension adds; None for other addresses. Raises ``ConfigError`` if there
    is no name.
    """
    scheme, name = base_url.strip()[: len(EXTENSION)], base_url.strip()[len(EXTENSION) :].strip("/")
    if scheme.lower() != EXTENSION:
        return None
    if not re.fullmatch(_MODEL_NAME, name):
        raise ConfigError(_refusal(base_url, "address", "extension:NAME, by a provider's name"))
    return name


def chat_completions_url(base_url: str) -> str:
    """Return the base URL of chat completions, which Ollama serves beside its own API."""
    ollama = ollama_http_url(base_url)
    if ollama is None:
        return base_url
    url, mark, query = ollama.partition("?")
    return f"{url}/v1{mark}{query}"


def server_address(base_url: str) -> str:
    """Return a server's canonical address, to which the user's decisions are bound: ASCII, with the host as in DNS, without
    credentials and query. Raises ``ConfigError``, without showing a password, if the URL is invalid.
    """
    if name := pulled_model(base_url):
        return f"{LLAMACPP}{name}"
    if name := extension_provider(base_url):
        return f"{EXTENSION}{name}"
    if path := model_file_path(base_url):
        return f"{LLAMACPP}{quote(path, safe=_IN_PATHS)}"
    ollama = ollama_http_url(base_url)
    parts = urlsplit(ollama or split_base_url(base_url)[0])
    host = ascii_host(parts.hostname or "")
    place = (f"[{host}]" if ":" in host else host) + (f":{parts.port}" if parts.port else "")
    scheme = (
        parts.scheme
        if ollama is None
        else next(ollama_scheme for ollama_scheme, http in OLLAMA.items() if http == parts.scheme)
    )
    return f"{scheme}://{place}{quote(parts.path.rstrip('/'), safe=_IN_PATHS)}"


def server_name(base_url: str) -> str:
    """Return the name of a server in sessions: its host, or the program that serves a model file."""
    if pulled_model(base_url) or model_file_path(base_url):
        return LLAMACPP.rstrip(":")
    if name := extension_provider(base_url):
        return name
    return "openai" if (host := _host(base_url)) == "api.openai.com" else host or "unknown"


def request_url(url: str) -> httpcore2.URL:
    """Return the URL for a request: encoded as ASCII, without credentials."""
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
    """Return a host name as sent in requests. Raises ``ValueError`` for an invalid one."""
    if host.isascii() and "xn--" not in host:
        return host
    name = host.encode("idna")
    name.decode("idna")  # an invalid encoding would fail only when connecting
    return name.decode("ascii")


def url_credentials(url: str) -> tuple[bytes, bytes] | None:
    """Return the user name and password in a URL."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    return unquote(parts.username).encode(), unquote(parts.password or "").encode()


def proxy_url(url: str) -> str | None:
    """Return the environment's (or the system's) proxy for a URL. Raises ``ConfigError`` if it cannot be used, without showing it,
    because it may contain a password.
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
    if not _is_valid(proxy, (*HTTP, *SOCKS)):
        raise ConfigError(f"The proxy in {where} is not a valid URL. Use one like http://host:3128.")
    if urlsplit(proxy).scheme in SOCKS and find_spec("socksio") is None:
        raise ConfigError(
            f"{where} names a SOCKS proxy, for which the package 'socksio' is missing. Install Newel with its extra "
            "`socks`, set the variable to an http:// proxy, or name the server's host in NO_PROXY."
        )
    return proxy


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine, as that of a model file is."""
    if url.strip().lower().startswith(LLAMACPP):
        return True
    host = _host(url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def is_private(url: str) -> bool:
    """Whether the URL's host is this machine, or in its local network."""
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
    return f"'{redact_url(url.strip())}' is not a valid {what}. Use one like {example}.{hint}"


def _is_valid(url: str, schemes: Collection[str]) -> bool:
    """Whether the URL is complete enough to connect to."""
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
