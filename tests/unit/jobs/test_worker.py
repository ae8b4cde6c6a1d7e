"""If these fail, a job runs twice, or one job's error affects another."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import ConfigError
from newel.jobs.engine import Engine, JobOutcome, Lease
from newel.jobs.sqlite import open_engine
from newel.jobs.worker import GIVEN_UP, MAX_ATTEMPTS, Handler, Worker

OpenEngine = Callable[[], AbstractAsyncContextManager[Engine]]

pytestmark = pytest.mark.anyio

DONE = JobOutcome(state="done")


@asynccontextmanager
async def working(
    engine: Engine, slots: int = 10, renew_every: float = 0.05, **handlers: Handler
) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(Worker(engine, handlers, slots=slots, renew_every=renew_every).run)
        yield
        tasks.cancel_scope.cancel()


async def ended(engine: Engine, job: str) -> tuple[str, str]:
    """The final state of a job."""
    while not (await engine.read(job, 10_000, wait=20)):
        found = await engine.get(job)
        assert found is not None
        if found.state in {"done", "failed", "cancelled", "waiting"}:
            return found.state, found.reason
    raise AssertionError


async def test_every_job_runs_once_and_no_more_than_slots_at_a_time(
    engine: Engine,
) -> None:
    done: list[int] = []
    busy, most = 0, 0

    async def handle(lease: Lease) -> JobOutcome:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        number = json.loads(lease.params)
        await engine.append(lease, [b"{}"], expect_seq=lease.seq)
        done.append(number)
        busy -= 1
        return DONE

    jobs = [await engine.submit("turn", b"%d" % n, queue=f"q{n % 7}") for n in range(40)]
    async with working(engine, slots=3, turn=handle):
        jobs += [await engine.submit("turn", b"%d" % n, queue=f"q{n % 7}") for n in range(40, 60)]
        assert [await ended(engine, job) for job in jobs] == [("done", "")] * 60
    assert sorted(done) == list(range(60))
    assert most == 3


async def test_a_worker_says_that_a_job_has_ended_when_the_engine_knows_it(engine: Engine) -> None:
    """Then a machine may remove the job's folder. Before, it is one of a job that goes on."""
    job = await engine.submit("turn", b"", queue="q")
    told = anyio.Event()

    async def handle(_: Lease) -> JobOutcome:
        return DONE

    worker = Worker(engine, {"turn": handle}, slots=1, ended=told.set)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        await told.wait()
        found = await engine.get(job)
        assert (worker.running, found and found.state) == ([], "done")
        tasks.cancel_scope.cancel()


async def test_a_worker_that_must_wait_claims_nothing_and_goes_on_by_itself(engine: Engine) -> None:
    """Otherwise a machine with a full disk takes the jobs of others, and fails them."""
    full = True
    looked_again = anyio.Event()
    looks = iter([lambda: None, looked_again.set])

    def must_wait() -> bool:
        next(looks, lambda: None)()
        return full

    async def handle(_: Lease) -> JobOutcome:
        return DONE

    worker = Worker(engine, {"turn": handle}, slots=1, claim_wait=0.01, must_wait=must_wait)
    job = await engine.submit("turn", b"{}", queue="q")
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.run)
        await looked_again.wait()
        waiting = await engine.get(job)
        assert waiting is not None
        assert (waiting.state, waiting.attempts) == ("queued", 0)
        full = False
        assert await ended(engine, job) == ("done", "")
        tasks.cancel_scope.cancel()


async def test_a_failing_handler_ends_its_own_job_with_the_reason(engine: Engine) -> None:
    async def fail(text: str) -> None:
        raise ConfigError(text)

    async def handle(lease: Lease) -> JobOutcome:
        match lease.params:
            case b"known":
                await fail("No model is chosen. Use --model.")
            case b"in a group":
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(fail, "Within.")
            case b"unknown":
                raise KeyError("sk-secret")
            case _:
                pass
        return JobOutcome(state="done", reason="well")

    async with working(engine, turn=handle):
        jobs = {
            text: await engine.submit(kind, text.encode(), queue=text)
            for text, kind in {
                "known": "turn",
                "in a group": "turn",
                "unknown": "turn",
                "fine": "turn",
                "foreign": "dance",
            }.items()
        }
        outcomes = {text: await ended(engine, job) for text, job in jobs.items()}
    crash = outcomes.pop("unknown")
    assert outcomes == {
        "known": ("failed", "No model is chosen. Use --model."),
        "in a group": ("failed", "Within."),
        "fine": ("done", "well"),
        "foreign": ("failed", "No handler is registered for job kind 'dance'."),
    }
    assert crash[0] == "failed"
    assert crash[1].startswith("internal error: KeyError in test_worker.py, line ")
    assert "secret" not in crash[1]


@pytest.mark.parametrize("renew_every", [0.05, 3600])
async def test_a_cancelled_job_is_stopped_during_its_work(engine: Engine, renew_every: float) -> None:
    """And at once, not at the worker's next renewal of its leases: the user waits for it."""
    begun = anyio.Event()
    stopped: list[str] = []

    async def handle(lease: Lease) -> JobOutcome:
        begun.set()
        try:
            await anyio.sleep(60)
        finally:
            stopped.append(lease.job)
        return DONE

    async with working(engine, renew_every=renew_every, turn=handle):
        job = await engine.submit("turn", b"{}", queue="q")
        await begun.wait()
        await engine.cancel(job, "The tab was closed.")
        assert await ended(engine, job) == ("cancelled", "The tab was closed.")
    assert stopped == [job]


async def test_a_cancelled_worker_leaves_its_jobs_to_the_next_owner(reopen: OpenEngine) -> None:
    begun = anyio.Event()

    async def hang(_: Lease) -> JobOutcome:
        begun.set()
        await anyio.sleep(60)
        return DONE

    async def finish(lease: Lease) -> JobOutcome:
        return JobOutcome(state="done", reason=f"attempt {lease.attempt}")

    async with reopen() as engine, working(engine, turn=hang):
        job = await engine.submit("turn", b"{}", queue="q")
        await begun.wait()
    async with reopen() as engine, working(engine, turn=finish):
        assert await ended(engine, job) == ("done", "attempt 1")


async def test_a_job_that_finished_as_its_worker_was_cancelled_is_not_repeated(
    reopen: OpenEngine,
) -> None:
    scope = anyio.CancelScope()

    async def handle(_: Lease) -> JobOutcome:
        scope.cancel()
        return DONE

    async with reopen() as engine:
        job = await engine.submit("turn", b"{}", queue="q")
        with scope:
            await Worker(engine, {"turn": handle}, slots=1).run()
        found = await engine.get(job)
        assert found is not None
        assert found.state == "done"


async def test_a_job_that_kills_its_server_each_time_is_given_up(tmp_path: Path) -> None:
    """Otherwise the server cannot be started again."""
    live, killed = tmp_path / "live", tmp_path / "killed"
    handled: list[int] = []

    async def handle(lease: Lease) -> JobOutcome:
        handled.append(lease.attempt)
        shutil.copytree(live, killed)  # what kill -9 would leave now
        begun.set()
        await anyio.sleep(60)
        return DONE

    async with open_engine(live) as engine:
        job = await engine.submit("turn", b"{}", queue="q")
    for _ in range(MAX_ATTEMPTS):
        begun = anyio.Event()
        async with open_engine(live) as engine, working(engine, turn=handle):
            await begun.wait()
        shutil.rmtree(live)
        killed.rename(live)
    async with open_engine(live) as engine, working(engine, turn=handle):
        assert await ended(engine, job) == ("failed", GIVEN_UP)
    assert handled == list(range(1, MAX_ATTEMPTS + 1))
