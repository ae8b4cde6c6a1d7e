"""Reads the states of a project's files into the ledger."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from typing import Final

import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError
from newel.review.model.file_lines import MODE
from newel.review.model.file_review import ReviewError
from newel.review.save import LARGEST
from newel.review.store.ledger import Ledger
from newel.review.tracking.applied_sink import SHOWN
from newel.review.tracking.effect_log import PendingEffect, recorded_since
from newel.review.tracking.effects import TrackedOperation
from newel.text.format import join_names
from newel.workspace.snapshots.manager import SnapshotManager
from newel.workspace.snapshots.port import FileChange, WorkspaceChanges
from newel.workspace.snapshots.tree import EMPTY, FileSnapshot, is_kept, state_mode
from newel.workspace.snapshots.uncovered import FOREVER
from newel.workspace.tracked import TrackedWorkspace
from newel.workspace.walk import below

OUTLIVES_NS: Final = 60_000_000_000
"""A command ends so soon after Newel is killed, also on a host."""

LEFT_RUNNING: Final = (
    "Changed since its last command, by what it left running or by you, so it is not recorded: {names}."
)


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
        data = await workspace.read_bytes(where, size=LARGEST + 1, nofollow=True)
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


async def state_after_write(
    workspace: TrackedWorkspace, ledger: Ledger, operation: TrackedOperation, path: str
) -> tuple[FileSnapshot | None, Sequence[bytes]]:
    """The state of a file after a write, and contents of it that are not in the ledger yet. Raises ``FileTooLarge``."""
    if operation.write is None or not operation.write[0].is_exact:
        return await read_state(workspace, ledger, path), ()
    result, data = operation.write
    if len(data) > LARGEST:
        raise too_large(path)
    mode = result.mode
    if mode is None:  # the host does not report it
        node = await workspace.lstat(below(workspace, path))
        mode = state_mode(node.mode) if node is not None and node.is_file else MODE
    if operation.before is not None and result.replaced_mode is not None:
        operation.before = FileSnapshot(operation.before.blob, result.replaced_mode)
    return FileSnapshot(result.sha256, mode), (data,)


async def changes_of_killed(
    workspace: TrackedWorkspace,
    ledger: Ledger,
    make_snapshots: Callable[[], SnapshotManager],
    effect: PendingEffect,
) -> WorkspaceChanges:
    """What a killed process did, or others since. If no command was running, the user may have changed any file: then nothing is recorded,
    and what changed while the process lived is named. Without the tree that it saved before a command, only files with records are known:
    any other may be the user's, and an undo must not delete it.
    """
    record = effect.record
    if record.path is not None:
        state = await read_state_or_none(workspace, ledger, record.path)
        return WorkspaceChanges([FileChange(record.path, record.before, state)], list(record.folders), [])
    changes = WorkspaceChanges([], [], [])
    snapshots = make_snapshots()
    try:
        if effect.known.tree.records:
            until_ns = effect.died_ns + (0 if record.is_run else OUTLIVES_NS) if effect.died_ns else FOREVER
            began_ns = record.run_began_ns or record.began_ns
            changes = await snapshots.resume(effect.known.tree, began_ns, until_ns)
        files = await _with_recorded(workspace, ledger, changes, effect.known.at)
        if not record.is_run:
            return msgspec.structs.replace(changes, files=files)
        changed = sorted(change.path for change in files if change.before != change.after)
        named = _left_unrecorded(await snapshots.changed_by(effect.died_ns, changed))
        return msgspec.structs.replace(changes, files=[], folders=[], notices=named)
    finally:
        snapshots.close()


def _left_unrecorded(paths: Sequence[str]) -> list[str]:
    names = join_names(paths, shown=SHOWN)
    return [LEFT_RUNNING.format(names=names)] if paths else []


async def _with_recorded(
    workspace: TrackedWorkspace, ledger: Ledger, changes: WorkspaceChanges, at: float
) -> list[FileChange]:
    """With the files whose changes were recorded since the tree was saved, and that are in none of its records."""
    recorded = await anyio.to_thread.run_sync(recorded_since, ledger, at)
    files = [change for change in changes.files if change.path not in recorded]
    for path, before in sorted(recorded.items()):
        files.append(FileChange(path, before, await read_state_or_none(workspace, ledger, path)))
    return files
