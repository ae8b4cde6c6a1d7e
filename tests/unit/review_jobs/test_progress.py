"""If these fail, a review claims to be finished while hunks are undecided, or loses count after a save or a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from newel.review_jobs.requests import Decision
from newel.review_jobs.responses import PendingFiles
from tests.review_bench import ReviewBench, hunks, open_bench, proposes, replace, says

pytestmark = pytest.mark.anyio

TEXT = "one\ntwo\nthree\n"
EDITS = (replace("a.md", 1, "eins\n"), replace("a.md", 3, "drei\n"), replace("b.md", 1, "eins\n"))


async def decide(at: ReviewBench, path: str, action: Literal["accept", "reject"], *places: int) -> None:
    file = await at.desk.files.state(path)
    ids = [file.hunks[place].hunk_id for place in places]
    await at.desk.decisions.decide(Decision(file_path=path, rev=file.rev, action=action, hunk_ids=ids))


async def progress(at: ReviewBench) -> tuple[int, int]:
    pending = await at.desk.overview.pending()
    return pending.decided, pending.total


async def test_progress_counts_accepted_rejected_and_saved_hunks(tmp_path: Path) -> None:
    async with open_bench(tmp_path, proposes(*EDITS, replace("c.md", 2, "zwei\n")), says("Done.")) as at:
        at.write(a=TEXT, b=TEXT, c=TEXT)
        await at.start()
        assert await progress(at) == (0, 4)
        await decide(at, "a.md", "accept", 0)
        await decide(at, "b.md", "reject", 0)
        pending = await at.desk.overview.pending()
        assert (pending.decided, pending.total) == (2, 4)
        assert [file.file_path for file in pending.files] == ["a.md", "c.md"]
        (run,) = pending.runs
        assert (run.pending, run.accepted, run.rejected, run.applied) == (2, 1, 1, 0)
        await decide(at, "a.md", "reject", 1)
        await at.desk.decisions.save(["a.md"])
        (file,) = (await at.desk.overview.pending()).files
        assert file.file_path == "c.md"
        assert await progress(at) == (3, 4)
        await decide(at, "c.md", "accept", 0)
        pending = await at.desk.overview.pending()
        assert (pending.decided, pending.total) == (4, 4)
        await at.desk.decisions.save(["c.md"])
        assert await at.desk.overview.pending() == PendingFiles(files=(), runs=())


async def test_a_file_names_its_decided_hunks(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(9))
    edits = tuple(replace("a.md", line, "neu\n") for line in (1, 3, 5, 7))
    async with open_bench(tmp_path, proposes(*edits), says("Done.")) as at:
        at.write(a=text)
        await at.start()
        await decide(at, "a.md", "accept", 0)
        await at.desk.decisions.save(["a.md"])
        await decide(at, "a.md", "reject", 0)
        await decide(at, "a.md", "accept", 1)
        (file,) = (await at.desk.overview.pending()).files
        assert (file.pending, file.accepted, file.rejected, file.applied) == (1, 1, 1, 1)


async def test_progress_survives_a_restart(tmp_path: Path) -> None:
    bench = open_bench(tmp_path, proposes(*EDITS), says("Done."))
    async with bench as at:
        at.write(a=TEXT, b=TEXT)
        await at.start()
        await decide(at, "a.md", "accept", 0, 1)
        await at.desk.decisions.save(["a.md"])
        before = await at.desk.overview.pending()
    async with at.open():
        assert await at.desk.overview.pending() == before
        assert (before.decided, before.total) == (2, 3)


async def test_an_earlier_review_does_not_count(tmp_path: Path) -> None:
    script = (proposes(*EDITS), says("Done."), proposes(replace("c.md", 1, "uno\n")), says("Done."))
    async with open_bench(tmp_path, *script) as at:
        at.write(a=TEXT, b=TEXT, c=TEXT)
        view = await at.start()
        await at.desk.jobs.apply(view.session_id, view.id, [hunks(view)["a.md/0"].hunk_id])
        await at.start("Another")
        assert await progress(at) == (0, 1)


async def test_a_hunk_of_two_runs_counts_once(tmp_path: Path) -> None:
    script = (
        proposes(replace("a.md", 1, "eins\nzwei\n")),
        says("Done."),
        proposes(replace("a.md", 2, "deux\n"), replace("b.md", 1, "un\n")),
        says("Done."),
    )
    async with open_bench(tmp_path, *script) as at:
        at.write(a=TEXT, b=TEXT)
        await at.start()
        await at.start("Another")
        assert len((await at.desk.overview.pending()).runs) == 2
        await decide(at, "a.md", "accept", 0)
        assert await progress(at) == (1, 2)
