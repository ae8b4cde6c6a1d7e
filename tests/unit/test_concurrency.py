"""If these fail, callers cannot catch a failing task's error by its class."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from newel.agent.errors import BadResponse, ConnectionLost
from newel.concurrency import background_tasks, first_error, hosted, task_group

pytestmark = pytest.mark.anyio
# ruff: noqa: PT012 — a task group is a block of several lines


async def fail() -> None:
    raise ConnectionLost("The connection broke.")


async def test_an_error_of_a_task_is_raised_unchanged() -> None:
    with pytest.raises(ConnectionLost, match="broke"):
        async with task_group() as tasks:
            tasks.start_soon(fail)
            await anyio.sleep_forever()


async def test_an_error_of_the_block_is_raised_unchanged_and_ends_the_tasks() -> None:
    ended = anyio.Event()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with pytest.raises(BadResponse):
        async with background_tasks(work):
            await anyio.wait_all_tasks_blocked()
            raise BadResponse("not JSON")
    assert ended.is_set()


async def test_the_first_of_several_errors_is_raised() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise BadResponse("second")

    with pytest.raises(ConnectionLost):
        async with task_group() as tasks:
            tasks.start_soon(fail_when_cancelled)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(fail)


async def test_nested_groups_are_unwrapped() -> None:
    async def nested() -> None:
        async with anyio.create_task_group() as inner:
            inner.start_soon(fail)

    with pytest.raises(ConnectionLost):
        async with task_group() as outer:
            outer.start_soon(nested)


async def test_a_cancellation_from_outside_passes_through() -> None:
    reached = False
    with anyio.move_on_after(0.01) as scope:
        async with task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            await anyio.sleep_forever()
        reached = True
    assert scope.cancelled_caught
    assert not reached


async def test_an_error_during_cancellation_is_not_lost() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise BadResponse("cleanup failed")

    with pytest.raises(BadResponse), anyio.move_on_after(0.01):
        async with task_group() as tasks:
            tasks.start_soon(fail_when_cancelled)


async def test_background_tasks_end_with_the_block() -> None:
    running = 0

    async def work() -> None:
        nonlocal running
        running += 1
        try:
            await anyio.sleep_forever()
        finally:
            running -= 1

    async with background_tasks(work, work) as tasks:
        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        assert running == 3
    assert running == 0


async def test_an_error_keeps_its_cause_and_has_no_cycle_in_its_chain() -> None:
    async def work() -> None:
        raise ConnectionLost("The connection broke.") from OSError("reset by peer")

    with pytest.raises(ConnectionLost) as caught:
        async with task_group() as tasks:
            tasks.start_soon(work)
    assert isinstance(caught.value.__cause__, OSError)
    assert not isinstance(caught.value.__context__, BaseExceptionGroup)
    assert "reset by peer" in "".join(traceback.format_exception(caught.value))


def test_a_plain_error_is_its_own_first_error() -> None:
    error = BadResponse("")
    assert first_error(error) is error


@asynccontextmanager
async def in_a_scope(said: list[str]) -> AsyncGenerator[str]:
    """What cannot be left in another task than it was entered in."""
    with anyio.CancelScope():
        try:
            yield "open"
        finally:
            said.append("closed")


async def test_a_hosted_block_may_be_left_in_another_task() -> None:
    """A fixture of a test is, and so is a generator that nobody reads to its end."""
    said: list[str] = []
    block = hosted(in_a_scope(said))
    assert await asyncio.create_task(block.__aenter__()) == "open"
    await asyncio.create_task(block.__aexit__(None, None, None))
    assert said == ["closed"]


async def test_errors_of_a_hosted_block_are_raised() -> None:
    @asynccontextmanager
    async def failing(when: str) -> AsyncGenerator[None]:
        if when == "opening":
            raise BadResponse("not opened")
        yield
        raise BadResponse("not closed")

    for when, words in (("opening", "not opened"), ("closing", "not closed")):
        with pytest.raises(BadResponse, match=words):
            async with hosted(failing(when)):
                pass
    with pytest.raises(ConnectionLost):
        async with hosted(failing("closing")):
            await fail()


async def test_a_cancellation_while_a_hosted_block_opens_ends_it() -> None:
    said: list[str] = []

    @asynccontextmanager
    async def slow() -> AsyncGenerator[None]:
        try:
            await anyio.sleep_forever()
            yield
        finally:
            said.append("given up")

    with anyio.move_on_after(0) as scope:
        async with hosted(slow()):
            pass
    assert scope.cancelled_caught
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001), hosted(slow()):
            pass
    assert said == ["given up", "given up"]
