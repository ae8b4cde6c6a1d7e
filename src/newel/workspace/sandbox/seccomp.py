"""The system calls that no process in a sandbox may make: a filter for seccomp, as a program of the kernel's packet filter.

Namespaces and dropped capabilities stop most of them already; this also keeps the parts of the kernel out of reach in which
ways out of namespaces have been found. Debuggers need ``ptrace``, so they do not work inside. In a partial sandbox, which has no
namespaces, it also leaves no sockets but those whose connections can be judged (``partial_main``).
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import Final, NamedTuple

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO, _KILL, _NOTIFY = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000

_X32: Final = 0x40000000
"""Numbers from here on are calls of another kind, for which the table has no names."""


class _PartialCalls(NamedTuple):
    """The numbers of the calls that only a partial sandbox limits, and of ``seccomp``, which installs its filter."""

    connect: int
    socketpair: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    clone: int
    seccomp: int
    prlimit: int
    chmod: tuple[tuple[int, int], ...]
    """Calls that change permissions, each with the argument that has them."""


class _Machine(NamedTuple):
    arch: int
    ioctl: int
    socket: int
    partial: _PartialCalls
    calls: dict[str, int]


_NEW: Final = {
    "pidfd_getfd": 438,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
}
"""Calls that have the same number everywhere."""

MACHINES: Final = {
    "x86_64": _Machine(
        0xC000003E,
        16,
        41,
        _PartialCalls(42, 53, 44, 46, 307, 56, 317, 302, ((90, 1), (91, 1), (268, 2), (452, 2))),
        {
            **_NEW,
            "ptrace": 101,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "mount": 165,
            "umount2": 166,
            "pivot_root": 155,
            "chroot": 161,
            "unshare": 272,
            "setns": 308,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "kexec_load": 246,
            "kexec_file_load": 320,
            "init_module": 175,
            "finit_module": 313,
            "delete_module": 176,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "bpf": 321,
            "perf_event_open": 298,
            "userfaultfd": 323,
            "open_by_handle_at": 304,
            "acct": 163,
            "quotactl": 179,
            "syslog": 103,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        29,
        198,
        _PartialCalls(203, 199, 206, 211, 269, 220, 277, 261, ((52, 1), (53, 2), (452, 2))),
        {
            **_NEW,
            "ptrace": 117,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "mount": 40,
            "umount2": 39,
            "pivot_root": 41,
            "chroot": 51,
            "unshare": 97,
            "setns": 268,
            "swapon": 224,
            "swapoff": 225,
            "reboot": 142,
            "kexec_load": 104,
            "kexec_file_load": 294,
            "init_module": 105,
            "finit_module": 273,
            "delete_module": 106,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "bpf": 280,
            "perf_event_open": 241,
            "userfaultfd": 282,
            "open_by_handle_at": 265,
            "acct": 89,
            "quotactl": 60,
            "syslog": 116,
        },
    ),
}

TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""``TIOCSTI`` and ``TIOCLINUX`` type into the terminal as if the user did."""

SOCKETS: Final = (17, 38, 40)
"""Families of sockets that reach the kernel or a machine's host: ``AF_PACKET``, ``AF_ALG``, ``AF_VSOCK``."""


NEW_NAMESPACES: Final = 0x7E020000
"""Flags of ``clone`` that make namespaces."""

FAST_OPEN: Final = 0x20000000
"""The flag by which ``sendto`` and its like connect."""

SET_USER: Final = 0o4000
"""The permission by which a program runs as its owner. Landlock does not judge permissions."""

CLONE3: Final = 435
"""Its flags are in memory, which a filter cannot read. Programs fall back to ``clone`` where it is missing."""

STREAM, DATAGRAM, SEQUENCE, KIND = 1, 2, 5, 0xF
UNIX, INTERNET, NETLINK, INTERNET_6 = 1, 2, 16, 10
TCP: Final = 6


def seccomp_filter(machine: str | None = None) -> bytes:
    """The filter for a machine, by default this one. Raises ``KeyError`` for one that is not known."""
    return b"".join([*_begin(machine), _code(_RETURN, _ALLOW)])


def partial_filter(machine: str | None = None) -> bytes:
    """That of a partial sandbox: it asks about each ``connect``."""
    calls = MACHINES[machine or platform.machine()].partial
    program = [*_begin(machine), _code(_JUMP_EQUAL, CLONE3, 0, 1), _code(_RETURN, _ERRNO | errno.ENOSYS)]
    program += _by_flag(calls.clone, 0, NEW_NAMESPACES)
    program += _by_flag(calls.sendto, 3, FAST_OPEN)
    program += _by_flag(calls.sendmsg, 2, FAST_OPEN)
    program += _by_flag(calls.sendmmsg, 3, FAST_OPEN)
    for number, argument in calls.chmod:
        program += _by_flag(number, argument, SET_USER)
    kind = [_code(_LOAD, _ARGUMENT + 8), _code(_AND, KIND)]
    program += _block(
        calls.socketpair, [*kind, _code(_JUMP_EQUAL, DATAGRAM, 0, 1), _code(_RETURN, _ERRNO | errno.EACCES)]
    )
    program += _block(MACHINES[machine or platform.machine()].socket, _sockets(kind))
    refused = _code(_RETURN, _ERRNO | errno.EPERM)
    # Limits of another process: one of its processor time ends it.
    program += _block(
        calls.prlimit, [_code(_LOAD, _ARGUMENT), _code(_JUMP_EQUAL, 0, 0, 1), _code(_RETURN, _ALLOW), refused]
    )
    program += _block(calls.connect, [_code(_RETURN, _NOTIFY)])
    return b"".join([*program, _code(_RETURN, _ALLOW)])


def _sockets(kind: list[bytes]) -> list[bytes]:
    """The body for ``socket``: streams of TCP and of files, and the kernel's answers about the network. The rest sends without
    connecting.
    """
    refused, allowed = _code(_RETURN, _ERRNO | errno.EACCES), _code(_RETURN, _ALLOW)
    protocol = _code(_LOAD, _ARGUMENT + 16)
    streams = [
        *kind,
        *(_code(_JUMP_EQUAL, STREAM, 1, 0), refused),
        *(protocol, _code(_JUMP_EQUAL, 0, 1, 0), _code(_JUMP_EQUAL, TCP, 0, 1), allowed, refused),
    ]
    files = [
        *kind,
        *(_code(_JUMP_EQUAL, STREAM, 1, 0), _code(_JUMP_EQUAL, SEQUENCE, 0, 1), allowed, refused),
    ]
    routes = [protocol, _code(_JUMP_EQUAL, 0, 0, 1), allowed, refused]
    return [
        _code(_LOAD, _ARGUMENT),
        *(_code(_JUMP_EQUAL, UNIX, 0, len(files)), *files),
        *(_code(_JUMP_EQUAL, NETLINK, 0, len(routes)), *routes),
        *(_code(_JUMP_EQUAL, INTERNET, 1, 0), _code(_JUMP_EQUAL, INTERNET_6, 0, len(streams)), *streams),
        _code(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
    ]


def _begin(machine: str | None) -> list[bytes]:
    known = MACHINES[machine or platform.machine()]
    refused = _ERRNO | errno.EPERM
    program = [
        _code(_LOAD, _ARCH),
        _code(_JUMP_EQUAL, known.arch, 1, 0),
        _code(_RETURN, _KILL),
        _code(_LOAD, _NUMBER),
        _code(_JUMP_AT_LEAST, _X32, 0, 1),
        _code(_RETURN, refused),
    ]
    for number in known.calls.values():
        program += [_code(_JUMP_EQUAL, number, 0, 1), _code(_RETURN, refused)]
    program += _by_argument(known.ioctl, 1, TERMINAL_INPUT, refused)
    return [*program, *_by_argument(known.socket, 0, SOCKETS, refused)]


def _by_argument(number: int, argument: int, values: tuple[int, ...], refused: int) -> list[bytes]:
    """Refuse a call with some values of an argument; only the lower half is compared, as the kernel does for both calls."""
    checks = [code for value in values for code in (_code(_JUMP_EQUAL, value, 0, 1), _code(_RETURN, refused))]
    return _block(number, [_code(_LOAD, _ARGUMENT + 8 * argument), *checks])


def _by_flag(number: int, argument: int, flags: int) -> list[bytes]:
    """Refuse a call with any of these flags."""
    refused = _code(_RETURN, _ERRNO | errno.EPERM)
    return _block(number, [_code(_LOAD, _ARGUMENT + 8 * argument), _code(_JUMP_SET, flags, 0, 1), refused])


def _block(number: int, body: list[bytes]) -> list[bytes]:
    """Instructions for one call; those after them have its number again."""
    return [_code(_JUMP_EQUAL, number, 0, len(body) + 1), *body, _code(_LOAD, _NUMBER)]


def _code(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
