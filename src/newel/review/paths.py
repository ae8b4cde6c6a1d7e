"""The names that files of a project have in its ledger."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import PurePosixPath

from newel.review.ledger import ReviewError


class OutsideProject(ReviewError):
    """The path names no file of the project that a review may touch."""


def checked_path(root: str, path: str, *, resolve: Callable[[str], str] = os.path.realpath) -> str:
    """The one name that a file of the project has in the ledger: relative to ``root``, in POSIX form, without ``.``, and
    links within the project followed. It need not exist.

    Raises ``OutsideProject`` for an absolute path, ``..``, NUL, what is no UTF-8, ``.git`` at any depth, the root itself,
    and links that lead out of the project.
    """
    problem = _problem(path)
    if not problem:
        whole = resolve(f"{root}/{path}")
        inside = os.path.relpath(whole, root)
        leads = f"it leads to {whole} by a symbolic link"
        problem = f"{leads}, and {reason}" if (reason := _problem(inside)) else ""
        if not problem:
            return inside
    raise OutsideProject(
        f"{path!r} cannot be reviewed: {problem}. Name a file in {root} by its relative path."
    )


def _problem(path: str) -> str:
    """Why a path, by its words alone, is none that can be under review."""
    parts = PurePosixPath(path).parts
    if not parts:
        return "it names no file"
    if "\0" in path:
        return "it holds a NUL character"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is no UTF-8"
    if parts[0].startswith("/"):
        return "it is absolute"
    if ".." in parts:
        return "it leads out of its folder"
    # Some file systems ignore the case of names, and dots and spaces at their end.
    if any(part.casefold().rstrip(". ") == ".git" for part in parts):
        return "it is of git's own folder"
    return ""
