"""Reads the states of a project's files into the ledger."""

from __future__ import annotations

import stat

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.review.model.file_review import ReviewError
from newel.review.save import LARGEST
from newel.review.store.ledger import Ledger
from newel.review.tracking.effect_log import PendingEffect, states_before
from newel.workspace.snapshots.manager import SnapshotManager
from newel.workspace.snapshots.port import FileChange
from newel.workspace.snapshots.tree import EMPTY, FileSnapshot, is_kept, state_mode
from newel.workspace.tracked import TrackedWorkspace
from newel.workspace.walk import below


class FileTooLarge(ReviewError, code="too_large"):
    """A file has more than ``LARGEST`` bytes, and is left out."""


def too_large(path: str) -> FileTooLarge:
    return FileTooLarge(f"Changes of {path} are not recorded: it has more than {LARGEST >> 20} MiB.")


async def read_state(workspace: TrackedWorkspace, ledger: Ledger, path: str) -> FileSnapshot | None:
    """The current state of a file, whose content is stored; None if it does not exist, and for a socket or a device. Raises
    ``FileTooLarge``.
    """
    where = below(workspace, path)
    node = await workspace.lstat(where)
    if node is None or not (is_kept(node.mode) or stat.S_ISDIR(node.mode)):
        return None
    if stat.S_ISDIR(node.mode) or stat.S_ISFIFO(node.mode):
        return FileSnapshot(EMPTY, node.mode)
    data = node.target
    if node.is_file:
        data = await workspace.read_bytes(where, size=LARGEST + 1)
    if len(data) > LARGEST:
        raise too_large(path)
    blob = (await anyio.to_thread.run_sync(ledger.put_blobs, [data]))[0]
    return FileSnapshot(blob, state_mode(node.mode))


async def read_state_or_none(workspace: TrackedWorkspace, ledger: Ledger, path: str) -> FileSnapshot | None:
    """``read_state``; None too for what cannot be read."""
    try:
        return await read_state(workspace, ledger, path)
    except (FileTooLarge, WorkspaceError):
        return None


async def changes_since(
    workspace: TrackedWorkspace, ledger: Ledger, snapshots: SnapshotManager, effect: PendingEffect
) -> list[FileChange]:
    """What has changed since a command of a killed process began."""
    touched = await snapshots.modified_since(effect.record.began_ns)
    before = await anyio.to_thread.run_sync(states_before, ledger, effect.known)
    infos = await workspace.stats([below(workspace, path) for path in before])
    # `stats` follows links, and a link whose target is missing exists all the same.
    gone = [
        path
        for path, info in zip(before, infos, strict=True)
        if info is None and await workspace.lstat(below(workspace, path)) is None
    ]
    # Without a complete list, a file that is not in it may be the user's: an undo must not delete it.
    changed = {*gone, *(path for path in touched if effect.known.whole or path in before)}
    return [
        FileChange(
            path,
            before.get(path),
            None if path in gone else await read_state_or_none(workspace, ledger, path),
        )
        for path in sorted(changed)
    ]
