"""Begins to scan a project while the model answers, so that the first command waits for less of it."""

from __future__ import annotations

from typing import Final, Protocol

import anyio

from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.concurrency import background_tasks

_START_S: Final = 0.1
"""By then the request is sent, and nothing delays it."""


class ScannedProject(Protocol):
    """A project that is scanned by the first command at the latest."""

    @property
    def has_scanned(self) -> bool: ...

    async def scan_early(self) -> None: ...


class EarlyScan:
    """A ``Provider`` that passes on requests, and meanwhile has the project scanned, until the end of the answer at the latest."""

    def __init__(self, provider: Provider, project: ScannedProject) -> None:
        self._provider = provider
        self._project = project

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        if self._project.has_scanned:
            return await self._provider.complete(request, on_delta)
        async with background_tasks(self._scan):
            return await self._provider.complete(request, on_delta)

    async def _scan(self) -> None:
        await anyio.sleep(_START_S)
        await self._project.scan_early()
