"""If these fail, a submitted job runs twice, out of order, or is forgotten."""

from __future__ import annotations

import anyio
import pytest

from newel.jobs.engine import Engine, EngineError, JobCancelled, JobOutcome, Lease, LeaseLost
from newel.jobs.queries import MAX_READ_BYTES

pytestmark = pytest.mark.anyio

DONE = JobOutcome(state="done")


async def running(engine: Engine, queue: str = "q") -> Lease:
    await engine.submit("turn", b"{}", queue=queue)
    (lease,) = await engine.claim(1, "w", queues=[queue])
    return lease


async def data(engine: Engine, job: str, after: int = 0) -> list[bytes]:
    return [event.data for event in await engine.read(job, after)]


async def state(engine: Engine, job: str) -> tuple[str, str]:
    found = await engine.get(job)
    assert found is not None
    return found.state, found.reason


async def test_a_job_is_known_from_its_submission_to_its_end(engine: Engine) -> None:
    job = await engine.submit("turn", b'{"text":"hi"}', queue="tab")
    assert await state(engine, job) == ("queued", "")
    (lease,) = await engine.claim(5, "w1")
    assert (lease.job, lease.kind, lease.queue, lease.params) == (job, "turn", "tab", b'{"text":"hi"}')
    assert (lease.attempt, lease.seq, lease.worker) == (1, 0, "w1")
    assert await engine.append(lease, [b"1", b"2"], expect_seq=0) == 2
    assert await engine.append(lease, [b"3"], expect_seq=2) == 3
    await engine.finish(lease, JobOutcome(state="failed", reason="no key \ud800"))
    found = await engine.get(job)
    assert found is not None
    assert (found.state, found.reason, found.seq, found.attempts) == ("failed", "no key ?", 3, 1)
    assert found.created <= found.updated
    assert [(event.seq, event.data) for event in await engine.read(job, 1)] == [(2, b"2"), (3, b"3")]


async def test_submitting_twice_under_one_key_is_one_job(engine: Engine) -> None:
    """A page that lost the reply sends its message again: it must not be answered twice."""
    first = await engine.submit("turn", b"1", queue="tab", key="tab/m1")
    assert await engine.submit("turn", b"2", queue="tab", key="tab/m1") == first
    (lease,) = await engine.claim(5, "w")
    assert lease.params == b"1"
    await engine.finish(lease, DONE)
    assert await engine.submit("turn", b"3", queue="tab", key="tab/m1") == first
    assert await state(engine, first) == ("done", "")
    assert await engine.claim(5, "w") == []
    assert await engine.submit("turn", b"4", queue="tab", key="tab/m2") != first


async def test_each_queue_runs_one_job_at_a_time_oldest_first(
    engine: Engine,
) -> None:
    jobs = [await engine.submit("turn", b"%d" % n, queue="ab"[n % 2]) for n in range(6)]
    order: list[str] = []
    while leases := await engine.claim(10, "w"):
        assert sorted(lease.queue for lease in leases) == ["a", "b"]
        assert await engine.claim(10, "w") == []
        order += [lease.job for lease in leases]
        for lease in leases:
            await engine.finish(lease, DONE)
    assert order == jobs


async def test_claims_are_limited_to_the_free_slots_and_the_given_queues(
    engine: Engine,
) -> None:
    for queue in "abcd":
        await engine.submit("turn", b"{}", queue=queue)
    assert [lease.queue for lease in await engine.claim(9, "w", queues=["c", "x"])] == ["c"]
    assert [lease.queue for lease in await engine.claim(2, "w")] == ["a", "b"]
    assert await engine.claim(0, "w") == []
    assert await engine.claim(9, "w", queues=[]) == []
    assert [lease.queue for lease in await engine.claim(9, "w")] == ["d"]


async def test_a_journal_has_one_writer(engine: Engine) -> None:
    lease = await running(engine)
    await engine.append(lease, [b"1"], expect_seq=0)
    with pytest.raises(LeaseLost, match="has 1 events instead of 0"):
        await engine.append(lease, [b"other"], expect_seq=0)
    await engine.finish(lease, JobOutcome(state="retry"))
    (again,) = await engine.claim(1, "w")
    assert (again.attempt, again.seq) == (2, 1)
    with pytest.raises(LeaseLost, match="taken over"):
        await engine.append(lease, [b"other"], expect_seq=1)
    with pytest.raises(LeaseLost):
        await engine.finish(lease, DONE)
    assert await engine.renew([lease]) == {lease.job}
    assert await engine.renew([again]) == set()
    assert await data(engine, lease.job) == [b"1"]


async def test_a_refused_change_does_not_affect_others_in_its_transaction(engine: Engine) -> None:
    leases = [await running(engine, f"q{n}") for n in range(20)]
    outcomes: dict[int, object] = {}

    async def write(n: int) -> None:
        try:
            outcomes[n] = await engine.append(leases[n], [b"x"], expect_seq=n % 2)
        except LeaseLost:
            outcomes[n] = LeaseLost

    async with anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(write, n)
    assert outcomes == {n: LeaseLost if n % 2 else 1 for n in range(20)}
    assert [await data(engine, lease.job) for lease in leases] == [[] if n % 2 else [b"x"] for n in range(20)]


async def test_a_change_that_cannot_be_written_fails_alone(engine: Engine) -> None:
    """A value that no database can store must not end the others of the same transaction, or the writer."""
    lease = await running(engine)
    failures: list[Exception] = []

    async def bad() -> None:
        try:
            await engine.submit("turn", b"{}", queue="\ud800")
        except UnicodeEncodeError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bad)
        tasks.start_soon(lambda: engine.append(lease, [b"1"], expect_seq=0))
    assert len(failures) == 1
    assert await data(engine, lease.job) == [b"1"]


async def test_cancelling_ends_queued_jobs_at_once_and_notifies_running_ones(engine: Engine) -> None:
    lease = await running(engine)
    queued = await engine.submit("turn", b"{}", queue="q")
    assert await engine.cancel(queued, "not needed")
    assert await state(engine, queued) == ("cancelled", "not needed")
    assert not await engine.cancel(queued, "again")
    assert not await engine.cancel("unknown", "?")

    assert await engine.cancel(lease.job, "The tab was closed.")
    assert await engine.cancel(lease.job, "another reason")
    assert await state(engine, lease.job) == ("running", "")
    assert await engine.renew([lease]) == {lease.job}
    with pytest.raises(JobCancelled, match=r"^The tab was closed\.$"):
        await engine.append(lease, [b"1"], expect_seq=0)
    await engine.finish(lease, DONE)
    assert await state(engine, lease.job) == ("cancelled", "The tab was closed.")
    assert await data(engine, lease.job) == []


async def test_a_job_retried_later_keeps_its_place_and_runs_when_due(
    engine: Engine,
) -> None:
    lease = await running(engine)
    await engine.submit("turn", b"younger", queue="q")
    await engine.finish(lease, JobOutcome(state="retry", reason="overloaded", delay=3600))
    assert await state(engine, lease.job) == ("queued", "overloaded")
    assert await engine.claim(1, "w") == []

    soon = await running(engine, "another")
    await engine.finish(soon, JobOutcome(state="retry", delay=0.05))
    (again,) = await engine.claim(9, "w", wait=20)
    assert (again.job, again.attempt) == (soon.job, 2)


async def test_a_waiting_job_blocks_nothing_and_continues_when_resubmitted(
    engine: Engine,
) -> None:
    job = await engine.submit("turn", b"{}", queue="q", key="k")
    (lease,) = await engine.claim(1, "w")
    await engine.finish(lease, JobOutcome(state="waiting", reason="a question"))
    assert await state(engine, job) == ("waiting", "a question")
    await running(engine)
    assert await engine.submit("turn", b"{}", queue="other", key="k") == job
    assert await state(engine, job) == ("queued", "")


async def test_an_asking_job_blocks_its_queue_until_it_ends(
    engine: Engine,
) -> None:
    job = await engine.submit("turn", b"{}", queue="q", key="k")
    later = await engine.submit("turn", b"{}", queue="q")
    (lease,) = await engine.claim(5, "w")
    await engine.finish(lease, JobOutcome(state="asking", reason="a question"))
    assert await engine.claim(5, "w") == []
    elsewhere = await running(engine, queue="other")
    assert await engine.submit("turn", b"{}", queue="q", key="k") == job
    (lease,) = await engine.claim(5, "w")
    assert lease.job == job
    await engine.finish(lease, JobOutcome(state="done"))
    assert [each.job for each in await engine.claim(5, "w")] == [later]
    assert elsewhere.job not in {job, later}


async def test_the_job_behind_an_asking_one_runs_as_soon_as_that_is_cancelled(engine: Engine) -> None:
    job = await engine.submit("turn", b"{}", queue="q")
    later = await engine.submit("turn", b"{}", queue="q")
    (lease,) = await engine.claim(5, "w")
    await engine.finish(lease, JobOutcome(state="asking"))
    claimed: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def claim() -> None:
            claimed.extend(each.job for each in await engine.claim(5, "w", wait=20))

        tasks.start_soon(claim)
        await anyio.wait_all_tasks_blocked()
        assert await engine.cancel(job, "not wanted")
    assert claimed == [later]


async def test_waiting_for_a_release_returns_at_once_or_after_a_timeout(
    engine: Engine,
) -> None:
    lease = await running(engine)
    assert not await engine.wait_for_release(lease.job, wait=0.05)
    heard: list[bool] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                heard.append(await engine.wait_for_release(lease.job, wait=20))

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await engine.append(lease, [b"1"], expect_seq=0)
            await anyio.wait_all_tasks_blocked()
            assert heard == []
            await engine.finish(lease, JobOutcome(state="waiting"))
    assert heard == [True]
    assert await engine.wait_for_release(lease.job, wait=0)
    assert await engine.wait_for_release("none", wait=0)


async def test_a_waiting_reader_gets_the_next_event_at_once(
    engine: Engine,
) -> None:
    lease = await running(engine)
    told, heard = anyio.create_memory_object_stream[list[bytes]](10)

    async def read() -> None:
        after = 0
        while events := await engine.read(lease.job, after, wait=20):
            told.send_nowait([event.data for event in events])
            after = events[-1].seq

    with told, heard:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await engine.append(lease, [b"1"], expect_seq=0)
            assert [await heard.receive() for _ in range(3)] == [[b"1"]] * 3
            await engine.append(lease, [b"2", b"3"], expect_seq=1)
            assert [await heard.receive() for _ in range(3)] == [[b"2", b"3"]] * 3
            await engine.finish(lease, DONE)
        assert heard.statistics().current_buffer_used == 0


async def test_reading_does_not_wait_if_nothing_can_come(engine: Engine) -> None:
    assert await engine.read("unknown", wait=20) == []
    lease = await running(engine)
    assert await engine.read(lease.job, wait=0.01) == []
    await engine.finish(lease, DONE)
    assert await engine.read(lease.job, wait=20) == []
    queued = await engine.submit("turn", b"{}", queue="q")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: engine.read(queued, wait=20))
        await anyio.wait_all_tasks_blocked()
        await engine.cancel(queued, "")


async def test_a_waiting_worker_gets_a_job_at_once(engine: Engine) -> None:
    claimed: list[str] = []
    jobs: set[str] = set()

    async def claim() -> None:
        claimed.extend(lease.job for lease in await engine.claim(1, "w", wait=20))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(claim)
        tasks.start_soon(claim)
        await anyio.wait_all_tasks_blocked()
        jobs |= {await engine.submit("turn", b"{}", queue=queue) for queue in "ab"}
    assert set(claimed) == jobs


async def test_a_page_is_limited_by_count_and_size(engine: Engine) -> None:
    """A reader of a run with large images must not fill the memory."""
    lease = await running(engine)
    big = b"x" * (MAX_READ_BYTES // 2)
    await engine.append(lease, [big] * 5, expect_seq=0)
    assert len(await engine.read(lease.job)) == 3
    assert len(await engine.read(lease.job, 3)) == 2
    assert len(await engine.read(lease.job, limit=1)) == 1


async def test_jobs_are_found_by_their_fields(engine: Engine) -> None:
    a = await engine.submit("turn", b"{}", queue="a")
    b = await engine.submit("contract", b"{}", queue="b")
    c = await engine.submit("turn", b"{}", queue="a")
    await engine.cancel(a, "")

    async def ids(**wanted: object) -> list[str]:
        return [job.id for job in await engine.find(**wanted)]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert await ids() == [c, b, a]
    assert await ids(limit=2) == [c, b]
    assert await ids(kind="turn") == [c, a]
    assert await ids(queue="b") == [b]
    assert await ids(queue="a", states=["queued", "running"]) == [c]
    assert await ids(states=[]) == []


async def test_a_cancelled_caller_leaves_the_journal_consistent(engine: Engine) -> None:
    lease = await running(engine)
    for n in range(1, 30):
        with anyio.move_on_after(0) as scope:
            await engine.append(lease, [b"%d" % n], expect_seq=n - 1)
        if scope.cancelled_caught:  # nothing was started
            await engine.append(lease, [b"%d" % n], expect_seq=n - 1)
    assert await data(engine, lease.job) == [b"%d" % n for n in range(1, 30)]


async def test_a_closed_engine_says_so_and_wakes_waiting_callers(engine: Engine) -> None:
    lease = await running(engine)
    woken: list[str] = []

    async def wait() -> None:
        try:
            await engine.read(lease.job, wait=20)
        except EngineError as error:
            woken.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await engine.aclose()
        await engine.aclose()
    assert len(woken) == 1
    assert "was closed" in woken[0]
    with pytest.raises(EngineError, match="was closed"):
        await engine.submit("turn", b"{}", queue="q")
