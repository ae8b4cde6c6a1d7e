"""Changes one file of a project, of any kind, from one planned state to another."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import anyio.to_thread

from newel.agent.errors import StaleFile
from newel.review.save_plans import PlannedFile, SavePlan
from newel.review.store.ledger import Ledger
from newel.workspace.port import ABSENT, SCHEME, FileNode
from newel.workspace.tracked import TrackedWorkspace

FILES_AT_ONCE: Final = 4
"""Files of this machine that are read or written at once. More gain nothing, as their threads wait for each other."""

HOST_FILES_AT_ONCE: Final = 16
"""Files of a host that are read or written at once: those that wait for it share its answers."""

PathResolver = Callable[[str], Awaitable[str]]
"""The absolute path of a file of the project, by its name. Raises ``OutsideProject``."""


def files_at_once(workspace: TrackedWorkspace) -> int:
    """How many files of a workspace to read or write at once."""
    return HOST_FILES_AT_ONCE if workspace.name.startswith(SCHEME) else FILES_AT_ONCE


class FileWriter:
    """Methods take absolute paths, and raise the errors of the workspace: ``StaleFile`` if a file is not as planned."""

    def __init__(self, ledger: Ledger, workspace: TrackedWorkspace) -> None:
        self._ledger = ledger
        self._workspace = workspace

    async def replace(self, where: str, plan: SavePlan) -> None:
        """Replace what stands at a path as planned: its content, mode or kind."""
        before, after = plan.before, plan.after.opened()
        if before.is_plain and after.is_plain and before.hash == after.hash:
            await self.change_mode(where, before, after)
            return
        if plan.must_unlock:
            before = await self._unlock(where, before)
        if before.is_plain and not after.is_plain:
            await self._workspace.remove(where, expect=before.sha256)
        elif not before.is_plain and before.exists and (after.is_plain or plan.changes_kind):
            await self._workspace.become(where, None, expect=await self._node(before, plan.blob_before))
        if after.is_plain:
            data = await anyio.to_thread.run_sync(self._ledger.blob, plan.blob) if plan.blob else after.data
            # A write drops set-user-id, which has to be restored.
            written = after._replace(mode=after.mode & 0o777)
            mode = None if before.is_plain and before.mode == written.mode else written.mode
            expect = before.sha256 if before.is_plain else ABSENT
            await self._workspace.write_bytes(where, data, expect=expect, mode=mode)
            if written != after:
                await self.change_mode(where, written, after)
            return
        is_gone = before.is_plain or plan.changes_kind
        expect = None if is_gone else await self._node(before, plan.blob_before)
        node = await self._node(after, plan.blob)
        if node != expect:
            await self._workspace.become(where, node, expect=expect)

    async def _unlock(self, where: str, locked: PlannedFile) -> PlannedFile:
        """Make a file writable; returns it as it is then. It is already if a hard link to it was: they share their mode."""
        writable = locked._replace(mode=locked.mode | stat.S_IWUSR)
        try:
            await self.change_mode(where, locked, writable)
        except StaleFile:
            node = await self._workspace.lstat(where)
            if node is None or not node.is_file or not node.mode & stat.S_IWUSR:
                raise
            return locked._replace(mode=stat.S_IMODE(node.mode))
        return writable

    async def change_mode(self, where: str, before: PlannedFile, after: PlannedFile) -> None:
        """Change the mode of a file or a folder."""
        kind = 0 if before.is_folder else stat.S_IFREG
        await self._workspace.become(where, FileNode(kind | after.mode), expect=FileNode(kind | before.mode))

    async def open_folders(self, plans: Sequence[SavePlan], resolve: PathResolver) -> list[SavePlan]:
        """Make folders writable that the plans change and that are not; returns the plans from there."""
        shut = [plan for plan in plans if plan.before.is_shut] if len(plans) > 1 else []
        for plan in sorted(shut, key=lambda plan: plan.saving.path.count("/")):
            await self.change_mode(await resolve(plan.saving.path), plan.before, plan.before.opened())
        return [plan._replace(before=plan.before.opened()) if plan in shut else plan for plan in plans]

    async def shut_folders(self, plans: Iterable[SavePlan], resolve: PathResolver) -> None:
        """Remove write permission from folders again, the innermost first."""
        shut = [plan for plan in plans if plan.after.is_shut]
        for plan in sorted(shut, key=lambda plan: -plan.saving.path.count("/")):
            await self.change_mode(await resolve(plan.saving.path), plan.after.opened(), plan.after)

    async def _node(self, file: PlannedFile, blob: str) -> FileNode | None:
        return file.node(await anyio.to_thread.run_sync(self._ledger.blob, blob) if blob else file.data)
