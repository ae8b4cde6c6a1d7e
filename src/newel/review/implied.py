"""Folders that come and go with what is in them, and so are no changes of their own.

A folder is in the ledger where nothing else tells of it: it was made or removed empty, it has other permission bits than a
new one would get, something of another kind has or had its name, or the ledger knows it already.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from newel.workspace.snapshots.port import FileChange
from newel.workspace.snapshots.tree import EMPTY, FileSnapshot

if TYPE_CHECKING:
    from newel.review.store.ledger import Checkpoint

_INHERITED: Final = stat.S_ISGID
"""A folder has it from the one that it is made in."""


def is_folder(state: FileSnapshot | None) -> bool:
    return state is not None and stat.S_ISDIR(state.mode)


def _is_usual(state: FileSnapshot, within: FileSnapshot | None, umask: int) -> bool:
    """Whether a folder is as one that is made anew ``within`` another, or one of which nothing is known."""
    inherited = (within or state).mode & _INHERITED
    return stat.S_IMODE(state.mode) == (0o777 & ~umask) | inherited


def told_apart(
    changes: Sequence[FileChange],
    checkpoint: Checkpoint | None,
    *,
    umask: int,
    is_known: Callable[[str], bool],
) -> list[FileChange]:
    """The changes without those of folders that others imply. ``checkpoint`` is that of the run so far."""
    made = _above(change.path for change in changes if change.after is not None)
    files = checkpoint.files if checkpoint else ()
    own = {before.path for before in files if not before.blob} | set(checkpoint.folders if checkpoint else ())
    gone = _above(each.path for each in changes if each.before is not None and each.path not in own)
    was_there = _above(before.path for before in files if before.blob)
    was_not = set(checkpoint.folders) if checkpoint else set[str]()
    parents = {change.path: change for change in changes}
    usual = FileSnapshot(EMPTY, stat.S_IFDIR | (0o777 & ~umask))
    found: list[FileChange] = []
    for change in changes:
        if is_known(change.path):
            found.append(change)
            continue
        before = (
            change.before
        )  # as it was before the run: the run may have made or removed the folder by implication
        if before is None and change.path in was_there:
            before = usual
        elif is_folder(before) and change.path in was_not:
            before = None
        kept = FileChange(change.path, before, change.after)
        if not _is_implied(kept, parents.get(change.path.rpartition("/")[0]), made, gone, umask):
            found.append(kept)
    return found


def _is_implied(
    change: FileChange, parent: FileChange | None, made: Collection[str], gone: Collection[str], umask: int
) -> bool:
    """``parent`` is what became of the folder that it is in, if anything did."""
    before, after = change.before, change.after
    if before == after:
        return True
    if before is None and after is not None and is_folder(after):
        return change.path in made and _is_usual(after, parent.after if parent else None, umask)
    if after is None and before is not None and is_folder(before):
        return change.path in gone and _is_usual(before, parent.before if parent else None, umask)
    return False


def left_behind(changes: Iterable[FileChange], checkpoint: Checkpoint | None) -> list[str]:
    """Folders that a run made for what it has removed again, the innermost first: they may be there by themselves now."""
    made = set(checkpoint.folders) if checkpoint else set[str]()
    gone = [change.path for change in changes if change.after is None]
    return [folder for path in gone for folder in above(path) if folder in made] if made else []


def above(path: str) -> list[str]:
    """The folders above a path, the innermost first, without the root."""
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def _above(paths: Iterable[str]) -> set[str]:
    return {folder for path in paths for folder in above(path)}
