"""Lets git run, and no other program: what the settings of a repository name, such as a filter, does not start."""

from __future__ import annotations

import functools
import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from newel.workspace.sandbox import git_confined_main


def confined_git(
    python: str,
    git: str,
    words: Sequence[str],
    *,
    alive: int = -1,
    mounted: Mapping[str, tuple[int, int]] = {},
) -> list[str]:
    """The command by which ``python`` runs ``git_confined_main`` for git with these arguments. With the descriptor ``alive``, a pipe, git
    ends when that is closed. It runs only if ``mounted`` paths are these files, by device and inode. The exit codes are
    ``git_confined_main.CANNOT`` if the kernel cannot do it, and ``REPLACED``.
    """
    source = Path(git_confined_main.__file__).read_text(encoding="utf-8")
    allowed = _executables(git)
    files = " ".join(
        f"{device}:{inode}:{os.fsencode(path).hex()}" for path, (device, inode) in mounted.items()
    )
    return [*(python, "-I", "-S", "-c", source, str(alive), files, str(len(allowed))), *allowed, git, *words]


@functools.cache
def _executables(git: str) -> tuple[str, ...]:
    """What has to be executed for git: its programs, the interpreter that loads them, and nothing that takes instructions."""
    real = os.path.realpath(git)
    found = subprocess.run([git, "--exec-path"], stdout=subprocess.PIPE, env={}, check=False).stdout
    places = [real, os.fsdecode(found).strip(), _loader_of(real)]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in places if path and os.path.exists(path)))  # noqa: PTH110 — texts


def _loader_of(program: str) -> str:
    """The interpreter that an ELF file names, "" if none."""
    with Path(program).open("rb") as file:
        head = file.read(4096)
    if head[:6] != b"\x7fELF\x02\x01":
        return ""
    (start,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    for offset in range(start, min(start + size * count, len(head) - size + 1), size):
        kind, _, begin, _, _, length = struct.unpack_from("<IIQQQQ", head, offset)
        if kind == 3:
            return os.fsdecode(head[begin : begin + length].rstrip(b"\0"))
    return ""
