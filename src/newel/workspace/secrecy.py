"""Hides this process's secrets from other processes of the same user. Linux only.

The initial variables and arguments of a process stay readable in ``/proc/PID/environ`` and ``/proc/PID/cmdline``, whatever it
does with its own variables. So the secret values there are overwritten; Python has its own copies. Then the process is made
not dumpable, which closes ``environ`` and ``mem`` to all but root and prevents core files. Child processes are unaffected.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Final

from newel.text.sanitize import redact_url
from newel.workspace.process.environment import is_withheld

_PR_SET_DUMPABLE: Final = 4
_ARGUMENTS, _ENVIRONMENT = slice(44, 46), slice(46, 48)
"""The addresses at which they begin and end, among the numbers of ``/proc/PID/stat`` (fields 48 to 51)."""


def hide_secrets() -> None:
    """Overwrite the secrets that this process was started with, and protect its memory.

    Best effort, and nothing outside Linux. ``os.environ`` and ``sys.argv`` are unchanged.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, ValueError):
        _overwrite()
    _close_memory()


def _overwrite() -> None:
    with open("/proc/self/stat", "rb", buffering=0) as stat:  # noqa: PTH123 — before pathlib is needed
        fields = [int(field) for field in stat.read().rpartition(b")")[2].split()[1:]]
    memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        for place, find in ((_ARGUMENTS, _in_arguments), (_ENVIRONMENT, _in_environment)):
            start, end = fields[place]
            if not 0 < start < end:
                continue
            block = os.pread(memory, end - start, start)
            for first, last, filler in find(block):
                os.pwrite(memory, filler * (last - first), start + first)
    finally:
        os.close(memory)


def _in_environment(block: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The values of secret variables; for the C library they become empty."""
    for start, entry in _entries(block):
        name, equals, value = entry.partition(b"=")
        if value and is_withheld(os.fsdecode(name)):
            first = start + len(name) + len(equals)
            yield first, first + len(value), b"\0"


def _in_arguments(block: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The values of ``--api-key``, and URLs with passwords."""
    is_key = False
    for start, argument in _entries(block):
        option, equals, value = argument.partition(b"=")
        names_key = option == b"--api-key"
        if is_key and argument:
            yield start, start + len(argument), b"*"
        elif (names_key and value) or (equals and _has_password(value)):
            yield start + len(option) + 1, start + len(argument), b"*"
        elif _has_password(argument):
            yield start, start + len(argument), b"*"
        is_key = names_key and not equals


def _entries(block: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    for entry in block.split(b"\0"):
        yield start, entry
        start += len(entry) + 1


def _has_password(argument: bytes) -> bool:
    scheme, colon, rest = argument.partition(b"://")
    if not (colon and scheme.isalnum() and b"@" in rest) or b" " in argument:
        return False
    text = os.fsdecode(argument)
    return redact_url(text) != text


def _close_memory() -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
