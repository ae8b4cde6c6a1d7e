"""Paths that the user has written into the settings, and the links on their way.

A link outside of projects is the user's own. One in a project may be made by a command, or come with the repository: what the user has
opened would be whatever it leads to.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from newel.agent.errors import ConfigError
from newel.workspace.sandbox.policy import is_below
from newel.workspace.sandbox.sandbox_disk import SandboxDisk, literal


def absolute_paths(written: Sequence[str], home: str) -> list[str]:
    """Paths of the table ``[sandbox]``. Raises ``ConfigError``."""
    paths = [home + path[1:] if path == "~" or path.startswith("~/") else path for path in written]
    for path in paths:
        if not path.startswith("/"):
            raise ConfigError(f"[sandbox]: {path[:100]!r} is not an absolute path. Begin it with / or ~/.")
    return paths


def existing_paths(paths: Sequence[str], disk: SandboxDisk) -> list[str]:
    """The real paths of those that exist."""
    return list(dict.fromkeys(map(disk.real, disk.match(map(literal, paths)))))


def opened_paths(paths: Sequence[str], projects: Sequence[str], home: str, disk: SandboxDisk) -> list[str]:
    """The real paths of those that exist and lead through no link in a project (``leads_through_project``)."""
    looked_at = [each for path in paths for place in _places(path) for each in (place, f"{place}/.git")]
    disk.match(map(literal, looked_at))  # in one request, where the disk is far away
    own = [path for path in paths if not leads_through_project(path, projects, home, disk)]
    return existing_paths(own, disk)


def leads_through_project(path: str, projects: Sequence[str], home: str, disk: SandboxDisk) -> bool:
    """Whether a link that a command may have made is on the way to a path: one in ``projects``, which are real paths, or in a repository.
    A repository around the home folder is of the user's settings.
    """
    for place in _places(path):
        at = disk.real(place)
        is_repository = not is_below(home, [at]) and disk.exists(f"{at}/.git")
        if is_repository or is_below(at, projects):
            return disk.real(path) != posixpath.normpath(path).replace(place, at, 1)
    return False


def _places(path: str) -> Iterator[str]:
    """The folders around a path, from the root on, and the path itself."""
    place = ""
    for name in posixpath.normpath(path).split("/")[1:]:
        place = f"{place}/{name}"
        yield place
