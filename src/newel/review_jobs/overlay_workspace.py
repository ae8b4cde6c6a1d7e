"""A read-only workspace in which all proposed changes are applied, so that a job reads the text that it edits.

Only the search tools run commands in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.review.model.file_lines import content_of, is_blob, text_hash
from newel.review.model.file_review import Lines, buffer
from newel.review.store.ledger import Ledger
from newel.workspace.port import DelegatingWorkspace, DirectoryEntry, FileInfo, Workspace, WriteResult

STALE: Final = "stale"
_READ_ONLY: Final = "{path} was not changed: this job only proposes changes. Use propose_edits."


class OverlayWorkspace(DelegatingWorkspace[Workspace]):
    """Overlays a workspace with the buffers of the ledger."""

    def __init__(self, workspace: Workspace, ledger: Ledger) -> None:
        super().__init__(workspace)
        self._ledger = ledger
        self._stamps: dict[str, str] = {}
        """For each file that the job has read, the stamp of the state that it first saw."""

    async def stat(self, path: str, /) -> FileInfo | None:
        lines = await self._overlaid(path)
        if lines is None:
            return await self._inner.stat(path)
        content = content_of(lines)
        if content is None:
            return None
        info = await self._inner.stat(path)
        modified = info.modified_ns if info is not None else 0
        return FileInfo(kind="file", size=len(content.data), mode=content.mode, modified_ns=modified)

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        infos = await self._inner.stats(paths)
        return [
            info if await self._overlaid(path) is None else await self.stat(path)
            for path, info in zip(paths, infos, strict=True)
        ]

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        entries = {
            entry.name: entry for entry in await self._inner.list(path, limit=limit, nofollow=nofollow)
        }
        for name in await anyio.to_thread.run_sync(self._ledger.paths):
            place = PurePosixPath(self.root, name)
            if str(place.parent) != path or (lines := await self._overlaid(str(place))) is None:
                continue
            if lines:
                entries.setdefault(place.name, DirectoryEntry(name=place.name, kind="file"))
            else:
                entries.pop(place.name, None)
        return sorted(entries.values(), key=lambda entry: entry.name)[:limit]

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        name = self._name(path)
        if name is not None and self._stamps.get(name, STALE) == STALE:
            self._stamps[name] = await self._stamp(path)
        lines = await self._overlaid(path)
        if lines is None:
            return await self._inner.read_bytes(path, start=start, size=size, nofollow=nofollow)
        content = content_of(lines)
        if content is None:
            raise WorkspaceError(f"{path} does not exist: its deletion has already been proposed.")
        return content.data[start:] if size is None else content.data[start : start + size]

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        del data, expect, mode
        raise WorkspaceError(_READ_ONLY.format(path=path))

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        del expect
        raise WorkspaceError(_READ_ONLY.format(path=path))

    async def remove_folder(self, path: str, /) -> None:
        raise WorkspaceError(_READ_ONLY.format(path=path))

    # -- what the job has read ----------------------------------------------------------------------

    async def is_as_read(self, name: str) -> bool:
        """Whether a file is as it was when this job first read it; true for a file that it has not read."""
        stamp = self._stamps.get(name)
        return stamp is None or stamp == await self._stamp(await self.resolve(name))

    def mark_stale(self, name: str) -> None:
        """The job must read the file again: its lines have moved."""
        self._stamps[name] = STALE

    async def overlaid_paths(self) -> list[str]:
        """The files that differ from the disk."""
        names = await anyio.to_thread.run_sync(self._ledger.paths)
        return [name for name in names if await self._buffer(name) is not None]

    async def _stamp(self, path: str) -> str:
        """Changes whenever the file does."""
        lines = await self._overlaid(path)
        if lines is not None:
            return text_hash(lines)
        info = await self._inner.stat(path)
        return f"{info.size}/{info.modified_ns}" if info is not None else "none"

    def _name(self, path: str) -> str | None:
        """A path's name in the ledger; None outside the project."""
        place = PurePosixPath(path)
        return str(place.relative_to(self.root)) if place.is_relative_to(self.root) else None

    async def _overlaid(self, path: str) -> Lines | None:
        """The lines of a file with proposed changes; None for any other."""
        name = self._name(path)
        return None if name is None else await self._buffer(name)

    async def _buffer(self, name: str) -> Lines | None:
        review = await anyio.to_thread.run_sync(self._ledger.get, name)
        if not any(hunk.is_shown for hunk in review.hunks):
            return None
        lines = buffer(review)
        return None if is_blob(lines) else lines
