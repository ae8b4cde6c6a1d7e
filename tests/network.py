"""Machines as network namespaces: each sees a network card of its own, whose cable can be pulled.

    this machine's network                the switch, a namespace                 a machine, a namespace
    a server on 127.0.0.1 ──(a relay)──── 10.213.0.1 = bridge ──(veth, the cable)──── eth0 = 10.213.0.N

Nothing of this machine's own network changes, and no machine reaches anything but the switch. Without root, the namespaces are in a user
namespace. All of it is gone when the test's process ends, however that is.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

from tests.requirements import require_program
from tests.tcp_relay import open_relay

SWITCH: Final = "10.213.0.1"
_LISTEN: Final = """
import socket, sys
listener = socket.create_server((sys.argv[1], 0))
socket.send_fds(socket.socket(fileno=int(sys.argv[2])), [b"."], [listener.fileno()])
"""
_AS_USER: Final = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]


class NetworkRefused(Exception):
    """This machine's kernel or container does not allow it."""


class NamespacedMachine:
    """A machine with ``address``. ``enter`` are the words before a command that runs on it, as the process that is started."""

    def __init__(self, network: Network, number: int) -> None:
        self.address = f"10.213.0.{number}"
        self._network = network
        self._port = f"port{number}"
        pid = network.open_namespace(network.enter)
        self.enter = _enter(pid)
        network.ip("link", "add", self._port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        network.ip("link", "set", self._port, "master", "switch")
        self.plug_in()
        for words in (
            ("address", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
        ):
            _run(*self.enter, "ip", *words)

    def unplug(self) -> None:
        """Pull the cable: packets are lost in silence, both ways, and no connection ends."""
        self._network.ip("link", "set", self._port, "down")

    def plug_in(self) -> None:
        self._network.ip("link", "set", self._port, "up")


class Network:
    """The switch. Use ``open_network``."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._machines = 0
        self.enter: list[str] = []
        self.enter = _enter(self.open_namespace([], *_AS_USER))
        self.ip("link", "add", "switch", "type", "bridge")
        self.ip("address", "add", f"{SWITCH}/24", "dev", "switch")
        self.ip("link", "set", "switch", "up")
        self.ip("link", "add", "probe", "type", "veth", "peer", "name", "peer")
        self.ip("link", "del", "probe")

    def ip(self, *words: str) -> None:
        _run(*self.enter, "ip", *words)

    def add_machine(self) -> NamespacedMachine:
        self._machines += 1
        return NamespacedMachine(self, 1 + self._machines)

    def forward(self, port: int) -> int:
        """Have the switch forward a port of its own to ``port`` of 127.0.0.1 here; returns that port."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            script = [sys.executable, "-c", _LISTEN, SWITCH, str(theirs.fileno())]
            subprocess.run([*self.enter, *script], pass_fds=[theirs.fileno()], check=True)
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        listener = socket.socket(fileno=descriptors[0])  # it stays a socket of that namespace
        return self._stack.enter_context(open_relay(port, listener)).port

    def open_namespace(self, enter: list[str], *words: str) -> int:
        """The process that keeps a new namespace until this one ends."""
        command = [*enter, "unshare", *words, "--net", "sh", "-c", "echo ready; exec cat"]
        keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._stack.enter_context(keeper)
        self._stack.callback(keeper.kill)
        assert keeper.stdout is not None
        if not keeper.stdout.readline():
            assert keeper.stderr is not None
            raise NetworkRefused(keeper.stderr.read().strip())
        return keeper.pid


@contextmanager
def open_network() -> Generator[Network]:
    """A switch without machines. Skips the test where namespaces or their cards are not allowed, as in some containers."""
    require_program("ip", "iproute2", more="/usr/sbin:/sbin")
    require_program("nsenter", "util-linux")
    with ExitStack() as stack:
        try:
            network = Network(stack)
        except NetworkRefused as error:
            pytest.skip(f"needs network namespaces with veth and bridge: {error}")
        yield network


def _enter(pid: int) -> list[str]:
    user = ["--user", "--preserve-credentials"] if _AS_USER else []
    return ["nsenter", f"--target={pid}", *user, "--net", "--"]


def _run(*words: str) -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    done = subprocess.run(
        words, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NetworkRefused(f"{' '.join(words)}: {done.stderr.strip()}")
