"""If it fails, killing a job's process loses or repeats events in its trace."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import anyio
import pytest

from newel.jobs.engine import EngineError
from newel.jobs.sqlite import open_reader
from tests.review_bench import says
from tests.scripted_provider import ScriptedProvider
from tests.unit.review_jobs.test_traces import same
from tests.unit.review_jobs.traced_place import TracedPlace

ROOT = Path(__file__).resolve().parents[3]
WORK = """
import sys
from pathlib import Path

import anyio

from newel.review_jobs.requests import ToolConfig
from tests.scripted_provider import ScriptedProvider
from tests.review_bench import calls
from tests.unit.review_jobs.traced_place import TracedPlace


async def wait_for_the_kill(_):  # it may come late, and a job has 100 calls, few of them the same
    await anyio.sleep_forever()


async def main():
    script = [*(calls("list_files", glob=f"{number}*") for number in range(20)), wait_for_the_kill]
    at = TracedPlace(Path(sys.argv[1]), ScriptedProvider(script))
    async with at.open():
        if len(sys.argv) > 2:
            await at.start(tool_config=ToolConfig(max_tool_calls=100))
        await anyio.sleep_forever()


anyio.run(main)
"""


async def entries(place: TracedPlace) -> int:
    """The entries of the one job's journal, which another process writes."""
    with contextlib.suppress(EngineError):
        async with open_reader(place.jobs) as reader:
            return sum(job.seq for job in await reader.find(kind="review"))
    return 0


@pytest.mark.slow  # a story: a process killed again and again
@pytest.mark.anyio
async def test_a_repeatedly_killed_process_leaves_each_event_in_the_trace_once(
    tmp_path: Path,
) -> None:
    place = TracedPlace(tmp_path, ScriptedProvider([says("Done after all.")]))
    for number in range(4):
        begin = ["begin"] if number == 0 else []
        async with await anyio.open_process(
            [sys.executable, "-c", WORK, str(tmp_path), *begin], cwd=ROOT, stdout=None, stderr=None
        ) as process:
            with anyio.fail_after(20):
                while await entries(place) < 20 * (number + 1):  # noqa: ASYNC110 — another process writes it
                    await anyio.sleep(0.001)
            process.kill()
            await process.wait()
    async with place.open():
        (job,) = await place.engine.find(kind="review")
        view = await place.settled(job.id)
        assert (view.status, view.summary) == ("completed", "Done after all.")
        await same(place, job.id)
        cursors = [each.cursor for each in (await place.trace(job.id)).events]
        assert cursors == list(range(1, view.cursor + 1))
