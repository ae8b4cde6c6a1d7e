"""Keeps Newel's own files apart from those of projects.

uv installs a package as hard links to its cache: the same file is in Newel's environment, in the ``.venv`` of a project with that package,
and in the cache. A command that writes into the project's file in place would change Newel's code, which runs outside of any sandbox.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from newel.workspace.sandbox.confinement import SandboxError

PACKAGES: Final = {"site-packages", "dist-packages"}

PROBES: Final = ("__init__.py", "METADATA")
"""Files that nearly every package has: one that is no link stands for its folder."""


@cache  # nothing links them anew while Newel runs, but an update, after which it is started again
def separate_own_files() -> None:
    """Make own files of those that are hard links, once after an installation. Raises ``SandboxError`` if that fails."""
    separate([folder for folder in sys.path if os.path.basename(folder) in PACKAGES])  # noqa: PTH119 — a text


def separate(folders: Sequence[str]) -> None:
    """``separate_own_files`` for these folders with packages."""
    for folder in folders:
        shared: list[str] = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            shared = [entry.path for entry in entries if _is_probably_shared(entry)]
        for path in shared:
            for file in _files(path):
                try:
                    if _is_shared(file):
                        _replace_by_copy(file)
                except OSError as error:
                    if not os.access(file, os.W_OK):
                        continue  # in a store that nothing is written to, such as that of Nix
                    raise SandboxError(
                        f"{file} is a hard link to a file that commands may be able to change, and cannot be replaced by a copy: "
                        f"{error.strerror}. Install Newel again with UV_LINK_MODE=copy in the environment."
                    ) from error


def _is_probably_shared(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir(follow_symlinks=False):
        return _is_shared(entry.path)
    probes = (os.path.join(entry.path, name) for name in PROBES)  # noqa: PTH118 — a text
    probe = next(filter(os.path.lexists, probes), None)
    return any(map(_is_shared, _files(entry.path))) if probe is None else _is_shared(probe)


def _files(path: str) -> Iterable[str]:
    """All files at or below a path, those that are probes at the end: they show that a folder is done."""
    if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114 — a text
        return [path]
    return sorted(_walk(path), key=lambda file: os.path.dirname(file) == path and file.endswith(PROBES))  # noqa: PTH120 — as above


def _walk(path: str) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)  # noqa: PTH118 — as above


def _is_shared(path: str) -> bool:
    """Whether a file has other names, and commands can write to it: an owner can make it writable first."""
    state = os.lstat(path)
    return state.st_nlink > 1 and (state.st_uid == os.geteuid() or os.access(path, os.W_OK))


def _replace_by_copy(path: str) -> None:
    descriptor, copy = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".newel-")  # noqa: PTH120 — as above
    os.close(descriptor)
    try:
        # with its time, by which Python knows that its compiled module is up to date
        shutil.copy2(path, copy)
        os.replace(copy, path)  # noqa: PTH105 — as above
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(copy)  # noqa: PTH108 — as above
        raise
