"""The project's files as a person looks through them: one folder at a time, or by their names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

import anyio
import anyio.to_thread

from newel.review.paths import checked_path
from newel.review_jobs.overview import Overview
from newel.review_jobs.schemas import EntryState, FolderEntry, FolderView, FoundFiles, PendingFile
from newel.workspace.glob import is_text, left_out
from newel.workspace.port import DirectoryEntry
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS, is_never_covered
from newel.workspace.tracked import TrackedWorkspace
from newel.workspace.walk import below, walk

LOOKED_AT: Final = 100_000
"""Files of a project that are looked at for their names."""

MOST_NAMES: Final = 20_000
"""Names of one folder that are looked at: a person has given up looking through them long before."""

FRESH: Final = 5.0
"""Seconds for which the names of all files are taken to be as they were found."""


class Browser:
    """Looks at the files of a workspace beside what waits in them."""

    def __init__(self, workspace: TrackedWorkspace, overview: Overview) -> None:
        self._workspace = workspace
        self._overview = overview
        self._names: list[str] = []
        self._found_at = float("-inf")
        self._finding = anyio.Lock()

    # -- a folder -----------------------------------------------------------------------------------

    async def folder(self, folder: str, *, limit: int) -> FolderView:
        """What is in a folder of the project ("": the project's own), folders first, and what is only proposed there. Raises
        ``OutsideProject``, and ``WorkspaceError`` for what is no folder or cannot be read.
        """
        if folder:
            folder = await checked_path(self._workspace, folder)
        waiting = await anyio.to_thread.run_sync(self._overview.files)
        inside = _inside(folder, waiting)
        where = below(self._workspace, folder)
        is_only_proposed = bool(inside) and await self._workspace.stat(where) is None
        found = [] if is_only_proposed else await self._workspace.list(where, limit=MOST_NAMES)
        kinds = {each.name: each.kind for each in found if _is_shown(each)}
        proposed = {name: ("directory" if part.is_folder else "file") for name, part in inside.items()}
        names = sorted(
            {**proposed, **kinds}.items(), key=lambda item: (item[1] != "directory", _order(item[0]))
        )
        shown = names[:limit]
        there = [name for name, _ in shown if name in kinds]
        ignored = await self._workspace.ignored(folder, there)
        sizes = await self._sizes(where, [name for name, kind in shown if kind == "file"])
        entries: list[FolderEntry] = []
        for name, kind in shown:
            part = inside.get(name)
            entries.append(
                FolderEntry(
                    name=name,
                    kind="directory" if kind == "directory" else "file",
                    size=sizes.get(name),
                    state=part.state if part else "none",
                    waits=part.waits if part else 0,
                    ignored=name in ignored,
                )
            )
        is_cut = len(names) > limit or len(found) == MOST_NAMES
        return FolderView(folder=folder, entries=tuple(entries), more=is_cut)

    async def _sizes(self, folder: str, names: Sequence[str]) -> dict[str, int]:
        """In bytes, of the files that are there and may be looked at."""
        found = await self._workspace.stats([f"{folder}/{name}" for name in names])
        return {name: info.size for name, info in zip(names, found, strict=True) if info is not None}

    # -- names --------------------------------------------------------------------------------------

    async def find(self, query: str, *, limit: int) -> FoundFiles:
        """The files whose paths hold all words of a query, those first whose names do. What git ignores is left out."""
        async with self._finding:
            if time.monotonic() - self._found_at > FRESH:
                self._names = await self._all()
                self._found_at = time.monotonic()
            names = self._names
        return await anyio.to_thread.run_sync(_matching, names, query.casefold().split(), limit)

    async def _all(self) -> list[str]:
        waiting = await anyio.to_thread.run_sync(self._overview.files)
        names = await self._workspace.files_by_git()
        if names is None:
            walked = await walk(self._workspace, hidden=True, limit=LOOKED_AT)
            names = [path for path in walked.files if BUILD_DIRS.isdisjoint(path.split("/"))]
        return sorted({*names[:LOOKED_AT], *(file.file_path for file in waiting)})


class _Page:
    """What waits in an entry of a folder."""

    def __init__(self, *, is_folder: bool) -> None:
        self.is_folder = is_folder
        self.waits = 0
        self.conflicts = 0
        self.pending = 0

    @property
    def state(self) -> EntryState:
        if self.conflicts:
            return "conflict"
        return "pending" if self.pending else "accepted"


def _inside(folder: str, waiting: Iterable[PendingFile]) -> dict[str, _Page]:
    """What waits in a folder, by the names in it."""
    found: dict[str, _Page] = {}
    prefix = f"{folder}/" if folder else ""
    for file in waiting:
        if file.file_path.startswith(prefix):
            name, _, rest = file.file_path.removeprefix(prefix).partition("/")
            part = found.setdefault(name, _Page(is_folder=bool(rest)))
            part.waits += len(file.hunk_ids)
            part.conflicts += file.conflicts
            part.pending += file.pending
    return found


def _is_shown(entry: DirectoryEntry) -> bool:
    name = entry.name
    return entry.kind != "other" and is_text(name) and not left_out(name) and not is_never_covered(name)


def _order(name: str) -> tuple[str, str]:
    return name.casefold(), name


def _matching(paths: Iterable[str], words: Sequence[str], limit: int) -> FoundFiles:
    found: list[tuple[int, int, str]] = []
    for path in paths:
        lower = path.casefold()
        if all(word in lower for word in words):
            name = lower.rpartition("/")[2]
            rank = (
                0 if words and name.startswith(words[0]) else 1 if all(word in name for word in words) else 2
            )
            found.append((rank, len(path), path))
    found.sort()
    return FoundFiles(files=tuple(path for *_, path in found[:limit]), more=len(found) > limit)
