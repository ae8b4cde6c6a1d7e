"""The workspace as it would be if all that is proposed were kept: what a job reads is what it then proposes edits of.

Nothing can be written to it and nothing run in it but what the tools run to search.
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
from newel.workspace.delegating_workspace import DelegatingWorkspace
from newel.workspace.port import DirectoryEntry, FileInfo, Workspace, WriteResult

STALE: Final = "stale"
_READ_ONLY: Final = "{path} was not changed: this job proposes changes. Use propose_edits."


class OverlayWorkspace(DelegatingWorkspace[Workspace]):
    """Another workspace with what the ledger has of its files."""

    def __init__(self, workspace: Workspace, ledger: Ledger) -> None:
        super().__init__(workspace)
        self._ledger = ledger
        self._seen: dict[str, str] = {}
        """What tells the state in which this job first read a file."""

    async def stat(self, path: str, /) -> FileInfo | None:
        lines = await self._staged(path)
        if lines is None:
            return await self._inner.stat(path)
        content = content_of(lines)
        if content is None:
            return None
        there = await self._inner.stat(path)
        modified = there.modified_ns if there is not None else 0
        return FileInfo(kind="file", size=len(content.data), mode=content.mode, modified_ns=modified)

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        found = await self._inner.stats(paths)
        return [
            there if await self._staged(path) is None else await self.stat(path)
            for path, there in zip(paths, found, strict=True)
        ]

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        found = {entry.name: entry for entry in await self._inner.list(path, limit=limit, nofollow=nofollow)}
        for name in await anyio.to_thread.run_sync(self._ledger.paths):
            place = PurePosixPath(self.root, name)
            if str(place.parent) != path or (lines := await self._staged(str(place))) is None:
                continue
            if lines:
                found.setdefault(place.name, DirectoryEntry(name=place.name, kind="file"))
            else:
                found.pop(place.name, None)
        return sorted(found.values(), key=lambda entry: entry.name)[:limit]

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        name = self._name(path)
        if name is not None and self._seen.get(name, STALE) == STALE:
            self._seen[name] = await self._stamp(path)
        lines = await self._staged(path)
        if lines is None:
            return await self._inner.read_bytes(path, start=start, size=size, nofollow=nofollow)
        content = content_of(lines)
        if content is None:
            raise WorkspaceError(f"{path} is not there: that it goes is proposed already.")
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

    # -- what the job has seen ----------------------------------------------------------------------

    async def is_as_seen(self, name: str) -> bool:
        """Whether a file reads as it did when this job first read it; true of one that it never read."""
        seen = self._seen.get(name)
        return seen is None or seen == await self._stamp(await self.resolve(name))

    def forget(self, name: str) -> None:
        """What this job has read of a file is no longer so: its lines have moved."""
        self._seen[name] = STALE

    async def staged_paths(self) -> list[str]:
        """The files that read otherwise here than on the disk."""
        names = await anyio.to_thread.run_sync(self._ledger.paths)
        return [name for name in names if await self._of_review(name) is not None]

    async def _stamp(self, path: str) -> str:
        """What tells a file's state from another one."""
        lines = await self._staged(path)
        if lines is not None:
            return text_hash(lines)
        there = await self._inner.stat(path)
        return f"{there.size}/{there.modified_ns}" if there is not None else "none"

    def _name(self, path: str) -> str | None:
        """A path as the ledger has it; None for one outside the project."""
        place = PurePosixPath(path)
        return str(place.relative_to(self.root)) if place.is_relative_to(self.root) else None

    async def _staged(self, path: str) -> Lines | None:
        """The lines of a file of which changes are proposed; None for any other."""
        name = self._name(path)
        return None if name is None else await self._of_review(name)

    async def _of_review(self, name: str) -> Lines | None:
        review = await anyio.to_thread.run_sync(self._ledger.get, name)
        if not any(hunk.is_shown for hunk in review.hunks):
            return None
        lines = buffer(review)
        return None if is_blob(lines) else lines
