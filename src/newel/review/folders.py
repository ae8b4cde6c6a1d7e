"""Folders that came into being with a run: they go when the last file in them is taken back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from newel.review.store import Before, Checkpoint
from newel.workspace.snapshot_files import open_folder, open_root


def missing(root: str, path: str) -> Iterator[str]:
    """The folders above a file, relative to the root, that are not there; the innermost first. Blocks."""
    for folder in _above(path):
        if os.path.lexists(f"{root}/{folder}"):
            return
        yield folder


def grown(checkpoint: Checkpoint, files: Iterable[Before], folders: Iterable[str]) -> Checkpoint:
    """A checkpoint that knows more files, and folders that were not there."""
    return msgspec.structs.replace(
        checkpoint,
        files=(*checkpoint.files, *files),
        folders=tuple(dict.fromkeys((*checkpoint.folders, *folders))),
    )


def clear(root: str, removed: Sequence[str], checkpoints: Iterable[Checkpoint]) -> None:
    """Remove the folders above files that were removed, where they are empty, and came into being with a run before which
    the file was not there either. Blocks.
    """
    made: dict[str, set[str]] = {path: set() for path in removed}
    for checkpoint in checkpoints:
        for before in checkpoint.files if checkpoint.folders else ():
            if before.path in made and not before.blob:
                made[before.path].update(checkpoint.folders)
    with contextlib.suppress(OSError):
        here = open_root(root)
        try:
            for path, folders in made.items():
                _clear_above(here, path, folders)
        finally:
            os.close(here)


def _clear_above(root: int, path: str, folders: set[str]) -> None:
    for folder in _above(path):
        if folder not in folders:
            return
        parent, _, name = folder.rpartition("/")
        with contextlib.suppress(OSError):  # it holds something, or is none any more
            above = open_folder(root, parent)
            try:
                os.rmdir(name, dir_fd=above)
            finally:
                os.close(above)


def _above(path: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]
