"""The command line of bubblewrap for a policy."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from newel.workspace.sandbox.policy import SandboxPolicy, is_below
from newel.workspace.sandbox.sandbox_disk import LOCAL_DISK, SandboxDisk

PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 — they are empty inside, and gone with the sandbox

KERNEL = (
    *("acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "latency_stats", "mtrr"),
    *("scsi", "slabinfo", "sys", "sysrq-trigger", "timer_stats", "tty", "xen"),
)
"""What root could change in ``/proc`` without any capability: its files belong to root. bubblewrap covers only folders that can be written
into, and in ``sys`` only files can. Its ``core_pattern`` names a program that the kernel starts, outside.
"""

PROXY = "/run/newel-proxy.sock"
"""Where the socket of the network proxy is inside."""


def bubblewrap(
    program: str,
    policy: SandboxPolicy,
    seccomp: int,
    *,
    more: Sequence[str] = (),
    chdir: str | None = None,
    ends_itself: bool = False,
) -> list[str]:
    """The arguments up to the program that runs inside; ``seccomp`` is the descriptor of the filter, ``more`` are mounts after those of the
    policy, ``chdir`` the folder that it starts in. Unless the program ``ends_itself``, it ends with this process.
    """
    ending = [] if ends_itself else ["--die-with-parent"]
    arguments = [*options(policy, seccomp, LOCAL_DISK), *ending, *more]
    folder = chdir or (policy.writable[0] if policy.writable else "/")
    return [program, *arguments, "--chdir", folder, "--"]


def options(policy: SandboxPolicy, seccomp: int, disk: SandboxDisk) -> list[str]:
    """The options that confine, for the machine of ``disk``."""
    return [
        *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
        *("--new-session", "--hostname", "sandbox", "--seccomp", str(seccomp)),
        *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"),
        *(word for name in KERNEL for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")),
        *_mounts(policy, disk),
    ]


def _mounts(policy: SandboxPolicy, disk: SandboxDisk) -> list[str]:
    """In order: what is empty, what is in it again, and what is hidden; a folder comes before what is below it."""
    empty = [path for path in PRIVATE if disk.is_folder(path) and disk.real(path) == path]
    if policy.home.strip("/"):
        empty.append(policy.home)
    binds = [("--ro-bind", path, path) for path in policy.readable]
    binds += [("--bind", path, path) for path in policy.writable]
    # Not through a link, which would show what it leads to; and what does not exist would have to be created.
    protected = [path for path in policy.protected if disk.exists(path) and disk.real(path) == path]
    binds += [("--ro-bind", path, path) for path in protected]
    binds += [("--bind", path, path) for path in _around([*protected, *policy.hidden], policy)]
    arguments = [word for path in empty for word in ("--tmpfs", path)]
    for path, real in policy.links.items():
        arguments += ["--symlink", real, path]
    for bind in sorted(binds, key=lambda bind: bind[2].count("/")):
        arguments += bind
    shown = [path for _, _, path in binds]
    hidden = [path for path in policy.hidden if is_below(path, shown) or not is_below(path, empty)]
    for path in hidden:
        if not is_below(os.path.dirname(path), hidden):  # noqa: PTH120 — a text; else it is gone with the folder
            is_folder = disk.is_folder(path)
            arguments += (
                ["--tmpfs", path, "--remount-ro", path] if is_folder else ["--ro-bind", os.devnull, path]
            )
    if policy.proxy is not None:
        arguments += ["--ro-bind", policy.proxy, PROXY]
    return arguments


def _around(paths: Sequence[str], policy: SandboxPolicy) -> list[str]:
    """The folders around what is protected or hidden, which are mounted on themselves: what is mounted cannot be moved away, and with it
    what is mounted in it. The next sandbox would find a hidden file by another path.
    """
    # Only what is in a folder that can be changed: the copy of a review is itself in a folder that is hidden.
    closed = [path for path in (*paths, *policy.readable) if is_below(path, policy.writable)]
    found: list[str] = []
    for path in paths:
        folder = os.path.dirname(path)  # noqa: PTH120 — a text
        while is_below(folder, policy.writable) and folder not in policy.writable:
            if folder not in found and not is_below(folder, closed):
                found.append(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120 — as above
    return found


# -- what is mounted on itself ---------------------------------------------------------------------------

REPLACED: Final = "The sandbox was not used, because a folder of the project was replaced while it started. Run the command again."

Identity = TypeVar("Identity")

Identities = dict[str, tuple[int, int]]
"""Device and inode by path."""


def mountable(policy: SandboxPolicy) -> list[str]:
    """What may be mounted on itself, if it exists and is no link."""
    closed = [*policy.protected, *policy.hidden]
    return [*policy.writable, *policy.readable, *closed, *_around(closed, policy)]


def mount_sources(policy: SandboxPolicy) -> Identities:
    """What may be mounted on itself, as it is now; without links, which never are."""
    found: Identities = {}
    for path in mountable(policy):
        try:
            state = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISLNK(state.st_mode):
            found[path] = (state.st_dev, state.st_ino)
    return found


def find_mounted(
    arguments: Sequence[str], policy: SandboxPolicy, sources: Mapping[str, Identity]
) -> dict[str, Identity] | None:
    """What these arguments mount on itself where commands can change something, as it was when ``sources`` were found: bubblewrap follows
    a link that has come since, so it has to be compared inside. None if something else was there then.
    """
    pairs = [
        (arguments[at + 1], arguments[at + 2])
        for at, word in enumerate(arguments[:-2])
        if word in {"--bind", "--ro-bind"}
    ]
    paths = [
        path
        for path, place in pairs
        if path == place and is_below(path, policy.writable) and not is_below(path, policy.hidden)
    ]
    return {path: sources[path] for path in paths} if sources.keys() >= set(paths) else None
