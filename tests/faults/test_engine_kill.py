"""If these fail, a killed process or a full disk loses jobs that the engine acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import anyio

from newel.jobs.engine import Job, JournalEntry
from newel.jobs.sqlite import open_engine

WRITER = Path(__file__).with_name("engine_writer.py")
FULL_DISK = Path(__file__).with_name("engine_full_disk.py")
RUNS = 8


def jobs_in(directory: Path) -> list[tuple[Job, list[JournalEntry]]]:
    """The jobs that the next process finds."""

    async def look() -> list[tuple[Job, list[JournalEntry]]]:
        async with open_engine(directory) as engine:
            return [(job, await engine.read(job.id, limit=100_000)) for job in await engine.find()]

    return anyio.run(look)


def note(line: str, promised: dict[str, int]) -> None:
    """Note an acknowledgement of the writer; a cut line is none."""
    match line.split():
        case ["append", job, seq] if line.endswith("\n"):
            promised[job] = int(seq)
        case ["submit", job] if line.endswith("\n"):
            promised.setdefault(job, 0)
        case _:
            pass


def write_and_die(directory: Path, after: int, promised: dict[str, int]) -> None:
    """Run a writer, and kill it after so many acknowledgements."""
    command = [sys.executable, str(WRITER), str(directory), str(RUNS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(after):
            note(writer.stdout.readline(), promised)
        writer.kill()
        for line in writer.stdout:
            note(line, promised)


def test_nothing_acknowledged_is_lost_by_kill_9_and_every_run_continues(tmp_path: Path) -> None:
    """Killed at random moments, also while it starts, and continued by the next process at once, many times."""
    promised: dict[str, int] = {}
    for longest in (1, RUNS, 800, 0, 800, 800):
        write_and_die(tmp_path, random.randint(0, longest), promised)  # noqa: S311 — any moment will do
        found = jobs_in(tmp_path)
        assert promised.keys() <= {job.id for job, _ in found}
        assert len(found) <= RUNS  # submitted under the same keys each time
        for job, events in found:
            assert job.state == "queued"
            assert job.seq == len(events) >= promised.get(job.id, 0)
            wanted = [(seq, b'{"seq":%d}' % seq) for seq in range(1, job.seq + 1)]
            assert [(event.seq, event.data) for event in events] == wanted
    assert promised


def test_a_full_disk_loses_only_what_did_not_fit_and_work_continues_with_room(tmp_path: Path) -> None:
    """A run that ended meanwhile is known as ended, and is not repeated."""
    command = [sys.executable, str(FULL_DISK), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert ran.returncode == 0, ran.stderr
    reason, acknowledged, meanwhile, last = ran.stdout.splitlines()
    assert f"The journal {tmp_path}" in reason
    assert "Acknowledged data is safe" in reason
    assert meanwhile == f"refused {acknowledged}"
    assert int(last) == int(acknowledged) + 1
    ((_, later), (job, events)) = jobs_in(tmp_path)
    assert later == []
    assert (job.state, job.attempts) == ("done", 1)
    assert [len(event.data) for event in events] == [5000] * int(acknowledged) + [len(b"room again")]
