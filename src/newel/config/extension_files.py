"""Where extensions are: Python files of the user, and entry points of packages that are installed beside Newel.

Each start looks here, so nothing is imported for it: ``importlib.metadata`` alone would take longer than the search.
"""

from __future__ import annotations

import os
import re
import site
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = "extensions"
"""In Newel's home."""

GROUPS: Final = ("newel.tools", "newel.providers", "newel.hooks")
"""The groups of entry points."""

_NAMES: Final = "entry_points.txt"
_MOST: Final = 1 << 16
"""Bytes of such a file."""
_ENTRY: Final = r"\s*([^=\s#][^=]*?)\s*=\s*([\w.]+)\s*(?::\s*([\w.]+))?\s*(?:\[.*\])?\s*"


class ExtensionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[extensions]``. ``disabled``: none is loaded."""

    disabled: bool = False


class EntryPoint(msgspec.Struct, frozen=True):
    """``name = module:attribute`` in a group of a package's ``metadata`` folder."""

    group: str
    name: str
    module: str
    attribute: str
    metadata: str

    @property
    def where(self) -> str:
        return f"{os.path.basename(self.metadata).rpartition('.')[0]} ({self.group}: {self.name})"  # noqa: PTH119 — a text


def extension_files(home: Path) -> list[Path]:
    """The user's files, by name. Those that begin with ``_`` or ``.`` are none."""
    try:
        with os.scandir(home / FOLDER) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".py"))
    except OSError:
        return []
    return [home / FOLDER / name for name in names if not name.startswith(("_", "."))]


def installed_extensions(folders: Sequence[str] | None = None) -> list[EntryPoint]:
    """The entry points of the packages in ``folders``: by default those into which packages are installed, never the working folder or
    ``PYTHONPATH``, which a project may control.
    """
    found: dict[tuple[str, str], EntryPoint] = {}
    for folder in _site_folders() if folders is None else folders:
        for point in _points_in(folder):
            found.setdefault((point.module, point.attribute), point)  # one in two groups is one
    return sorted(found.values(), key=lambda point: (point.where, point.module))


def _site_folders() -> list[str]:
    folders = site.getsitepackages()
    return [*folders, site.getusersitepackages()] if site.ENABLE_USER_SITE else folders


def _points_in(folder: str) -> Iterator[EntryPoint]:
    try:
        with os.scandir(folder) as entries:
            metadata = [entry.path for entry in entries if entry.name.endswith(".dist-info")]
    except OSError:
        return
    for path in metadata:
        text = _read(f"{path}/{_NAMES}")
        if b"[newel." in text:
            yield from _parse(text.decode(errors="replace"), path)


def _read(path: str) -> bytes:
    """The text of a file, empty if there is none. There may be hundreds, so this is as plain as it can be."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MOST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _parse(text: str, metadata: str) -> Iterator[EntryPoint]:
    group = ""
    for line in text.splitlines():
        if line.startswith("["):
            group = line.strip().strip("[]").strip()
        elif group in GROUPS and (entry := re.fullmatch(_ENTRY, line)):
            yield EntryPoint(group, entry[1], entry[2], entry[3] or "", metadata)
