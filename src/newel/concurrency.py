"""Task groups that raise errors instead of exception groups, and blocks that any task may leave."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

if TYPE_CHECKING:
    import asyncio

_CANCELLED: Final = "a task that it awaited was cancelled"

Item = TypeVar("Item")
Result = TypeVar("Result")


def first_error(error: BaseException) -> BaseException:
    """The error itself, or the first one of a group, however deeply the group is nested."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


@asynccontextmanager
async def task_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group that raises the first error of its tasks and its block as it is.

    The errors that follow are mostly caused by the first: they are dropped. Callers can catch the error by its class, and
    cancellation passes through unchanged.
    """
    try:
        async with anyio.create_task_group() as tasks:  # noqa: TID251 — wrapped here
            yield tasks
    except BaseExceptionGroup as group:
        error = first_error(group)
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context  # not the group: it contains the error, so the chain would be a loop


@asynccontextmanager
async def background_tasks(*tasks: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[TaskGroup]:
    """Run tasks until the block ends, then cancel them. Yields the task group, for more tasks."""
    async with task_group() as group:
        for task in tasks:
            group.start_soon(task)
        yield group
        group.cancel_scope.cancel()


@asynccontextmanager
async def background_task(work: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Run ``work`` until the block ends, then cancel it and wait for its end. Raises its error, unless the block raises another.

    Unlike that of a task group, the block may be left in another task than it was entered in: an asynchronous generator that is not read
    to its end is closed in a task of its own.
    """
    import asyncio  # loaded by now

    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await work()

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        scope.cancel()
        error = await _end_of(task, scope)
    if error is not None:
        raise error


@asynccontextmanager
async def hosted(opened: AbstractAsyncContextManager[Result]) -> AsyncGenerator[Result]:
    """Enter and leave a context manager in one task of its own, whichever tasks enter and leave this one. It learns of no error of the
    block.
    """
    import asyncio

    scope, is_left = anyio.CancelScope(), anyio.Event()
    value: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        with scope:
            async with opened as entered:
                value.set_result(entered)
                await is_left.wait()

    task = asyncio.create_task(run())
    try:
        await asyncio.wait([task, value], return_when=asyncio.FIRST_COMPLETED)
        if value.done():
            yield value.result()
    except BaseException:
        if not value.done():
            scope.cancel()
        raise
    finally:
        is_left.set()
        error = await _end_of(task, scope)
    if error is not None:
        raise error


async def _end_of(task: asyncio.Task[None], scope: anyio.CancelScope) -> BaseException | None:
    """Wait for the end of a task, whose ``scope`` is cancelled with this one. Returns its error."""
    import asyncio

    try:
        await asyncio.wait([task])
    except BaseException:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise
    return None if task.cancelled() else task.exception()


async def isolated(work: Callable[[], Awaitable[Result]]) -> Result:
    """Await another's code in a task of its own, so that a cancellation that it brings about itself ends nothing else: it raises
    ``RuntimeError``. A group of errors is raised as its first one.
    """
    results: list[Result] = []
    failures: list[BaseException] = []

    async def run() -> None:
        try:
            results.append(await work())
        except BaseException as error:
            failures.append(error)
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise

    async with task_group() as group:
        group.start_soon(run)
    if results:
        return results[0]
    error = first_error(failures[0])
    if isinstance(error, anyio.get_cancelled_exc_class()):
        raise RuntimeError(_CANCELLED).with_traceback(error.__traceback__)
    raise error


async def contained(work: Awaitable[Result]) -> Result:
    """Await another's code in this task. A cancellation that it brings about itself, by awaiting a cancelled task, raises
    ``RuntimeError``. Unlike ``isolated`` this costs no task, and does not hold if the code cancels the task that it runs in.
    """
    import asyncio

    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():  # by somebody else
            raise
        raise RuntimeError(_CANCELLED).with_traceback(error.__traceback__) from None


def is_async(function: object) -> bool:
    """Whether a call of ``function`` has to be awaited, as far as that can be told before."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 — of an object


async def map_concurrently(
    work: Callable[[Item], Awaitable[Result]], items: Sequence[Item], limit: int
) -> list[Result]:
    """The results of ``work`` in the order of ``items``, at most ``limit`` of which are worked on at once."""
    if len(items) == 1:
        return [await work(items[0])]
    results: dict[int, Result] = {}
    remaining = iter(enumerate(items))

    async def take() -> None:
        for at, item in remaining:
            results[at] = await work(item)

    async with task_group() as tasks:
        for _ in range(min(limit, len(items))):
            tasks.start_soon(take)
    return [results[at] for at in range(len(items))]
