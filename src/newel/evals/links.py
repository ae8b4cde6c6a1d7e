"""Links in the folders of tasks and trials: they come from strangers and agents, and nothing is read from where they lead to."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FILES: Final = "files"
"""The folder of a task with initial files. Links may be in it alone."""


def problem_of_link(at: str, target: str) -> str:
    """What is wrong with a link at a path in the folder of a task, by its words alone; empty if nothing is. The copies of the files are at
    other places, so a link may not even lead out and in again.
    """
    folder, _, inside = at.partition("/")
    if folder != FILES or not inside:
        return f"is a link, and only those in {FILES}/ may be"
    depth = inside.count("/")
    for part in target.split("/") if not target.startswith("/") else [".."] * (depth + 1):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return f"is a link to a place outside of {FILES}/"
    return ""


def problems_of_links(folder: Path) -> Iterator[tuple[Path, str]]:
    """The links in the folder of a task that may not be there, and what is wrong with each. Other links may be on the way of one."""
    files = Path(os.path.realpath(folder), FILES)
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            continue
        problem = problem_of_link(path.relative_to(folder).as_posix(), os.fspath(path.readlink()))
        if not problem and _is_circle(path):
            problem = "is a link that leads to itself"
        if not problem and not Path(os.path.realpath(path)).is_relative_to(files):
            problem = f"is a link to a place outside of {FILES}/"
        if problem:
            yield path, problem


def _is_circle(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def is_reached_without_links(path: Path, folder: Path) -> bool:
    """Whether neither a path nor what is between it and the folder is a link."""
    return Path(os.path.realpath(path)) == Path(os.path.realpath(folder)) / path.relative_to(folder)
