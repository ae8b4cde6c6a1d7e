"""Finds the addresses at which a server may be reached. Who connects to the one that was judged is led nowhere else by its name."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import anyio

from newel.workspace.sandbox.domains import IPAddress, is_reachable, is_this_machine

Resolve = Callable[[str, int], Awaitable[Sequence[IPAddress]]]
"""The addresses of a name. Raises ``OSError``."""


class PageAccess(NamedTuple):
    """What rules say of a server. ``is_allowed``: nobody has to be asked. ``is_named``: the user has written its name, so it may be in a
    private network. ``is_own``: they have written this very address of this machine.
    """

    is_allowed: bool = False
    is_named: bool = False
    is_own: bool = False

    def may_reach(self, address: IPAddress) -> bool:
        return is_reachable(address, is_named=self.is_named) or (self.is_own and is_this_machine(address))


FindAccess = Callable[[str, int], PageAccess]
"""The access to a server by its host and port."""


class NotReachable(Exception):
    """None of a server's addresses may be connected to."""


async def resolve(host: str, port: int) -> Sequence[IPAddress]:
    """The addresses that the system's resolver knows."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(address[0]) for *_, address in found]


async def find_reachable(
    host: str, port: int, may_reach: Callable[[IPAddress], bool], *, resolve: Resolve = resolve
) -> Sequence[IPAddress]:
    """The addresses of a server that may be reached, at least one: connect to these, and not to the name. Raises ``NotReachable`` and
    ``OSError``.
    """
    reachable = [address for address in await resolve(host, port) if may_reach(address)]
    if not reachable:
        raise NotReachable(host)
    return reachable
