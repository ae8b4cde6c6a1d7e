"""Finds out which users listen on a port of this machine's loopback.

Linux lists the sockets of all users with their owners in ``/proc/net/tcp`` and ``/proc/net/tcp6``. macOS tells only root.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

LISTENING: Final = "0A"
TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def _format_address(address: bytes) -> str:
    """An IP address as the kernel prints it: numbers of 32 bits, each in the byte order of the machine."""
    numbers = [address[at : at + 4] for at in range(0, len(address), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in numbers)


def _loopback_addresses() -> frozenset[str]:
    """The local addresses of sockets that a connection to 127.0.0.1 may reach: its own, and those of every address."""
    four = [b"\x7f\0\0\1", bytes(4)]
    six = [*(bytes(10) + b"\xff\xff" + address for address in four), bytes(16)]
    return frozenset(map(_format_address, [*four, *six]))


class ListeningProcess(NamedTuple):
    """A socket that may accept a connection to 127.0.0.1."""

    port: int
    uid: int
    inode: str


def listeners(ports: Collection[int]) -> list[ListeningProcess]:
    """All such sockets on some ports. None for a port of which the system tells nothing."""
    # The kernel prints the tables in parts; a socket that is closed between two of them can hide another.
    return _scan(ports) or _scan(ports)


def _scan(ports: Collection[int]) -> list[ListeningProcess]:
    reached = _loopback_addresses()
    processes: list[ListeningProcess] = []
    for table in TABLES:
        try:
            lines = table.read_text().split("\n")[1:]
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            fields = line.split()
            if len(fields) < 10 or fields[3] != LISTENING:
                continue
            address, _, port = fields[1].partition(":")
            if address in reached and (number := int(port, 16)) in ports:
                processes.append(ListeningProcess(number, int(fields[7]), fields[9]))
    return processes


def owners(ports: Collection[int]) -> dict[int, set[int]]:
    """The user ids behind ``listeners``, by port."""
    uids: dict[int, set[int]] = {}
    for process in listeners(ports):
        uids.setdefault(process.port, set()).add(process.uid)
    return uids


def program_on(port: int) -> str:
    """The name of the process that listens on a port, empty if this user may not know it."""
    sockets = {f"socket:[{listener.inode}]" for listener in listeners([port])}
    for process in Path("/proc").glob("[0-9]*") if sockets else ():
        with suppress(OSError):  # it ended, or is another user's
            for descriptor in (process / "fd").iterdir():
                if _leads_to(descriptor) in sockets:
                    return (process / "comm").read_text(errors="replace").strip()
    return ""


def _leads_to(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:  # it was closed
        return ""


def name_of_user(uid: int) -> str:
    """The account's name, else its number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_accepted(uid: int, services: Collection[str]) -> bool:
    """Whether a process of that user is accepted as a model server: this user's, root's, or a service account's."""
    return uid in {0, os.getuid()} or name_of_user(uid) in services
