"""When an editor may be given the path of a file.

An editor opens a path by itself, after Newel has checked it. A process of a command could swap a folder in it for a link in between, and
swap it back before Newel looks again: the editor, which no sandbox confines, would read a key or write outside of the project. So

- a path goes to the editor only while no process runs that an agent's command has started, nor anything else in a sandbox, and no command
  starts until the editor has answered;
- its text is dropped if anything in the path has changed meanwhile;
- where a command has changed something in the path, the editor gets time to notice: it may have loaded what a link showed for a moment.

Nothing else of an agent runs then: tools of the model run in this process; hooks, extensions, and the tool servers outside of the sandbox
are the user's.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError

ANSWER_S: Final = 30.0
"""Seconds for the editor to answer before a command that waits for it gives up."""

SETTLED_NS: Final = 20_000_000
"""The kernel counts the times of changes in steps of up to 10 ms. A change that follows one older than this has another time."""

NOTICED_NS: Final = 1_000_000_000
"""Editors load a changed file again after up to a second, if they watch it."""

MOST_WAITS: Final = 3

UNANSWERED: Final = (
    "The command was not started: the editor has not answered yet whether it has written {path}, and a command that runs meanwhile could lead "
    "it to another file. Answer its question, if it shows one, and run the command again."
)


class EditorGate:
    """Keeps commands and the editor's access to files apart, for all sessions of this process. ``may_run`` says whether processes of ended
    commands may still run.
    """

    def __init__(self, may_run: Callable[[], bool]) -> None:
        self._may_run = may_run
        self._commands = 0
        self._paths: list[str] = []
        self._answered = anyio.Event()
        self._was_busy = False
        self.free_since_ns = 0
        """When it was known last that commands which had run before have ended; 0 if there were none."""

    @asynccontextmanager
    async def command(self) -> AsyncGenerator[None]:
        """For as long as a command runs. Raises ``WorkspaceError`` if the editor does not answer."""
        with anyio.move_on_after(ANSWER_S):
            while self._paths:
                await self._answered.wait()
        if self._paths:
            raise WorkspaceError(UNANSWERED.format(path=self._paths[0]))
        self._commands += 1
        self._was_busy = True
        try:
            yield
        finally:
            self._commands -= 1

    async def hold(self, path: str) -> Callable[[], None] | None:
        """Keep commands from starting, to give a path to the editor; returns what ends that. None, and nothing is kept, if a process of a
        command may run.
        """
        if self._commands:
            return None
        release = self._add(path)  # before the look, so that no command starts during it
        is_free = False
        try:
            is_free = not await anyio.to_thread.run_sync(self._may_run)
        finally:
            if not is_free:
                release()
        if is_free and self._was_busy:
            self.free_since_ns = time.time_ns()
        self._was_busy = not is_free
        return release if is_free else None

    def _add(self, path: str) -> Callable[[], None]:
        self._paths.append(path)
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._paths.remove(path)
                self._answered.set()
                self._answered = anyio.Event()

        return release


class PathState(msgspec.Struct, frozen=True):
    """The folders of a path and its file: device, inode and time of the last change of each. A rename changes the folder that it is in, and
    nobody can set that time back.
    """

    parts: tuple[tuple[int, int, int], ...]

    def rest(self, free_since_ns: int) -> float:
        """Seconds until the next change will be seen by its time, and the editor has noticed those that commands have made."""
        changed = max(changed for _, _, changed in self.parts)
        least = SETTLED_NS if changed > free_since_ns else NOTICED_NS
        return (least - (time.time_ns() - changed)) / 1e9


def path_state(root: str, path: str) -> PathState | None:
    """The state of a path below ``root``, with the root itself; None if a part of it is a link, or is missing. The file may be missing."""
    names = PurePath(path).relative_to(root).parts
    parts: list[tuple[int, int, int]] = []
    place = root
    for number, name in enumerate(("", *names)):
        place = f"{place.rstrip('/')}/{name}" if name else place
        is_file = number == len(names)
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            if is_file:
                break
            return None
        except OSError:
            return None
        if not (stat.S_ISREG if is_file else stat.S_ISDIR)(status.st_mode):
            return None
        parts.append((status.st_dev, status.st_ino, status.st_ctime_ns))
    return PathState(tuple(parts))


async def settled_state(root: str, path: str, free_since_ns: int = 0) -> PathState | None:
    """The state of a path in which the next change will be seen; None if it does not settle, or has a link. ``free_since_ns`` is that of
    the gate.
    """
    for _ in range(MOST_WAITS):
        state = path_state(root, path)
        if state is None or (rest := state.rest(free_since_ns)) < 0:
            return state
        await anyio.sleep(min(rest, NOTICED_NS / 1e9) + 0.001)
    return None
