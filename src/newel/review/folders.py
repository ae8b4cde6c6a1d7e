"""Folders, which mostly come and go with their files, and then are not changes of their own.

The ledger records a folder only if no file implies it: it was created or removed empty, its permission bits differ from those
of a new folder, something of another kind has or had its name, or the ledger has it already. Folders that a run created are
removed when the last file in them is undone.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

import msgspec

from newel.agent.errors import WorkspaceError
from newel.concurrency import map_concurrently
from newel.review.store.ledger import Checkpoint, FileVersion
from newel.workspace.glob import is_text
from newel.workspace.port import DirectoryEntry, Workspace
from newel.workspace.snapshots.port import FileChange
from newel.workspace.snapshots.tree import EMPTY, FileSnapshot
from newel.workspace.tracked import TrackedWorkspace
from newel.workspace.walk import below

_INHERITED: Final = stat.S_ISGID
"""A new folder inherits this bit from its parent."""


def is_folder(state: FileSnapshot | None) -> bool:
    return state is not None and stat.S_ISDIR(state.mode)


def _is_usual(state: FileSnapshot, within: FileSnapshot | None, umask: int) -> bool:
    """Whether a folder has the mode of a new one ``within`` another, or within an unknown one."""
    inherited = (within or state).mode & _INHERITED
    return stat.S_IMODE(state.mode) == (0o777 & ~umask) | inherited


async def unchanged_parents(workspace: Workspace, changes: Sequence[FileChange]) -> dict[str, FileChange]:
    """The folders that contain the folders among ``changes`` that came or went, unless they are among the changes themselves: a new folder
    inherits the group bit of the one that it is in.
    """
    changed = {change.path for change in changes}
    over = {
        _parent_of(change.path)
        for change in changes
        if (change.before is None or change.after is None) and is_folder(change.before or change.after)
    }
    paths = sorted(over - changed)
    infos = await workspace.stats([below(workspace, path) for path in paths]) if paths else []
    states = {
        path: FileSnapshot(EMPTY, stat.S_IFDIR | info.mode)
        for path, info in zip(paths, infos, strict=True)
        if info
    }
    return {path: FileChange(path, state, state) for path, state in states.items()}


def without_implied(
    changes: Sequence[FileChange],
    checkpoint: Checkpoint | None,
    *,
    unchanged: Mapping[str, FileChange],
    umask: int,
    is_known: Callable[[str], bool],
) -> list[FileChange]:
    """The changes without those of folders that other changes imply. ``checkpoint`` is the run's so far; ``unchanged`` are
    their ``unchanged_parents``.
    """
    created = _parents_of(change.path for change in changes if change.after is not None)
    files = checkpoint.files if checkpoint else ()
    created_by_run = {before.path for before in files if not before.blob} | set(
        checkpoint.folders if checkpoint else ()
    )
    gone = _parents_of(
        removed.path
        for removed in changes
        if removed.before is not None and removed.path not in created_by_run
    )
    was_there = _parents_of(before.path for before in files if before.blob)
    was_not = set(checkpoint.folders) if checkpoint else set[str]()
    by_path = {**unchanged, **{change.path: change for change in changes}}
    usual = FileSnapshot(EMPTY, stat.S_IFDIR | (0o777 & ~umask))
    result: list[FileChange] = []
    for change in changes:
        if is_known(change.path):
            result.append(change)
            continue
        # From now on before the run, which may have created or removed the folder implicitly.
        before = change.before
        if before is None and change.path in was_there:
            before = usual
        elif is_folder(before) and change.path in was_not:
            before = None
        adjusted = FileChange(change.path, before, change.after)
        if not _is_implied(adjusted, by_path.get(_parent_of(change.path)), created, gone, umask):
            result.append(adjusted)
    return result


def _is_implied(
    change: FileChange, parent: FileChange | None, made: Collection[str], gone: Collection[str], umask: int
) -> bool:
    """``parent`` is the change of the folder that it is in, or that folder unchanged, if it is known."""
    before, after = change.before, change.after
    if before == after:
        return True
    if before is None and after is not None and is_folder(after):
        return change.path in made and _is_usual(after, parent.after if parent else None, umask)
    if after is None and before is not None and is_folder(before):
        return change.path in gone and _is_usual(before, parent.before if parent else None, umask)
    return False


async def left_folders(
    workspace: TrackedWorkspace, changes: Sequence[FileChange], checkpoint: Checkpoint | None
) -> list[FileChange]:
    """The folders that a run created for files that it removed again, and left, the innermost first."""
    created = set(checkpoint.folders) if checkpoint else set[str]()
    candidates = [
        folder
        for change in changes
        if created and change.after is None
        for folder in parents(change.path)
        if folder in created
    ]
    changed = {change.path for change in changes}
    found: list[FileChange] = []
    for folder in dict.fromkeys(candidates):
        node = None if folder in changed else await workspace.lstat(below(workspace, folder))
        if node is not None and stat.S_ISDIR(node.mode):
            found.append(FileChange(folder, None, FileSnapshot(EMPTY, node.mode)))
    return found


def parents(path: str) -> list[str]:
    """The folders above a path, the innermost first, without the root."""
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def _parent_of(path: str) -> str:
    """The folder that a path is in; empty for the root."""
    return path.rpartition("/")[0]


def _parents_of(paths: Iterable[str]) -> set[str]:
    return {folder for path in paths for folder in parents(path)}


async def missing(workspace: Workspace, paths: Iterable[str]) -> dict[str, list[str]]:
    """The missing parent folders of each file, relative to the root, the innermost first."""
    over = {path: parents(path) for path in paths}
    folders = list(dict.fromkeys(folder for some in over.values() for folder in some))
    infos = await workspace.stats([below(workspace, folder) for folder in folders]) if folders else []
    existing = {folder for folder, info in zip(folders, infos, strict=True) if info is not None}
    return {path: [folder for folder in some if folder not in existing] for path, some in over.items()}


def grown(checkpoint: Checkpoint, files: Iterable[FileVersion], folders: Iterable[str]) -> Checkpoint:
    """A checkpoint with more files, and folders that did not exist. A run may have removed one of them before and created it
    again. Without folders whose names are not text: nothing in them is recorded.
    """
    files = (*checkpoint.files, *files)
    existed = {before.path for before in files if stat.S_ISDIR(before.mode)}
    existed |= _parents_of(before.path for before in files if before.blob)
    named = (name for name in (*checkpoint.folders, *folders) if is_text(name))
    created = dict.fromkeys(name for name in named if name not in existed)
    return msgspec.structs.replace(checkpoint, files=files, folders=tuple(created))


async def not_emptied(
    workspace: Workspace,
    folders: Sequence[str],
    gone: AbstractSet[str],
    created: AbstractSet[str],
    *,
    at_once: int,
) -> dict[str, str]:
    """Those of some folders to be removed or replaced that would not be empty, each with what stays in it. ``gone`` is what is removed
    before, and ``created`` are folders that go with the last file in them. ``at_once`` of them are listed at the same time.
    """
    kept: dict[str, str] = {}

    async def list_folder(folder: str) -> list[DirectoryEntry]:
        with suppress(WorkspaceError):  # it is gone, or cannot be read: the save that removes it says so
            return await workspace.list(below(workspace, folder), nofollow=True)
        return []

    listed = dict(zip(folders, await map_concurrently(list_folder, folders, at_once), strict=True))

    async def remaining(folder: str) -> str:
        """The first name that stays in a folder; empty if there is none."""
        for entry in listed[folder] if folder in listed else await list_folder(folder):
            path = f"{folder}/{entry.name}"
            is_created = path in created and entry.kind == "directory" and not entry.is_link
            if path in kept or (path not in gone and not is_created):
                return path
            if is_created and (inner := await remaining(path)):
                return inner
        return ""

    for folder in sorted(folders, key=lambda folder: -folder.count("/")):
        if stays := await remaining(folder):
            kept[folder] = stays
    return kept


async def remove_empty(
    workspace: Workspace,
    removed: Sequence[str],
    checkpoints: Iterable[Checkpoint],
    excluded: Collection[str] = (),
    opened: AbstractSet[str] = frozenset(),
) -> None:
    """Remove empty parent folders of removed files: those created by a run before which the file did not exist either, and those
    in a folder of ``opened``, which is to be replaced; but none of ``excluded``.
    """
    emptied: dict[str, set[str]] = {path: set() for path in removed}
    for checkpoint in checkpoints:
        for before in checkpoint.files if checkpoint.folders else ():
            if before.path in emptied and not before.blob:
                emptied[before.path].update(checkpoint.folders)
    candidates: set[str] = set()
    for path, folders in emptied.items():
        folders |= {folder for folder in parents(path) if not opened.isdisjoint(parents(folder))}
        candidates.update(takewhile(folders.difference(excluded).__contains__, parents(path)))
    for folder in sorted(
        candidates, key=lambda folder: -folder.count("/")
    ):  # once each: a host may be far away
        await workspace.remove_folder(below(workspace, folder))
