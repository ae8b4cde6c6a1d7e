"""Work that goes on beside a block, and no longer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(work: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[None]:
    """Do some work until the block ends. What the block raises leaves as itself: nobody further out expects a group."""
    import anyio

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
