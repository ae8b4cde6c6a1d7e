"""Begins to scan a project while the model answers, so that the first command waits for less of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.concurrency import background_tasks

_START_S: Final = 0.1
"""By then the request is sent, and nothing delays it."""


class EarlyScan:
    """A ``Provider`` that passes on requests, and meanwhile awaits ``begin_scan``, until the end of the answer at the latest."""

    def __init__(self, provider: Provider, begin_scan: Callable[[], Awaitable[None]]) -> None:
        self._provider = provider
        self._begin_scan = begin_scan

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        async with background_tasks(self._begin):
            return await self._provider.complete(request, on_delta)

    async def _begin(self) -> None:
        await anyio.sleep(_START_S)
        await self._begin_scan()
