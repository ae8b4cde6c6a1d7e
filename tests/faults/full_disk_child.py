"""Runs a review on a full disk, and again when it has room: ``full_disk_child FOLDER project|review|jobs``.

Needs a mount namespace of its own: the named folder is on a disk of 1 MiB. Prints the outcome of each request.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio

from newel.agent.errors import NewelError
from tests.faults.review_child import NEW, OLD, LeftAlone, apply, files, prepare, redo, roll_back


def fill(disk: Path) -> Path:
    """Write until not one more byte fits."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def mount(disk: Path) -> None:
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=True)


async def said(request: Callable[[], Awaitable[None]]) -> str:
    words = "done"
    try:
        await request()
    except* NewelError as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            (error,) = error.exceptions
        words = "left alone" if isinstance(error, LeftAlone) else str(error)
    return words


def state(folder: Path) -> str:
    there = files(folder / "project")
    whole = all(there[name] in {OLD[name], NEW[name]} for name in OLD)
    return "old" if there == OLD else "new" if there == NEW else "some of each" if whole else "torn"


async def main(folder: Path, full: str) -> None:
    await prepare(folder, applied=False)
    for request in (apply, roll_back, redo):
        filler = fill(folder / full)
        refused = await said(partial(request, folder))
        sys.stdout.write(f"{request.__name__} without room: {state(folder)}: {refused}\n")
        filler.unlink()
        done = await said(partial(request, folder))
        sys.stdout.write(f"{request.__name__} with room: {state(folder)}: {done}\n")


if __name__ == "__main__":
    mount(Path(sys.argv[1], sys.argv[2]))
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
