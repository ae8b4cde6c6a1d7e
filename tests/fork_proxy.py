"""A small program that has a command forked (see ``tests.forked``), waits for its end, and ends the same way.

``python -I -S fork_proxy.py SOCKET COMMAND …`` is for what another program starts: a terminal, ``unshare``. The command
gets the streams, folder, environment and mounts of this process. At a terminal that is this process's own, the command
takes it over, and is the leader of the terminal's session. The file PID beside the socket has the command's pid.
"""

import fcntl
import json
import os
import signal
import socket
import sys
import termios
from pathlib import Path


def main() -> None:
    path, *words = sys.argv[1:]
    told, tell = os.pipe()
    order, ordering = os.pipe()
    owns_terminal = os.isatty(0) and os.getsid(0) == os.getpid()
    if owns_terminal:  # which hangs up, and is free for another session
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        fcntl.ioctl(0, termios.TIOCNOTTY)
    with socket.socket(socket.AF_UNIX) as orders:
        orders.connect(path)
        socket.send_fds(orders, [b"."], [order, tell, 0, 1, 2])
        os.close(tell)
        with os.fdopen(ordering, "w", encoding="utf-8") as writer:
            json.dump(
                {
                    "words": words,
                    "cwd": os.getcwd(),  # noqa: PTH109 — a path would cost more time to import than to use
                    "environ": dict(os.environ),
                    "session": owns_terminal,
                    "mounts": f"/proc/{os.getpid()}/ns/mnt",
                },
                writer,
            )
        with os.fdopen(told, encoding="utf-8") as answers:
            Path(path).with_name(str(os.getpid())).write_text(answers.readline())
            code = os.waitstatus_to_exitcode(int(answers.readline()))
    if code < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no KeyboardInterrupt
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
