"""The project's files for users: folder by folder, or found by name."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import Final

import anyio
import anyio.to_thread

from newel.review.paths import checked_path
from newel.review_jobs.overview import Overview
from newel.review_jobs.responses import EntryState, FolderEntry, FolderView, FoundFiles, PendingFile
from newel.text.fuzzy import fuzzy_matches
from newel.workspace.glob import is_text, left_out
from newel.workspace.port import DirectoryEntry
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS, is_never_covered
from newel.workspace.tracked import TrackedWorkspace
from newel.workspace.walk import below, walk

MAX_PROJECT_FILES: Final = 100_000
MAX_FOLDER_ENTRIES: Final = 20_000
MAX_RANKED: Final = 1000
"""Names that are compared letter by letter, the shortest."""
NAMES_TTL_S: Final = 5.0
"""How long the list of all file names is reused."""


class FileBrowser:
    """Lists the files of a workspace together with their pending changes."""

    def __init__(self, workspace: TrackedWorkspace, overview: Overview) -> None:
        self._workspace = workspace
        self._overview = overview
        self._names: list[str] = []
        self._names_loaded_at = float("-inf")
        self._loading = anyio.Lock()

    # -- a folder -----------------------------------------------------------------------------------

    async def folder(self, folder: str, *, limit: int) -> FolderView:
        """The entries of a folder of the project ("": its root), folders first, including proposed files. Raises
        ``OutsideProject``, and ``WorkspaceError`` for a path that is no folder or cannot be read.
        """
        if folder:
            folder = await checked_path(self._workspace, folder)
        pending = _group_by_entry(folder, await self._overview.files())
        path = below(self._workspace, folder)
        is_only_proposed = bool(pending) and await self._workspace.stat(path) is None
        listed = [] if is_only_proposed else await self._workspace.list(path, limit=MAX_FOLDER_ENTRIES)
        existing = {entry.name: entry.kind for entry in listed if _is_visible(entry)}
        proposed = {name: ("directory" if entry.is_folder else "file") for name, entry in pending.items()}
        kinds = sorted(
            {**proposed, **existing}.items(), key=lambda item: (item[1] != "directory", _sort_key(item[0]))
        )
        page = dict(kinds[:limit])
        ignored = await self._workspace.ignored(folder, [name for name in page if name in existing])
        sizes = await self._sizes(path, [name for name, kind in page.items() if kind == "file"])
        entries = tuple(
            FolderEntry(
                name=name,
                kind="directory" if kind == "directory" else "file",
                size=sizes.get(name),
                state=pending[name].state if name in pending else "none",
                waits=pending[name].hunks if name in pending else 0,
                ignored=name in ignored,
            )
            for name, kind in page.items()
        )
        is_cut = len(kinds) > limit or len(listed) == MAX_FOLDER_ENTRIES
        return FolderView(folder=folder, entries=entries, more=is_cut)

    async def _sizes(self, folder: str, names: Sequence[str]) -> dict[str, int]:
        """The bytes of the files that exist and may be read."""
        infos = await self._workspace.stats([f"{folder}/{name}" for name in names])
        return {name: info.size for name, info in zip(names, infos, strict=True) if info is not None}

    # -- names --------------------------------------------------------------------------------------

    async def find(self, query: str, *, limit: int) -> FoundFiles:
        """The files whose paths contain all words of a query, or else its letters in order, best match first, without those that git
        ignores.
        """
        async with self._loading:
            if time.monotonic() - self._names_loaded_at > NAMES_TTL_S:
                self._names = await self._load_names()
                self._names_loaded_at = time.monotonic()
            names = self._names
        return await anyio.to_thread.run_sync(_search, names, query.casefold().split(), limit)

    async def _load_names(self) -> list[str]:
        pending = await self._overview.files()
        names = await self._workspace.files_by_git()
        if names is None:
            walked = await walk(self._workspace, hidden=True, limit=MAX_PROJECT_FILES)
            names = [path for path in walked.files if BUILD_DIRS.isdisjoint(path.split("/"))]
        return sorted({*names[:MAX_PROJECT_FILES], *(file.file_path for file in pending)})


class _PendingEntry:
    """The pending hunks of an entry of a folder, and of all files below it."""

    def __init__(self, *, is_folder: bool) -> None:
        self.is_folder = is_folder
        self.hunks = 0
        self._conflicts = 0
        self._undecided = 0

    def add(self, file: PendingFile) -> None:
        self.hunks += len(file.hunk_ids)
        self._conflicts += file.conflicts
        self._undecided += file.pending

    @property
    def state(self) -> EntryState:
        if self._conflicts:
            return "conflict"
        return "pending" if self._undecided else "accepted"


def _group_by_entry(folder: str, files: Iterable[PendingFile]) -> dict[str, _PendingEntry]:
    entries: dict[str, _PendingEntry] = {}
    prefix = f"{folder}/" if folder else ""
    for file in files:
        if file.file_path.startswith(prefix):
            name, _, rest = file.file_path.removeprefix(prefix).partition("/")
            entries.setdefault(name, _PendingEntry(is_folder=bool(rest))).add(file)
    return entries


def _is_visible(entry: DirectoryEntry) -> bool:
    name = entry.name
    return entry.kind != "other" and is_text(name) and not left_out(name) and not is_never_covered(name)


def _sort_key(name: str) -> tuple[str, str]:
    return name.casefold(), name


def _search(paths: Sequence[str], terms: Sequence[str], limit: int) -> FoundFiles:
    found = _search_words(paths, terms, limit)
    if found.files or not terms:
        return found
    letters = re.compile("".join(f"[^{letter}]*+{letter}" for letter in map(re.escape, "".join(terms))))
    loose = sorted(
        (path for path in paths if letters.match(path.casefold())), key=lambda path: (len(path), path)
    )
    ranked = loose[:MAX_RANKED]
    best = tuple(ranked[at] for at in fuzzy_matches(ranked, "".join(terms))[:limit])
    return FoundFiles(files=best, more=len(loose) > limit)


def _search_words(paths: Sequence[str], terms: Sequence[str], limit: int) -> FoundFiles:
    matches: list[tuple[int, int, str]] = []
    for path in paths:
        lower = path.casefold()
        if all(word in lower for word in terms):
            name = lower.rpartition("/")[2]
            rank = (
                0 if terms and name.startswith(terms[0]) else 1 if all(word in name for word in terms) else 2
            )
            matches.append((rank, len(path), path))
    matches.sort()
    return FoundFiles(files=tuple(path for *_, path in matches[:limit]), more=len(matches) > limit)
