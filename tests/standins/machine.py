"""A private machine: a network in which only a model server listens, on the wanted port and as the wanted user, and a
command that runs there.

``python -m tests.standins.machine PORT UID REQUESTS COMMAND …`` writes the server's requests as JSON to the file
REQUESTS when the command ends, and returns its exit code. Newel's own commands are forked, as by ``tests.forked``.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from mock_llm_server import running
from tests.forked import COMMANDS

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def main() -> int:
    port, uid, requests, *command = sys.argv[1:]
    leave_network()
    loopback_up()
    waits, go = os.pipe()
    child = os.fork()  # before the server starts threads, which a fork would not have
    if child == 0:
        os.close(go)
        os.read(waits, 1)
        os.close(waits)
        return run(command)
    os.close(waits)
    # The other user may not be able to read the checkout: import and read everything before.
    scenarios = json.loads((files("mock_llm_server") / "scenarios.json").read_text())
    with running(scenarios):
        pass
    os.seteuid(int(uid))  # a socket belongs to the user who creates it
    with running(scenarios, port=int(port)) as server:
        os.seteuid(0)
        os.close(go)
        _, status = os.waitpid(child, 0)
        Path(requests).write_text(json.dumps(server.requests))
    return os.waitstatus_to_exitcode(status)


def run(command: Sequence[str]) -> int:
    """Become the command."""
    name, *words = command
    if name not in COMMANDS:
        os.execvp(name, [name, *words])  # noqa: S606 — as the test says it
    sys.argv = [shutil.which(name) or name, *words]
    return COMMANDS[name].load()()


def leave_network() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network of one's own")


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(control, SIOCGIFFLAGS, asked))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


if __name__ == "__main__":
    sys.exit(main())
