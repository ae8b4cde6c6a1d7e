"""If these fail, callers cannot catch a failing task's error by its class."""

from __future__ import annotations

import traceback

import anyio
import pytest

from newel.agent.errors import BadResponse, ConnectionLost
from newel.concurrency import background_tasks, first_error, task_group

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
