"""Work that goes on beside a block, and no longer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any


@contextmanager
def ungrouped() -> Generator[None]:
    """Let an error leave the task group inside as itself, the first one if there are several: no caller expects a group."""
    try:
        yield
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed


@asynccontextmanager
async def beside(work: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[None]:
    """Do some work until the block ends. What the block raises leaves as itself."""
    import anyio

    with ungrouped():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            yield
            tasks.cancel_scope.cancel()
