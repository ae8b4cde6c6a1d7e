"""If it fails, killing a process in the middle of a job loses the job or its proposals."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from newel.review_jobs.dependencies import ReviewLimits
from tests.review_bench import ReviewBench, hunks, says
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]
WORK = """
import sys
from pathlib import Path

import anyio

from newel.review_jobs.dependencies import ReviewLimits
from tests.scripted_provider import ScriptedProvider
from tests.review_bench import ReviewBench, calls, proposes, replace


async def hangs(_):
    print("asked", flush=True)
    await anyio.sleep_forever()


async def main():
    script = [calls("read_file", file_path="a.md"), proposes(replace("a.md", 2, "zwei\\n")), hangs]
    at = ReviewBench(Path(sys.argv[1]), ScriptedProvider(script), ReviewLimits())
    at.write(a="one\\ntwo\\n")
    async with at.open():
        await at.start()


anyio.run(main)
"""


async def test_a_killed_process_leaves_a_job_that_the_next_one_completes(tmp_path: Path) -> None:
    async with await anyio.open_process([sys.executable, "-c", WORK, str(tmp_path)], cwd=ROOT) as process:
        assert process.stdout is not None
        with anyio.fail_after(20):
            assert (await TextReceiveStream(process.stdout).receive()).strip() == "asked"
        process.kill()
        await process.wait()
    at = ReviewBench(tmp_path, ScriptedProvider([says("Done after all.")]), ReviewLimits())
    async with at.open():
        (job,) = await at.engine.find(kind="review")
        view = await at.settled(job.id)
        assert (view.status, view.summary) == ("awaiting_review", "Done after all.")
        assert (await at.types(job.id)).count("edits.proposed") == 1
        (hunk,) = hunks(view).values()
        await at.desk.jobs.apply(view.session_id, view.id, [hunk.hunk_id])
        assert at.read("a.md") == "one\nzwei\n"
