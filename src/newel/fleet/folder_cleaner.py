"""Removes the folders of jobs that a machine does not need any more."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread

from newel.fleet.disk_space import free_space_wanted, missing_space
from newel.fleet.engine import Retention
from newel.fleet.snapshot_repository import STATE
from newel.storage.folder_removal import remove_folder
from newel.text.format import format_size

KEPT: Final = 20
"""Folders of ended jobs that are kept on a machine, so that a user can look into them."""
KEPT_S: Final = 86_400.0
"""The longest that they are kept, and a folder that no job of the database has."""
_REMOVED: Final = ".removed-"


class _EndedFolder(NamedTuple):
    ended: float
    path: Path


class FolderCleaner:
    """Cleans the folder ``root`` of a machine's jobs. ``report`` gets a line when the disk is nearly full although all is removed that may
    be.
    """

    def __init__(
        self,
        root: Path,
        retention: Retention,
        report: Callable[[str], None],
        *,
        kept: int = KEPT,
        free_wanted: Callable[[int], int] = free_space_wanted,
    ) -> None:
        self._root = root
        self._retention = retention
        self._report = report
        self._kept = kept
        self._free_wanted = free_wanted
        self._is_short = False

    async def clean(self, running: Collection[str] = ()) -> None:
        """Remove what is too old or too much, and more while the disk is nearly full; nothing of jobs that go on, here or elsewhere.
        ``running`` are the jobs of this process. Raises ``EngineError``.
        """
        folders = await anyio.to_thread.run_sync(self._folders)
        places = await self._retention.places(list(folders))
        ended: list[_EndedFolder] = []
        for name, idle in folders.items():
            place = places.get(name)
            if name in running:
                continue
            if place is None:
                # Of a job that was deleted; or of another database, whose workers may use it.
                if idle > KEPT_S:
                    await self._remove(self._root / name)
            elif place.ended is not None:
                ended.append(_EndedFolder(place.ended, self._root / name))
        ended.sort()
        for number, folder in enumerate(ended):
            if number >= self._kept or folder.ended > KEPT_S:
                await self._remove(folder.path)
        left = [each for each in ended[: self._kept] if each.ended <= KEPT_S]
        while (missing := missing_space(self._root, self._free_wanted)) and left:
            await self._remove(left.pop().path)
        if missing and not self._is_short:
            self._report(
                f"The disk of {self._root} is nearly full: {format_size(missing)} more should be free. Only running jobs are left there. "
                "Make room, or drain this worker."
            )
        self._is_short = bool(missing)

    def _folders(self) -> dict[str, float]:
        """The folders of jobs, and for how many seconds nothing happened there. Removes what a process that was killed has left."""
        found: dict[str, float] = {}
        with contextlib.suppress(OSError):
            for entry in [*os.scandir(self._root)]:
                if entry.name.startswith(_REMOVED):
                    remove_folder(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    found[entry.name] = idle_seconds(Path(entry.path))
        return found

    async def _remove(self, folder: Path) -> None:
        await anyio.to_thread.run_sync(_remove_whole, folder)


def remove_leftovers(fleet_home: Path) -> None:
    """Remove what commands that were killed a day ago have left: folders to submit, and fetched changes. Blocks; raises nothing."""
    for pattern in ("jobs/start-*", "changes-*"):
        for folder in fleet_home.glob(pattern):
            if idle_seconds(folder) > KEPT_S:
                _remove_whole(folder)


def idle_seconds(folder: Path) -> float:
    """Since the last snapshot of a job's folder, or since it was made."""
    times: list[float] = []
    for place in (folder, folder / "work", folder / "home", folder / "snapshots.git" / STATE):
        with contextlib.suppress(OSError):
            times.append(place.stat(follow_symlinks=False).st_mtime)
    return time.time() - max(times, default=0.0)


def _remove_whole(folder: Path) -> None:
    """Under another name first: half a folder must not be taken for a whole one."""
    with contextlib.suppress(OSError):
        doomed = folder.with_name(f"{_REMOVED}{folder.name}")
        remove_folder(doomed)
        folder.rename(doomed)
        remove_folder(doomed)
