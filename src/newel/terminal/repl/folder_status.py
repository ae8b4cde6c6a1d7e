"""What the status line says of the conversation's folder: whether its files differ from the last commit, and how many hunks wait for a
decision.

Both are looked at in the background, and only while somebody looks at the line: it asks for another look when it is drawn, which a
conversation without keys and work never is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from newel.agent.errors import NewelError
from newel.review.tracking.recording_workspace import RecordingWorkspace, ledger_folder
from newel.workspace.port import SCHEME, Workspace

if TYPE_CHECKING:
    from newel.review.pending_hunks import PendingHunks

LOOK_S: Final = 3.0
"""Seconds from one look to the next."""

REST: Final = 20
"""A look that takes long is followed by this many times as much rest."""


class FolderStatus:
    """The state of a workspace's folder, for the conversation whose ledgers are in ``home``. Of a host's folder nothing is said of
    commits.
    """

    def __init__(self, workspace: Workspace, home: Path) -> None:
        self.has_changes = False
        self.waiting = 0
        self._workspace = workspace
        self._ledger = ledger_folder(home, workspace.name)
        self._pending: PendingHunks | None = None
        self._wanted = anyio.Event()
        self._due = float("-inf")

    def look(self, *, now: bool = True) -> None:
        """Ask for a look: ``now``, or if the last one is some time ago."""
        if now or anyio.current_time() >= self._due:
            self._wanted.set()

    async def follow(self, refresh: Callable[[], None]) -> None:
        """Look when it is asked for, until cancelled; ``refresh`` is called when something is different."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            before, began = (self.has_changes, self.waiting), anyio.current_time()
            self.has_changes = await self._differs()
            self.waiting = await self._count()
            now = anyio.current_time()
            self._due = now + max(LOOK_S, REST * (now - began))
            if before != (self.has_changes, self.waiting):
                refresh()

    async def _differs(self) -> bool:
        from newel.workspace.git_changes import has_changes

        folder = self._workspace.name
        return not folder.startswith(SCHEME) and bool(await has_changes(folder))

    async def _count(self) -> int:
        if not isinstance(self._workspace, RecordingWorkspace) or not self._ledger.is_dir():
            return 0
        # In a thread, where it holds up no key: opening a ledger needs many modules.
        await anyio.to_thread.run_sync(importlib.import_module, "newel.review.tracking.change_recorder")
        from newel.review.pending_hunks import PendingHunks

        try:
            ledger = (await self._workspace.recorder()).project.ledger
            if self._pending is None or self._pending.ledger is not ledger:
                self._pending = PendingHunks(ledger)
            return await anyio.to_thread.run_sync(self._pending.count)
        except NewelError:  # said where it is used
            return 0
