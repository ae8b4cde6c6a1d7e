"""Whether any process may run that a command of an agent of this process has started, or that works in one of its sandboxes.

``process_mark`` finds a command's processes by marks that they can remove. In a sandbox this asks the kernel instead, which knows the
parent of each process: an orphan gets a new one, but stays below the first process of its sandbox.
"""

from __future__ import annotations

import os
import threading
from typing import Final, Protocol
from weakref import WeakSet

from newel.workspace.process.process_tree import find_background

MOST_TRIES: Final = 20
"""Looks at the children of a process while some of them end."""


class CommandPlace(Protocol):
    """A place where commands of agents run, or a tool server whose files they can change: a sandbox."""

    def may_run(self) -> bool:
        """Whether a process may run there. False is certain."""
        ...


# Global on purpose: agents of one process, each with sandboxes of its own, may work in one folder.
_places: Final[WeakSet[CommandPlace]] = WeakSet()
_lock: Final = threading.Lock()


def add_place(place: CommandPlace) -> None:
    """Ask this place, too, as long as it exists."""
    with _lock:
        _places.add(place)


def may_run() -> bool:
    """Whether a process that an ended command has started may still run. False is certain for those in a sandbox; of others, a process that
    has removed its marks is not found. Tool servers outside of a sandbox do not count: they are the user's.
    """
    with _lock:
        places = list(_places)
    return any(place.may_run() for place in places) or bool(find_background("/"))


def has_others(launcher: int, first: int) -> bool:
    """Whether any process runs below ``first`` but ``launcher``, which is below it, and those between them. True if that is unknown.

    Every other process descends from a child of one of them, and moves only upwards when its parent ends. So the question is put from the
    bottom to the top, and each answer is one step of the kernel: nothing can hide from it by forking and ending quickly, as it could from a
    list of all processes. The launcher must have been told to start nothing meanwhile.
    """
    try:
        known, process = 0, launcher
        while True:
            if _has_child_but(process, known):
                return True
            if process == first:
                return False
            known, process = process, _stat(process)[1]
    except (OSError, ValueError, IndexError):  # it has ended, or /proc is hidden or has no such list
        return True


def _has_child_but(process: int, known: int) -> bool:
    """Whether a process has a child that runs, but ``known``."""
    ended: set[int] = set()
    for _ in range(MOST_TRIES):
        # Only of its main thread: these processes start others by no thread, and the kernel gives orphans to the main one.
        children = _read(f"/proc/{process}/task/{process}/children").split()
        others = {int(child) for child in children} - {known} - ended
        if not others:
            return False
        for child in others:
            try:
                state, _, threads = _stat(child)
            except FileNotFoundError:  # it has ended since, and the next look shows its children
                continue
            if state != b"Z" or threads > 1:  # a process whose first thread has ended goes on with the others
                return True
            ended.add(child)  # not reaped yet; it has no children any more, they came here
    return True


def _stat(process: int) -> tuple[bytes, int, int]:
    """The state of a process, its parent and the number of its threads."""
    fields = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return fields[0], int(fields[1]), int(fields[17])


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = iter(lambda: os.read(descriptor, 65_536), b"")
        return b"".join(pieces)
    except ProcessLookupError as error:  # it has ended between the two calls
        raise FileNotFoundError(path) from error
    finally:
        os.close(descriptor)
