"""What a policy has to know about the files of the machine that its sandbox is on."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from newel.storage.files import real_path


class SandboxDisk(Protocol):
    """Absolute paths are looked at; several at once where that is cheaper. May raise ``WorkspaceError`` for a machine far away."""

    def match(self, patterns: Iterable[str]) -> list[str]:
        """The paths that exist, if only as links that lead nowhere. In a pattern, ``*`` and ``?`` match within one name."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is something, if only a link that leads nowhere."""
        ...

    def is_folder(self, path: str) -> bool:
        """Links are followed, as for ``is_file``."""
        ...

    def is_file(self, path: str) -> bool: ...

    def real(self, path: str) -> str:
        """The path without links; another one than the path for a link in circles."""
        ...

    def read(self, path: str, size: int) -> bytes:
        """The beginning of a regular file; empty if it cannot be read."""
        ...


def literal(path: str) -> str:
    """A pattern that matches this path only."""
    return re.sub(r"[*?[]", r"[\g<0>]", path) if _is_pattern(path) else path


def _is_pattern(path: str) -> bool:
    return "*" in path or "?" in path or "[" in path


class LocalDisk:
    """The files of this machine."""

    def match(self, patterns: Iterable[str]) -> list[str]:
        return [path for pattern in patterns for path in _matching(pattern)]

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112 — a text, as everywhere here

    def is_file(self, path: str) -> bool:
        return os.path.isfile(path)  # noqa: PTH113 — as above

    def real(self, path: str) -> str:
        real = real_path(path)
        return f"{path}/" if real == path and os.path.islink(path) else real  # noqa: PTH114 — as above

    def read(self, path: str, size: int) -> bytes:
        with contextlib.suppress(OSError):
            if self.is_file(path):  # a pipe would be waited for
                with Path(path).open("rb") as file:
                    return file.read(size)
        return b""


def _matching(pattern: str) -> list[str]:
    """Most of the hundreds of patterns of a policy are paths, for which ``glob`` takes five times as long."""
    if _is_pattern(pattern):
        return glob.glob(pattern, include_hidden=True)  # noqa: PTH207 — absolute
    return [pattern] if os.path.lexists(pattern) else []


LOCAL_DISK = LocalDisk()
