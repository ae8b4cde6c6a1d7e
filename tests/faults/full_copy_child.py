"""Copies a project to a full disk, and again when it has room: ``full_copy_child FOLDER DISK``. Needs a mount namespace
of its own. Prints the outcome.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import anyio

from newel.agent.errors import WorkspaceError
from tests.mirror_disks import Disks, open_mirrors


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mount(disk: Path, size: str, how: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{how}size={size}", "none", str(disk)], check=True)


async def copy(disks: Disks, project: Path, home: Path) -> list[str]:
    mirror = await disks(project)
    told: list[str] = []
    try:
        await mirror.update({})
    except WorkspaceError as error:
        told.append(str(error))
    with anyio.move_on_after(5):
        while shutil.disk_usage(home).used > 100_000:  # noqa: ASYNC110 — no event tells of a disk
            await anyio.sleep(0.01)
        told.append("there is room")
    mount(home, "16m", "remount,")
    await mirror.update({})
    told.append("it is whole" if contents(Path(mirror.root)) == contents(project) else "it is not whole")
    return told


async def main(project: Path, home: Path, disk: str) -> list[str]:
    async with open_mirrors(disk, home) as disks:
        return await copy(disks, project, home)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    project, home = folder / "project", folder / "home"
    for made in (project / "deep", home):
        made.mkdir(parents=True)
    (project / "a").write_bytes(b"a" * 400_000)
    (project / "deep" / "b").write_bytes(b"b" * 4_000_000)
    mount(home, "2m", "")
    sys.stdout.write("\n".join(anyio.run(main, project, home, sys.argv[2])))
