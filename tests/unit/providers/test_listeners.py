"""If these fail, another account on the machine receives the conversations of a user without settings."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from newel.providers.listeners import is_accepted, name_of_user, owners, program_on

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who listens")


@contextmanager
def listening_elsewhere() -> Generator[int]:
    """A port with a listener that connections to 127.0.0.1 do not reach, and with no other one."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with socket.create_server(("127.0.0.2", port)):
            yield port


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0"),  # noqa: S104 — as a server for the whole network does
        (socket.AF_INET6, "::"),
        (socket.AF_INET6, "::ffff:127.0.0.1"),
    ],
)
def test_the_listeners_user_is_known_however_loopback_is_reached(
    family: socket.AddressFamily, address: str
) -> None:
    with socket.socket(family) as server:
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((address, 0))
        server.listen()
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
        assert owners([port]) == {port: {os.getuid()}}
    assert owners([port]) == {}


def test_the_listening_program_is_named() -> None:
    """Otherwise a user who is asked about it has to guess which program uses the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = Path("/proc/self/comm").read_text().strip()
        assert program_on(server.getsockname()[1]) == mine
    with listening_elsewhere() as port:
        assert program_on(port) == ""


def test_a_socket_that_loopback_does_not_reach_is_ignored() -> None:
    with listening_elsewhere() as port:
        assert owners([port]) == {}


def test_only_servers_of_the_user_root_and_known_services_may_be_asked() -> None:
    other = next(each for each in pwd.getpwall() if each.pw_uid not in {0, os.getuid()})
    assert is_accepted(os.getuid(), ())
    assert is_accepted(0, ())
    assert not is_accepted(other.pw_uid, ())
    assert is_accepted(other.pw_uid, {other.pw_name})
    assert not is_accepted(4_000_123, {other.pw_name})
    assert name_of_user(4_000_123) == "4000123"
