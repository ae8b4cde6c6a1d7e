"""Detects whether a local connection comes from an agent's command. Linux only.

Such a command can read the file with the server's token. So before a user's decision is accepted over a connection, its caller
is checked, as ``newel keep`` checks its own parents.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Final

from newel.workspace.process import process_mark

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_NONE: Final = "0"
"""The inode of a closed socket."""


class Callers:
    """The callers of a port. A server that itself runs below an agent refuses nobody."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_ours = process_mark.inherited_rights() is None

    def is_agent(self, host: str, port: int) -> bool:
        """Whether the peer is an agent's command, or a local process that has already gone."""
        if not self._is_ours:
            return False
        # A table that changes while it is read may lack a row.
        sockets = self._sockets(port) or self._sockets(port)
        if sockets is None:
            return False
        if not sockets:
            return _is_loopback(host)  # otherwise another machine
        agents = process_mark.agent_processes()
        return any(_is_held(socket, agents) for socket in sockets)

    def _sockets(self, port: int) -> set[str] | None:
        """The inodes of the sockets connected from ``port`` to ours; None if the system does not report them."""
        mark = f":{port:04X} "
        sockets: set[str] = set()
        tables = 0
        for table in _TABLES:
            try:
                with open(table, encoding="ascii") as file:  # noqa: PTH123 — as in process_mark
                    rows = [line.split() for line in file if mark in line]
            except (OSError, UnicodeDecodeError):
                continue
            tables += 1
            for row in rows:
                if len(row) > 9 and row[9] != _NONE and _port(row[1]) == port and _port(row[2]) == self._port:
                    sockets.add(row[9])
        return sockets if tables else None


def _is_held(socket: str, processes: set[int]) -> bool:
    link = f"socket:[{socket}]"
    for pid in processes:
        try:
            with os.scandir(f"/proc/{pid}/fd") as descriptors:
                if any(_leads_to(descriptor) == link for descriptor in descriptors):
                    return True
        except OSError:  # it ended, or is another user's
            continue
    return False


def _leads_to(descriptor: os.DirEntry[str]) -> str:
    try:
        return os.readlink(descriptor.path)  # noqa: PTH115 — there are many
    except OSError:  # it was closed
        return ""


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
