"""Folders below Newel's home: private, and one for each project."""

from __future__ import annotations

import os
import re
from pathlib import Path

PRIVATE_FILE = 0o600
_MAX_NAME = 200


def project_folder(directory: Path, cwd: str) -> Path:
    """The folder for the sessions of a project. Two projects may share one: the metadata's ``cwd`` tells
    their sessions apart.
    """
    name = re.sub(r"[/\\:]", "-", cwd.strip("/\\"))
    raw = os.fsencode(name)
    if len(raw) > _MAX_NAME:  # file systems take 255 bytes
        import hashlib

        name = f"{raw[:_MAX_NAME].decode(errors='ignore')}-{hashlib.sha256(raw).hexdigest()[:12]}"
    return directory / f"--{name}--"


def make_private(folder: Path) -> None:
    """Make the folder, and those above it that are missing, for this user only."""
    for missing in reversed([level for level in (folder, *folder.parents) if not level.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
