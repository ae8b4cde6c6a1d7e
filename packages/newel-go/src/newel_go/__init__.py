"""``go`` in a checkout of Newel: the workbench.

In a shell whose PATH begins with the checkout's environment it stands before the Go toolchain. The workbench takes options
only, so that a call with a subcommand (``go test ./...``) is meant for the toolchain, and is handed on to it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def main() -> int:
    words = sys.argv[1:]
    if toolchain := _toolchain(words):
        os.execv(toolchain, ["go", *words])  # noqa: S606 — no shell is wanted
    from newel.cli.main import go

    return go()


def _toolchain(words: Sequence[str]) -> str | None:
    """The Go toolchain, where the words are for it and there is one."""
    if not words or words[0].startswith("-"):
        return None
    own = Path(sys.prefix, "bin").resolve()
    folders = [folder for folder in os.get_exec_path() if Path(folder).resolve() != own]
    return shutil.which("go", path=os.pathsep.join(folders))
