"""If these fail, sessions in use are forgotten, or the journal grows without limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.jobs.engine import JobOutcome, LeaseLost
from newel.jobs.sqlite import SqliteEngine, open_engine
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import NoSuchJob, NoSuchSession, TooMany
from newel.review_jobs.requests import HunkName, RunRequest
from tests.review_bench import ReviewBench, open_bench, proposes, replace, says
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio

TEXT = "one\ntwo\n"


async def test_only_ended_jobs_make_room_for_new_ones(tmp_path: Path) -> None:
    script = (proposes(replace("a.md", 1, "eins\n")), says("Done."), *(says(f"{n}") for n in range(4)))
    async with open_bench(tmp_path, *script, limits=ReviewLimits(max_jobs_per_session=2)) as at:
        at.write(a=TEXT)
        waiting = await at.start()
        ended = await at.start("1", waiting.session_id)
        last = await at.start("2", waiting.session_id)
        with pytest.raises(NoSuchJob):
            await at.desk.jobs.get(ended.id)
        assert (await at.desk.jobs.get(waiting.id)).status == "awaiting_review"
        assert (await at.desk.jobs.get(last.id)).summary == "1"


async def test_a_running_job_is_completed_although_its_session_is_purged(tmp_path: Path) -> None:
    """Each job displaces the one before it, just while that one reads its chat."""
    script = (says(f"{n}") for n in range(40))
    async with open_bench(tmp_path, *script, limits=ReviewLimits(max_jobs_per_session=1)) as at:
        at.write(a=TEXT)
        session = (await at.desk.sessions.create()).session_id
        done = [await at.start(f"{n}", session) for n in range(40)]
        assert [(view.status, view.summary) for view in done] == [("completed", f"{n}") for n in range(40)]


async def test_a_session_with_only_open_reviews_takes_no_more_jobs(tmp_path: Path) -> None:
    async with open_bench(
        tmp_path,
        proposes(replace("a.md", 1, "eins\n")),
        says("Done."),
        limits=ReviewLimits(max_jobs_per_session=1),
    ) as at:
        at.write(a=TEXT)
        view = await at.start()
        with pytest.raises(TooMany):
            await at.desk.jobs.run(RunRequest(session_id=view.session_id, instruction="More"))
        assert (await at.desk.jobs.get(view.id)).status == "awaiting_review"


@pytest.mark.parametrize("how", ["rerun", "revise"])
async def test_a_hunk_in_conflict_stays_if_its_session_takes_no_more_jobs(tmp_path: Path, how: str) -> None:
    """It is rejected for the new job, which there is not."""
    script = (proposes(replace("a.md", 1, "eins\n")), says("Done."))
    async with open_bench(tmp_path, *script, limits=ReviewLimits(max_jobs_per_session=1)) as at:
        at.write(a=TEXT)
        view = await at.start()
        at.write(a="1\ntwo\n")
        (before,) = (await at.desk.files.state("a.md")).hunks
        revise = HunkName(file_path="a.md", hunk_id=before.hunk_id)
        request = RunRequest(session_id=view.session_id, instruction="Again", revise=revise)
        with pytest.raises(TooMany):
            await (at.desk.jobs.rerun(view.id) if how == "rerun" else at.desk.jobs.run(request))
        (after,) = (await at.desk.files.state("a.md")).hunks
        assert (after.conflict, after.state) == (True, before.state)


async def test_active_sessions_are_kept_and_archived_ones_make_room(tmp_path: Path) -> None:
    async with open_bench(tmp_path, says("1"), limits=ReviewLimits(max_sessions=2)) as at:
        first = await at.start()
        second = await at.desk.sessions.create()
        with pytest.raises(TooMany):
            await at.desk.sessions.create()
        await at.desk.sessions.archive(second.session_id)
        await at.desk.sessions.create()
        with pytest.raises(NoSuchSession):
            await at.desk.sessions.get(second.session_id)
        assert (await at.desk.sessions.get(first.session_id)).last_job_id == first.id


async def test_old_ended_jobs_are_purged_at_the_next_start_and_open_reviews_are_not(
    tmp_path: Path,
) -> None:
    script = ScriptedProvider([says("1"), proposes(replace("a.md", 1, "eins\n")), says("Done.")])
    at = ReviewBench(tmp_path, script, ReviewLimits())
    at.write(a=TEXT)
    async with at.open():
        ended = await at.start()
        waiting = await at.start("2", ended.session_id)
    later = ReviewBench(tmp_path, script, ReviewLimits(completed_ttl_hours=0.0))
    async with later.open():
        with pytest.raises(NoSuchJob):
            await later.desk.jobs.get(ended.id)
        assert (await later.desk.jobs.get(waiting.id)).status == "awaiting_review"
        await later.desk.sessions.archive(ended.session_id)
    async with later.open():
        await later.desk.jobs.apply(ended.session_id, waiting.id, [])
    async with later.open():
        with pytest.raises(NoSuchSession):
            await later.desk.sessions.get(ended.session_id)


async def test_a_job_with_a_full_journal_ends_and_says_so(tmp_path: Path) -> None:
    script = [says("…")] * 3
    async with open_bench(tmp_path, *script, limits=ReviewLimits(max_events_per_job=2)) as at:
        view = await at.start()
        assert view.status == "failed"
        assert "2 entries" in str(view.error)


# -- the engine ---------------------------------------------------------------------------------------


async def waiting(engine: SqliteEngine) -> str:
    job = await engine.submit("review", b"{}", queue="q", key="k")
    (lease,) = await engine.claim(1, "w")
    await engine.append(lease, [b"1"], expect_seq=0)
    await engine.finish(lease, JobOutcome(state="waiting", reason="for you"))
    return job


async def test_decisions_during_a_pause_are_in_the_journal_of_the_job() -> None:
    async with open_engine(None) as engine:
        job = await waiting(engine)
        assert await engine.annotate(job, [b"2", b"3"], expect_seq=1) == 3
        with pytest.raises(LeaseLost):
            await engine.annotate(job, [b"4"], expect_seq=1)
        await engine.submit("review", b"{}", queue="q", key="k")
        with pytest.raises(LeaseLost):
            await engine.annotate(job, [b"4"], expect_seq=3)
        (lease,) = await engine.claim(1, "w")
        assert (lease.seq, lease.attempt) == (3, 1)
        with pytest.raises(LeaseLost):
            await engine.annotate(job, [b"4"], expect_seq=3)
        assert [entry.data for entry in await engine.read(job)] == [b"1", b"2", b"3"]


async def test_a_decision_and_the_end_of_its_job_are_stored_together() -> None:
    async with open_engine(None) as engine:
        job = await waiting(engine)
        done = JobOutcome(state="done", reason="applied")
        with pytest.raises(LeaseLost):
            await engine.annotate(job, [b"2"], expect_seq=7, outcome=done)
        assert (await engine.find(states=["waiting"]))[0].id == job
        await engine.annotate(job, [b"2"], expect_seq=1, outcome=done)
        (ended,) = await engine.find(states=["done"])
        assert (ended.id, ended.reason, ended.seq) == (job, "applied", 2)


async def test_a_purged_job_is_deleted_with_its_journal_and_its_key() -> None:
    async with open_engine(None) as engine:
        job = await waiting(engine)
        assert not await engine.purge(job)
        await engine.cancel(job, "no more")
        assert await engine.purge(job)
        assert not await engine.purge(job)
        assert await engine.get(job) is None
        assert await engine.read(job) == []
        other = await engine.submit("review", b"{}", queue="q", key="k")
        assert other != job
        assert await engine.read(other) == []
