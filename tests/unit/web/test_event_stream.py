"""If it fails, a request that waits for events answers 500 where the job is gone or the engine cannot work."""

from __future__ import annotations

import anyio
import pytest

from newel.review_jobs.errors import NoSuchJob
from newel.web.event_stream import cancel_when_any

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_an_error_during_a_wait_is_raised_unchanged() -> None:
    async def ask() -> None:
        async with cancel_when_any(anyio.Event().wait):
            await anyio.lowlevel.checkpoint()
            raise NoSuchJob("There is no job j; it may have been forgotten.")

    with pytest.raises(NoSuchJob, match="forgotten"):
        await ask()


async def test_the_wait_ends_when_the_server_does() -> None:
    closing = anyio.Event()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(closing.wait)
            closing.set()
            async with cancel_when_any(closing.wait):
                await anyio.sleep_forever()
