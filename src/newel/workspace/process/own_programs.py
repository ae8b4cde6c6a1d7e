"""Programs that Newel itself starts, outside of any sandbox, such as git.

The ``PATH`` of a user who works in a project often leads into it (``.venv/bin``, ``node_modules/.bin``), and commands in a sandbox may
write there. What they leave under the name of git would run without a sandbox, and without a question.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from newel.workspace.process.environment import child_env

SYSTEM: Final = "/usr/bin:/usr/local/bin:/bin"
"""Where programs are that no user's command can have written."""


SAFE_PYTHON: Final = {"PYTHONSAFEPATH": "1"}
"""``python -c`` and ``python -m`` would import ``json`` from a file of that name in the working folder, which is the project's."""


def find_git(folder: str) -> str | None:
    """The git that looks at a folder: the system's, else one of the user's own."""
    return shutil.which("git", path=SYSTEM) or shutil.which("git", path=own_path(folder))


def own_path(folder: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """``PATH`` without what a command may have written: what is in the project (that of ``folder``, and of the working folder), in
    an active environment of Python, and in packages of Node.
    """
    path, active = environ.get("PATH", os.defpath), environ.get("VIRTUAL_ENV", "")
    return _own_path(path, active, folder, _working_folder())


@lru_cache  # commands cannot change where an entry outside of their folders leads
def _own_path(path: str, active: str, *folders: str | None) -> str:
    places = list(_writable(active, folders))
    kept = os.pathsep.join(
        entry
        for entry in path.split(os.pathsep)
        if os.path.isabs(entry)  # noqa: PTH117 — a text
        and not entry.rstrip("/").endswith("/node_modules/.bin")
        and not any(_is_in(os.path.realpath(entry), place) for place in places)
    )
    return kept or SYSTEM  # an empty one would be the working folder


def own_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a program of the user's in the terminal: without keys, and with ``own_path`` and ``SAFE_PYTHON``."""
    own = {"TERM": environ.get("TERM", "dumb"), "PATH": own_path(environ=environ)}
    return SAFE_PYTHON | child_env(environ, own)


def with_project_last(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment, with the folders of its ``PATH`` that a command may have written behind all others."""
    own = own_path(folder, environ).split(os.pathsep)
    others = (entry for entry in environ.get("PATH", os.defpath).split(os.pathsep) if entry not in own)
    return {**environ, "PATH": os.pathsep.join([*own, *others])}


def _writable(active: str, folders: Iterable[str | None]) -> Iterator[str]:
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 — an unknown home stays as it is
    for start in folders:
        if start is None:
            continue
        place = os.path.realpath(start)
        yield place
        while (place := os.path.dirname(place)) != "/":  # noqa: PTH120 — a project may be any bytes
            # A repository around it is of the project, too; one around the home folder is of the user's settings.
            if os.path.lexists(f"{place}/.git") and not _is_in(home, place):
                yield place
    if active:  # perhaps of another project
        yield os.path.realpath(active)


def _working_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 — a text
    except OSError:
        return None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
