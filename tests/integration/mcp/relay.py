"""``relay.py SOCKET WORDS…``: has a command run where the socket leads.

It gets what the suite tells in the environment; this process's output, and its end, are that command's.
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
        socket.send_fds(there, [len(order).to_bytes(4, "big")], [1, 2])
        there.sendall(order)
        sys.exit(int(there.recv(4) or b"1"))
