"""Folders that came into being with a run: they go when the last file in them is taken back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

import msgspec

from newel.review.implied import above
from newel.review.store.ledger import Checkpoint, FileVersion
from newel.workspace.port import Workspace
from newel.workspace.walk import below


async def missing(workspace: Workspace, paths: Iterable[str]) -> dict[str, list[str]]:
    """The folders above each of these files, relative to the root, that are not there; the innermost first."""
    over = {path: above(path) for path in paths}
    folders = list(dict.fromkeys(folder for some in over.values() for folder in some))
    found = await workspace.stats([below(workspace, folder) for folder in folders]) if folders else []
    there = {folder for folder, info in zip(folders, found, strict=True) if info is not None}
    return {path: [folder for folder in some if folder not in there] for path, some in over.items()}


def grown(checkpoint: Checkpoint, files: Iterable[FileVersion], folders: Iterable[str]) -> Checkpoint:
    """A checkpoint that knows more files, and folders that were not there."""
    return msgspec.structs.replace(
        checkpoint,
        files=(*checkpoint.files, *files),
        folders=tuple(dict.fromkeys((*checkpoint.folders, *folders))),
    )


async def clear(
    workspace: Workspace,
    removed: Sequence[str],
    checkpoints: Iterable[Checkpoint],
    kept: Collection[str] = (),
    opened: AbstractSet[str] = frozenset(),
) -> None:
    """Remove the folders above files that were removed, where they are empty, and came into being with a run before which
    the file was not there either, or lie in one that is ``opened``, for it makes way for something else; but none of ``kept``.
    """
    made: dict[str, set[str]] = {path: set() for path in removed}
    for checkpoint in checkpoints:
        for before in checkpoint.files if checkpoint.folders else ():
            if before.path in made and not before.blob:
                made[before.path].update(checkpoint.folders)
    for path, folders in made.items():
        folders |= {folder for folder in above(path) if not opened.isdisjoint(above(folder))}
        for folder in takewhile(folders.difference(kept).__contains__, above(path)):
            await workspace.remove_folder(below(workspace, folder))
