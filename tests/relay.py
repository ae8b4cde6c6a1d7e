"""``relay.py SOCKET WORDS…``: have a command run by the process behind the socket, and end as it does; see
``relayed.py``.

The command gets this process's standard streams, and the variables of MCP's conformance suite.
"""

from __future__ import annotations

import json
import os
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(sys.argv[1])
        told = {name: value for name, value in os.environ.items() if name.startswith("MCP_")}
        order = json.dumps({"words": sys.argv[2:], "environ": told}).encode()
        socket.send_fds(there, [len(order).to_bytes(4, "big")], [0, 1, 2])
        there.sendall(order)
        sys.exit(int(there.recv(4) or b"1"))
