"""The names of project files in the ledger."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath

from newel.review.model.file_review import ReviewError
from newel.workspace.port import Workspace


class OutsideProject(ReviewError):
    """The path is not a project file that a review may change."""


async def checked_path(workspace: Workspace, path: str) -> str:
    """The unique name of a project file in the ledger: relative to the root, in POSIX form, without ``.``, and with
    links within the project followed. It need not exist.

    Raises ``OutsideProject`` for an absolute path, ``..``, NUL, names that are not UTF-8, ``.git`` at any depth,
    the root itself, and links that lead out of the project.
    """
    root = workspace.root
    check_name(root, path)
    whole = await workspace.resolve(f"{root}/{path}")
    inside = posixpath.relpath(whole, root)
    if reason := _problem(inside):
        raise _outside(root, path, f"a symbolic link leads to {whole}, and {reason}")
    return inside


def check_name(root: str, path: str) -> None:
    """Raises ``OutsideProject`` for a path that is invalid by its text alone."""
    if reason := _problem(path):
        raise _outside(root, path, reason)


def _outside(root: str, path: str, reason: str) -> OutsideProject:
    return OutsideProject(
        f"{path!r} cannot be reviewed: {reason}. Name a file in {root} by its relative path."
    )


def _problem(path: str) -> str:
    """Why a path is invalid by its text alone."""
    parts = PurePosixPath(path).parts
    if not parts:
        return "it names no file"
    if "\0" in path:
        return "it contains a NUL character"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if parts[0].startswith("/"):
        return "it is absolute"
    if ".." in parts:
        return "it leads out of the project"
    # Some file systems ignore case, and trailing dots and spaces.
    if any(part.casefold().rstrip(". ") == ".git" for part in parts):
        return "it is in the .git folder"
    return ""
