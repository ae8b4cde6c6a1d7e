"""What Landlock, a part of the kernel, allows the commands of a policy.

It only allows: a folder with all that is in it. So a hidden place is left out by allowing what is beside it, on the way down from the root,
as it is when the sandbox starts. That needs no rights and no namespaces, so it works in containers.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from newel.workspace.sandbox.bubblewrap import PRIVATE
from newel.workspace.sandbox.policy import SandboxPolicy, is_below

LEAST: Final = 3
"""The oldest version of Landlock that is used, of Linux 6.2: those before let any file be truncated."""

SCOPED: Final = 6
"""The version from which on it keeps signals inside, of Linux 6.12."""

READ: Final = 0x1 | 0x4 | 0x8
"""Execute, read a file, list a folder."""

CHANGE: Final = 0x2 | 0x10 | 0x20 | 0x80 | 0x100 | 0x200 | 0x400 | 0x1000 | 0x2000 | 0x4000
"""Write, remove, make folders, files, sockets, pipes and links, move, truncate; no devices."""

DEVICE: Final = 0x2 | 0x4 | 0x4000 | 0x8000
"""Read, write and control a device."""

_CONTROL_DEVICE: Final = 0x8000
_MAKE_DEVICES: Final = 0x40 | 0x800

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 — semaphores of Python, for one, are files in it

Rule = tuple[str, int]
"""A path, and the rights to it and to what is below it."""


def landlock_version() -> int:
    """The version of Landlock that the kernel offers; 0 without it."""
    version = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return max(int(version), 0)


def handled_rights(version: int) -> int:
    """The rights that no process has without a rule."""
    return READ | CHANGE | _MAKE_DEVICES | (_CONTROL_DEVICE if version >= 5 else 0)


def landlock_rules(policy: SandboxPolicy, temporary: str, version: int) -> list[Rule]:
    """The rules for a policy; ``temporary`` is the folder for new files outside the project."""
    hidden = [*PRIVATE, "/dev", *([policy.home] if policy.home.strip("/") else []), *policy.hidden]
    rules = [(path, READ) for path in _around("/", hidden)]
    for path in policy.readable:
        rules += [(each, READ) for each in _around(path, policy.hidden)]
    rules += [(path, READ | CHANGE) for path in (*policy.writable, temporary)]
    rules += [(path, DEVICE) for path in DEVICES]
    rules.append((SHARED_MEMORY, READ | CHANGE))
    known = handled_rights(version)
    return [(path, rights & known) for path, rights in rules]


def _around(folder: str, hidden: Iterable[str]) -> Iterator[str]:
    """The fewest paths that make up a folder without what is hidden."""
    within = [path for path in hidden if is_below(path, [folder])]
    if not within:
        yield folder
    elif folder not in within:
        with contextlib.suppress(OSError):  # this user cannot list it
            for path in sorted(Path(folder).iterdir()):
                if not path.is_symlink():  # what it leads to has a rule, or has none
                    yield from _around(str(path), within)
