"""Which servers the commands in a sandbox may reach, by name.

    example.org            this name, on the ports of the web
    *.example.org          all names below it, and not itself
    example.org:8443       another port
    [2001:db8::7]          an address of IPv6, with a port as above
    *                      every name

A name that leads to this machine or to its cloud's metadata service is never reached, and one that leads into a private network
only if a rule names it: see ``is_reachable``.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from typing import Final

import msgspec

from newel.agent.errors import ConfigError

WEB_PORTS: Final = frozenset({80, 443})

_LABEL: Final = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME: Final = re.compile(rf"(?:\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*)")
MAX_NAME: Final = 253

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Domain(msgspec.Struct, frozen=True):
    """A pattern; ``port`` is None for the ports of the web."""

    name: str
    port: int | None = None

    def matches(self, host: str, port: int) -> bool:
        is_port = port in WEB_PORTS if self.port is None else port == self.port
        if self.name == "*":
            return is_port
        if self.name.startswith("*."):
            return is_port and host.endswith(self.name[1:])
        return is_port and host == self.name

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


def parse_domain(text: str) -> Domain:
    """Parse a pattern. Raises ``ConfigError``."""
    name, colon, port = _split(text.strip().lower())
    is_port = not colon or (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536)
    is_name = len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None
    if not is_port or not (is_name or ":" in name):
        raise ConfigError(
            f"{text[:80]!r} is not a domain. Write example.org, *.example.org, or example.org:8443 for another port than those of the web."
        )
    return Domain(name, int(port) if colon else None)


def _split(text: str) -> tuple[str, str, str]:
    """The name or address, the colon before a port, and the port."""
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        _, colon, port = rest.partition(":")
        with contextlib.suppress(ValueError):
            if bracket and not rest.partition(":")[0]:
                return str(ipaddress.IPv6Address(address)), colon, port
    name, colon, port = text.partition(":")
    return name.removesuffix("."), colon, port


def parse_host(text: str) -> str:
    """A host name or address as it is compared: in lower case, without the final dot. Raises ``ValueError``."""
    name = text.lower().removesuffix(".")
    if name.startswith("[") and name.endswith("]"):
        return str(ipaddress.IPv6Address(name[1:-1]))
    if len(name) > MAX_NAME or "*" in name or _NAME.fullmatch(name) is None:
        raise ValueError(f"{text[:80]!r} is not a host name")
    return name


_INTRANET: Final = frozenset(
    {"corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "private"}
)
"""Names below these are not on the internet: they are reserved, or will not be assigned."""


def is_intranet_name(host: str) -> bool:
    """Whether a host is an address, or a name that the internet does not have: nobody far away can decide where it leads to."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    parts = host.rsplit(".", 2)
    if not parts[-1][:1].isalpha():
        return False  # an address in another notation, which nobody would recognize
    return len(parts) == 1 or parts[-1] in _INTRANET or ".".join(parts[-2:]) in _INTRANET


METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",  # of pods
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
        ),
    )
)
"""Where clouds hand out the credentials of their machines."""

_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


def is_reachable(address: IPAddress, *, is_named: bool) -> bool:
    """Whether an address may be connected to: on the internet, or in a private network if a rule names the server. Never this
    machine by any of its addresses, its links, or a metadata service.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_reachable(address.ipv4_mapped, is_named=is_named)
        if address.sixtofour or address.teredo or any(address in network for network in _NAT64):
            return False  # an IPv4 address in disguise
        if address.scope_id:
            return False  # not equal to the same address without a zone, to which it leads
    is_local = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
    if is_local or address.is_reserved or address in METADATA:
        return False
    # Once for private networks: Python calls it global.
    is_site = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    is_internet = address.is_global and not is_site
    return (is_internet or (is_named and (address.is_private or is_site))) and not _is_own(address)


def is_this_machine(address: IPAddress) -> bool:
    """Whether an address is of this machine, by itself or by one of its interfaces."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback or _is_own(mapped or address)


def _is_own(address: IPAddress) -> bool:
    """Whether an interface of this machine has an address: the system would send from it to itself. Nothing is sent."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((str(address), 9))
            return ipaddress.ip_address(asked.getsockname()[0]) == address
    except OSError:  # no way leads there
        return False
