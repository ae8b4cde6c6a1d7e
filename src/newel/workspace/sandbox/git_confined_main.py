"""Runs git, while no program but git's own can be started, until the pipe ``alive`` is closed outside, if there is one.

Started by ``git_confinement`` as text. Landlock, a part of the kernel, refuses to execute every file that is not below one of the given
paths. So it does not matter which programs the settings, hooks or attributes of a repository, or of one inside it, name.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct
import sys

CREATE, ADD, RESTRICT = 444, 445, 446
EXECUTE = 1
BELOW_PATH = 1
NO_NEW_PRIVILEGES = 38
CANNOT, REPLACED = 125, 124
"""The exit codes if the kernel cannot do it, and if other files are mounted than those that Newel has judged."""
GRACE_S = 3.0
"""Seconds for git to end when it is asked to."""


def main(alive: int, mounted: str, allowed: list[str], argv: list[str]) -> int:
    if not all(map(is_mounted, mounted.split())):
        return REPLACED
    if not restrict(allowed):
        return CANNOT
    if alive < 0:
        os.execv(argv[0], ["git", *argv[1:]])  # noqa: S606 — git
    os.set_inheritable(alive, False)
    pid = os.fork()
    if pid == 0:
        os.execv(argv[0], ["git", *argv[1:]])  # noqa: S606 — git
    ended = os.pidfd_open(pid)
    if ended not in select.select([alive, ended], [], [])[0]:
        # nobody waits for it any more, or Newel was killed: it removes its locks, and ends
        os.kill(pid, signal.SIGTERM)
        if not select.select([ended], [], [], GRACE_S)[0]:
            os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else 128 - status


def is_mounted(text: str) -> bool:
    """Whether a path is a file: ``DEVICE:INODE:PATH``, the path in hexadecimal digits."""
    device, inode, path = text.split(":")
    try:
        state = os.lstat(bytes.fromhex(path))
    except OSError:
        return False
    return (state.st_dev, state.st_ino) == (int(device), int(inode))


def restrict(allowed: list[str]) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    handled = ctypes.c_uint64(EXECUTE)
    rules = libc.syscall(CREATE, ctypes.byref(handled), 8, 0)
    if rules < 0:
        return False
    for path in allowed:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", EXECUTE, place), 12)
        if libc.syscall(ADD, rules, BELOW_PATH, rule, 0) != 0:
            return False
        os.close(place)
    done = libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT, rules, 0) == 0
    os.close(rules)
    return done


if __name__ == "__main__":
    count = int(sys.argv[3])
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[4 : 4 + count], sys.argv[4 + count :]))
