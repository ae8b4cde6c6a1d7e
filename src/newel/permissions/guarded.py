"""A workspace that closes secret places. It opens exactly the paths that it judged, even if a link replaces one meanwhile.
Commands are not judged: what they open is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from newel.agent.errors import WorkspaceError
from newel.permissions.secret_paths import Judgement, SecretPaths
from newel.workspace.delegating_workspace import DelegatingWorkspace
from newel.workspace.port import DirectoryEntry, FileInfo, Workspace


def refusal_message(path: str, judged: Judgement, *, writes: bool = False) -> str:
    """Why a file is not opened, and how the user can allow it."""
    act = "write" if writes else "read"
    done = "written" if writes else "read"
    allow = f'in their config.toml: [permissions] allow = ["{act}({path})"]'
    if judged.level == "never":
        return (
            f"{path} was not {done}: it holds secrets ({judged.reason}), which no tool of Newel opens in any mode. Continue "
            f"without it. Only the user can allow it, {allow}"
        )
    return (
        f"{path} was not {done}: it is {judged.reason}, so it needs the user's approval, and this run cannot ask for it. "
        f"Continue without it, and tell the user: they can use `--approve auto`, or allow it {allow}"
    )


class GuardedWorkspace(DelegatingWorkspace[Workspace]):
    """Closes secret places of another workspace; with ``strict`` also everything that would need approval."""

    def __init__(self, inner: Workspace, places: SecretPaths, *, strict: bool = False) -> None:
        super().__init__(inner)
        self._places = places
        self._closed = {"never", "ask"} if strict else {"never"}

    def _open(self, path: str, *, writes: bool = False) -> str:
        judged = self._places.judge(path, writes=writes)
        if judged.level in self._closed:
            raise WorkspaceError(refusal_message(self._places.original(path), judged, writes=writes))
        return path

    async def stat(self, path: str, /) -> FileInfo | None:
        return await self._inner.stat(self._open(path))

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        found = await self._inner.stats(paths)
        return [
            None if self._places.judge(path).level in self._closed else info
            for path, info in zip(paths, found, strict=True)
        ]

    async def list(self, path: str, /, *, limit: int = 10_000, nofollow: bool = True) -> list[DirectoryEntry]:
        return await self._inner.list(self._open(path), limit=limit, nofollow=nofollow)

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = True
    ) -> bytes:
        return await self._inner.read_bytes(self._open(path), start=start, size=size, nofollow=nofollow)

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> str:
        return await self._inner.write_bytes(self._open(path, writes=True), data, expect=expect, mode=mode)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        await self._inner.remove(self._open(path, writes=True), expect=expect)

    async def remove_folder(self, path: str, /) -> None:
        await self._inner.remove_folder(self._open(path, writes=True))
