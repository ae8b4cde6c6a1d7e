"""What the engine acknowledged survives the death of its process and a full disk."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from newel.jobs.sqlite import open_engine

pytestmark = pytest.mark.anyio

WRITER = Path(__file__).with_name("engine_writer.py")
FULL_DISK = Path(__file__).with_name("engine_full_disk.py")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_nothing_acknowledged_is_lost_by_kill_9_and_every_run_goes_on(tmp_path: Path) -> None:
    """Killed again and again at random moments, also while it opens, and taken up by the next process at once."""
    runs = 8
    promised: dict[str, int] = {}
    for killed in range(6):
        with subprocess.Popen(
            [sys.executable, str(WRITER), str(tmp_path), str(runs)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(random.choice([0, 1, runs, random.randint(1, 800)])):  # noqa: S311 — any moment will do
                note(writer.stdout.readline(), promised)
            writer.kill()
            for line in writer.stdout:
                note(line, promised)

        async with open_engine(tmp_path) as engine:
            jobs = await engine.find()
            assert promised.keys() <= {job.id for job in jobs}
            assert len(jobs) <= runs  # asked for under the same keys each time
            for job in jobs:
                assert job.state == "queued"
                assert job.seq >= promised.get(job.id, 0)
                events = await engine.read(job.id, limit=100_000)
                assert [event.seq for event in events] == list(range(1, job.seq + 1))
                assert [event.data for event in events] == [b'{"seq":%d}' % event.seq for event in events]
        assert killed < 5 or promised


def note(line: str, promised: dict[str, int]) -> None:
    match line.split():
        case ["append", job, seq] if line.endswith("\n"):
            promised[job] = int(seq)
        case ["submit", job] if line.endswith("\n"):
            promised.setdefault(job, 0)
        case _:
            pass


async def test_a_full_disk_costs_what_did_not_fit_and_the_engine_works_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, str(FULL_DISK), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert ran.returncode == 0, ran.stderr
    reason, acknowledged, meanwhile, last = ran.stdout.splitlines()
    assert "What was acknowledged is safe" in reason
    assert meanwhile == f"refused {acknowledged}"
    assert int(last) == int(acknowledged) + 1
    async with open_engine(tmp_path) as engine:
        (job,) = await engine.find()
        assert (job.state, job.seq) == ("done", int(last))
        events = await engine.read(job.id)
        assert [len(event.data) for event in events] == [5000] * int(acknowledged) + [len(b"room again")]
