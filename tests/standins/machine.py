"""A machine of one's own: a network in which nothing listens but a model server, on the port that is wanted and as the user
that is wanted, and a command that runs there.

``unshare --net python -m tests.standins.machine PORT UID REQUESTS COMMAND …``: what the server was asked for is written as
JSON into the file REQUESTS when the command has ended, whose exit code is returned.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from mock_llm_server import running

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def main() -> int:
    port, uid, requests, *command = sys.argv[1:]
    loopback_up()
    # The other user may not be able to read the checkout: all that is read and imported is read and imported before.
    scenarios = json.loads((files("mock_llm_server") / "scenarios.json").read_text())
    with running(scenarios):
        pass
    os.seteuid(int(uid))  # a socket belongs to the user who makes it
    with running(scenarios, port=int(port)) as server:
        os.seteuid(0)
        code = subprocess.run(command, check=False).returncode
        Path(requests).write_text(json.dumps(server.requests))
    return code


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(control, SIOCGIFFLAGS, asked))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


if __name__ == "__main__":
    sys.exit(main())
