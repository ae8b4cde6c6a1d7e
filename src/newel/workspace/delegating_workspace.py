"""The base of workspaces that change some calls of another workspace and delegate the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from newel.workspace.port import Completed, DirectoryEntry, FileInfo, OnOutput, Workspace, WriteResult

Inner = TypeVar("Inner", bound=Workspace)


class DelegatingWorkspace(Generic[Inner]):
    """Implements ``newel.workspace.port.Workspace`` by delegating every call to ``inner``."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def name(self) -> str:
        return self._inner.name

    async def _target(self) -> Inner:
        """The workspace for the next call. May wait until it is ready."""
        return self._inner

    async def resolve(self, path: str, /) -> str:
        return await (await self._target()).resolve(path)

    async def stat(self, path: str, /) -> FileInfo | None:
        return await (await self._target()).stat(path)

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        return await (await self._target()).stats(paths)

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        return await (await self._target()).list(path, limit=limit, nofollow=nofollow)

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        return await (await self._target()).read_bytes(path, start=start, size=size, nofollow=nofollow)

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        return await (await self._target()).write_bytes(path, data, expect=expect, mode=mode)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        await (await self._target()).remove(path, expect=expect)

    async def remove_folder(self, path: str, /) -> None:
        await (await self._target()).remove_folder(path)

    async def run(
        self,
        command: str,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 — see the port
        on_output: OnOutput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        return await (await self._target()).run(command, timeout=timeout, on_output=on_output, env=env)
