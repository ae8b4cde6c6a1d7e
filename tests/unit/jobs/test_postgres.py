"""If these fail, a job of a fleet runs on the wrong machine, or an operator does not learn why a database is of no use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from importlib.resources import files

import anyio
import pytest
from absurdctl import BUNDLED_SCHEMA_SQL  # pyright: ignore[reportMissingTypeStubs]  # it has no types

from newel.jobs.engine import EngineError, JobOutcome, Lease, LeaseLost, is_job_id
from newel.jobs.placement import LiveData, WorkerIdentity
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from newel.jobs.postgres.schema import ABSURD, MIGRATIONS
from newel.jobs.worker import Worker
from tests.postgres import PostgresServer
from tests.tcp_relay import open_relay

pytestmark = pytest.mark.anyio

DONE = JobOutcome(state="done")
ROLES = files("newel.jobs.postgres").joinpath("create_roles.sql").read_text()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url(postgres.create_database())


@pytest.fixture
async def control(anyio_backend: str, url: str) -> AsyncGenerator[PostgresEngine]:
    async with open_postgres_engine(url) as engine:
        yield engine


def identity(name: str, *labels: str, machine: str = "", slots: int = 5) -> WorkerIdentity:
    return WorkerIdentity(name=name, machine=machine or name, labels=[*labels], slots=slots, version="1")


async def claimed(engine: PostgresEngine, wait: float = 0.0) -> list[str]:
    return [lease.job for lease in await engine.claim(9, "w", wait=wait)]


async def refusal(url: str) -> str:
    with pytest.raises(EngineError) as caught:
        async with open_postgres_engine(url):
            pass
    return str(caught.value)


async def test_a_worker_claims_the_jobs_whose_labels_it_has(control: PostgresEngine, url: str) -> None:
    plain = await control.submit("turn", b"{}", queue="a")
    gpu = await control.submit("turn", b"{}", queue="b", labels=["gpu", "gpu"])
    both = await control.submit("turn", b"{}", queue="c", labels=["linux", "gpu"])
    assert await control.submit("turn", b"{}", queue="d", labels=["gpu", "linux"], key="k")
    assert await claimed(control) == [plain]
    async with (
        open_postgres_engine(url, worker=identity("g", "gpu")) as with_gpu,
        open_postgres_engine(url, worker=identity("all", "windows", "linux", "gpu")) as with_all,
    ):
        assert await claimed(with_gpu) == [gpu]
        assert (await claimed(with_all))[0] == both


async def test_an_operator_sees_where_the_jobs_of_a_fleet_are(control: PostgresEngine, url: str) -> None:
    first = await control.submit("turn", b"{}", queue="a", key="f1/1", labels=["gpu"])
    second = await control.submit("turn", b"{}", queue="b", key="f1/2", labels=["gpu"])
    await control.submit("turn", b"{}", queue="c", key="f2/1")
    async with open_postgres_engine(url, worker=identity("w1", "gpu", machine="m1")) as engine:
        await engine.claim(1, "w1")
        placements = await control.fleets.jobs("f1")
        assert [(each.job.id, each.job.state, each.worker, each.machine) for each in placements] == [
            (first, "running", "w1", "m1"),
            (second, "queued", "", ""),
        ]
        assert placements[0].labels == ["gpu"]
        assert len(await control.fleets.jobs()) == 3
        (worker,) = await control.workers()
        assert (worker.name, worker.machine, worker.labels, worker.slots) == ("w1", "m1", ["gpu"], 5)
        assert (worker.running, worker.draining, worker.alive) == (1, False, True)
        assert not await engine.is_draining()
        assert await control.drain("w1")
        assert await engine.is_draining()
        assert not await control.drain("unknown")
    (worker,) = await control.workers()
    assert not worker.alive


@pytest.mark.slow  # seconds of waiting
async def test_a_job_is_offered_first_to_the_machine_that_has_its_folder(
    control: PostgresEngine, url: str
) -> None:
    async with (
        open_postgres_engine(url, worker=identity("w1", machine="m1")) as had_it,
        open_postgres_engine(url, worker=identity("w2", machine="m2")) as other,
    ):
        job = await control.submit("turn", b"{}", queue="a")
        (lease,) = await had_it.claim(1, "w1")
        await had_it.finish(lease, JobOutcome(state="retry"))
        assert await claimed(other) == []
        (lease,) = await had_it.claim(1, "w1")
        assert lease.job == job
        await had_it.finish(lease, JobOutcome(state="retry"))
        with anyio.fail_after(8):
            assert await claimed(other, wait=8) == [job]


async def test_a_job_of_a_machine_without_a_living_worker_waits_for_none(
    control: PostgresEngine, url: str
) -> None:
    async with open_postgres_engine(url, worker=identity("w1", machine="m1")) as left:
        job = await control.submit("turn", b"{}", queue="a")
        await left.claim(1, "w1")
    async with open_postgres_engine(url, worker=identity("w2", machine="m2")) as other:
        (lease,) = await other.claim(1, "w2")
    assert (lease.job, lease.attempt) == (job, 1)


async def test_an_older_job_that_is_submitted_again_runs_before_a_younger_one(
    control: PostgresEngine,
) -> None:
    older = await control.submit("turn", b"{}", queue="q", key="k")
    (lease,) = await control.claim(1, "w")
    await control.finish(lease, JobOutcome(state="waiting"))
    younger = await control.submit("turn", b"{}", queue="q")
    await control.submit("turn", b"{}", queue="q", key="k")
    (lease,) = await control.claim(9, "w")
    assert lease.job == older
    await control.finish(lease, DONE)
    assert await claimed(control) == [younger]


async def test_what_another_process_does_is_noticed_at_once(control: PostgresEngine, url: str) -> None:
    async with open_postgres_engine(url) as other:
        leases: list[Lease] = []
        lost: set[str] = set()

        async def claim() -> None:
            leases.extend(await other.claim(1, "w", wait=20))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim)
            await anyio.sleep(0.1)
            await control.submit("turn", b"{}", queue="q")
        job = leases[0].job
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:

                async def renew() -> None:
                    while not lost:
                        lost.update(await other.renew(leases, wait=60))

                tasks.start_soon(renew)
                await anyio.sleep(0.1)
                assert await control.cancel(job, "not needed")
        assert lost == {job}
        await other.finish(leases[0], DONE)
        found = await control.get(job)
        assert found is not None
        assert (found.state, found.reason) == ("cancelled", "not needed")


async def test_a_call_whose_answer_was_lost_is_done_once(postgres: PostgresServer) -> None:
    """The database has done it: to do it again would repeat an event, or end the job as lost."""

    async def prepare() -> None:
        """Do everything once in the connection: the next time, a call is one message."""
        await engine.submit("turn", b"{}", queue="other")
        (lease,) = await engine.claim(1, "w", queues=["other"])
        await engine.append(lease, [b"0"], expect_seq=0)
        await engine.finish(lease, DONE)

    async def lose_answer(call: Awaitable[object]) -> None:
        async def wait() -> None:
            await call

        await prepare()
        async with anyio.create_task_group() as tasks:
            with relay.swallowing(answers_only=True):
                tasks.start_soon(wait)
                await anyio.sleep(0.3)

    with open_relay(postgres.port) as relay, anyio.fail_after(15):
        url = postgres.url(postgres.create_database(), port=relay.port)
        async with open_postgres_engine(url) as engine:
            await lose_answer(engine.submit("turn", b"{}", queue="q"))
            (lease,) = await engine.claim(9, "w")
            await lose_answer(engine.append(lease, [b"1", b"2"], expect_seq=0))
            await lose_answer(engine.finish(lease, DONE))
            (job,) = await engine.find(queue="q")
            assert (job.state, job.seq, job.attempts) == ("done", 2, 1)


@pytest.mark.slow  # seconds of waiting
async def test_a_worker_keeps_the_leases_of_jobs_that_it_hands_over(
    control: PostgresEngine, url: str
) -> None:
    """Their processes take a while to end, and another worker must not begin before."""
    begun, ended = anyio.Event(), anyio.Event()

    async def handle(_: Lease) -> JobOutcome:
        begun.set()
        try:
            await anyio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2.5)
            ended.set()
        return DONE

    async with open_postgres_engine(url, lease=1) as engine, anyio.create_task_group() as tasks:
        worker = Worker(engine, {"turn": handle}, slots=1, renew_every=0.2)
        tasks.start_soon(worker.run)
        await control.submit("turn", b"{}", queue="q")
        await begun.wait()
        worker.hand_over("stopped")
        with anyio.fail_after(10):
            await control.claim(1, "next", wait=10)
        assert ended.is_set()
        tasks.cancel_scope.cancel()


async def test_a_lease_that_was_taken_over_changes_nothing(control: PostgresEngine, url: str) -> None:
    async with open_postgres_engine(url, lease=1) as other:
        await control.submit("turn", b"{}", queue="q")
        (late,) = await other.claim(1, "late")
        with anyio.fail_after(10):
            leases = await control.claim(1, "next", wait=10)
        assert (leases[0].job, leases[0].attempt) == (late.job, 2)
        with pytest.raises(LeaseLost, match="taken over"):
            await other.append(late, [b"{}"], expect_seq=0)
        with pytest.raises(LeaseLost, match="taken over"):
            await other.finish(late, DONE)
        assert await control.append(leases[0], [b"{}"], expect_seq=0) == 1


@pytest.mark.parametrize("call", ["append", "finish", "renew"])
async def test_a_worker_whose_clock_stood_still_is_refused_although_it_takes_its_lease_for_fresh(
    postgres: PostgresServer, control: PostgresEngine, url: str, call: str
) -> None:
    """The clock of a process stands still while its machine is suspended."""
    async with open_postgres_engine(url, lease=3600) as other:
        await control.submit("turn", b"{}", queue="q")
        (late,) = await other.claim(1, "late")
        expire = "update absurd.r_newel set claim_expires_at = clock_timestamp() - interval '1 second'"
        postgres.execute(expire, url.partition("?")[0].rpartition("/")[2])
        (lease,) = await control.claim(1, "next", wait=5)
        assert (lease.job, lease.attempt) == (late.job, 2)
        if call == "renew":
            assert await other.renew([late]) == {late.job}
        else:
            late_call = (
                other.append(late, [b"late"], expect_seq=0) if call == "append" else other.finish(late, DONE)
            )
            with pytest.raises(LeaseLost, match="taken over"):
                await late_call
        assert await control.append(lease, [b"{}"], expect_seq=0) == 1
        assert [each.data for each in await control.read(late.job)] == [b"{}"]
        found = await control.get(late.job)
        assert found is not None
        assert found.state == "running"


async def test_a_user_without_rights_can_do_what_its_role_says_and_no_more(
    postgres: PostgresServer, url: str
) -> None:
    database = url.partition("?")[0].rpartition("/")[2]
    postgres.execute(ROLES, database)
    for user in ("ada", "rack1", "stranger"):
        postgres.execute(f"create user {user}")
    postgres.execute("grant newel_control to ada; grant newel_worker to rack1")
    async with (
        open_postgres_engine(postgres.url(database, user="ada")) as control,
        open_postgres_engine(
            postgres.url(database, user="rack1"), worker=identity("w", "new-label")
        ) as worker,
    ):
        job = await control.submit("turn", b"{}", queue="q", labels=["new-label"])
        (lease,) = await worker.claim(1, "w")
        assert await worker.renew([lease]) == set()
        await worker.append(lease, [b"{}"], expect_seq=0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.live.write, lease, lambda: LiveData(seq=1, data=b"live"))
            updated, version = "", 0
            while version == 0:
                page = await control.live.read(job, 1, updated=updated, wait=5)
                assert page is not None
                updated, version = page.updated, page.version
            tasks.cancel_scope.cancel()
        await worker.finish(lease, DONE)
        assert len(await control.read(job)) == 1
        with pytest.raises(EngineError, match=r"does not let this user do that.*newel_control"):
            await worker.submit("turn", b"{}", queue="q")
        with pytest.raises(EngineError, match=r"does not let this user do that"):
            await control.claim(1, "w")
    assert "does not let this user do that" in await refusal(postgres.url(database, user="stranger"))
    empty = postgres.url(postgres.create_database(empty=True), user="ada")
    assert "this user may not install it" in await refusal(empty)


async def test_an_unusable_database_is_explained(postgres: PostgresServer, url: str) -> None:
    postgres.execute("create user guarded password 'right'; create user refused")
    database = url.partition("?")[0].rpartition("/")[2]
    wrong = postgres.url(database, user="guarded:wrong")
    assert "refused the password" in await refusal(wrong)
    assert "wrong" not in await refusal(wrong)
    assert "does not admit this user" in await refusal(postgres.url(database, user="refused"))
    assert "has no such database" in await refusal(postgres.url("missing"))
    assert "cannot be reached" in await refusal(postgres.url(database, port=1))
    assert "cannot be reached" in await refusal("postgresql://no-such-host.invalid/x")
    assert "refuses TLS" in await refusal(url.replace("sslmode=disable", "sslmode=require"))
    assert "not valid" in await refusal("mysql://host/x")
    assert "not valid" in await refusal("postgresql://host:port/x")


async def test_a_database_of_another_version_is_left_alone(postgres: PostgresServer, url: str) -> None:
    database = url.partition("?")[0].rpartition("/")[2]
    postgres.execute("update newel.version set version = version + 1", database)
    assert "belongs to a newer Newel" in await refusal(url)
    other = postgres.create_database(empty=True)
    postgres.execute(
        "create schema absurd; create function absurd.get_schema_version() returns text language sql as $$ select '0.1' $$",
        other,
    )
    assert f"has absurd 0.1, and Newel needs {ABSURD}" in await refusal(postgres.url(other))


async def test_a_claim_does_not_read_the_whole_queue(postgres: PostgresServer, url: str) -> None:
    """With 100,000 jobs in a queue that took a third of a second of the database's CPU, for each job that begins."""
    database = url.partition("?")[0].rpartition("/")[2]
    postgres.execute(
        "select newel.submit('j' || n, null, 'turn', 'q' || n, '{gpu}', '') from generate_series(1, 1000) n",
        database,
    )
    postgres.execute("analyze", database)
    read = postgres.execute(
        "select from newel.claim('w', 'm', '{gpu}', 30, 2, null);"
        "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname ~ '^r_newel_'",
        database,
    )
    assert int(read) < 200


async def test_processes_that_open_an_empty_database_at_once_install_it_once(
    postgres: PostgresServer,
) -> None:
    url = postgres.url(postgres.create_database(empty=True))
    jobs: list[str] = []

    async def submit(number: int) -> None:
        async with open_postgres_engine(url) as engine:
            jobs.append(await engine.submit("turn", b"{}", queue="q", labels=[f"l{number % 2}"]))

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(submit, number)
    assert len(set(jobs)) == 4


async def test_a_job_of_an_earlier_version_whose_id_is_a_path_gets_another_one(
    postgres: PostgresServer,
) -> None:
    database = postgres.create_database(empty=True)
    earlier = [script for version in MIGRATIONS[:5] for script in version]
    version = "create table newel.version as select 5 as version, '' as absurd"
    scripts = [files("newel.jobs.postgres").joinpath(name).read_text() for name in earlier]
    for sql in (BUNDLED_SCHEMA_SQL, "create schema newel", version, *scripts):
        postgres.execute(sql, database)
    for job in ("/tmp/x", "..", "good-1"):  # noqa: S108 — an id
        postgres.execute(f"select newel.submit('{job}', null, 'k', '{job}', '{{}}', '\\x7b7d')", database)
    postgres.execute("insert into newel.removals (name) values ('/tmp/x'), ('good-2')", database)
    async with open_postgres_engine(postgres.url(database)) as engine:
        ids = await claimed(engine)
        assert "good-1" in ids
        assert len(ids) == 3
        assert all(is_job_id(job) for job in ids)
        assert await engine.retention.claim_removals() == ["good-2"]


def test_the_database_and_the_workers_have_one_rule_for_ids(postgres: PostgresServer) -> None:
    ends = ("{}", "-{}", "{}/", "{}.", "{}\n", " {}", "{}ä", "{}1")
    ids = [end.format(text) for text in ("a", "a-b_C9", "9" * 100) for end in ends]
    listed = ", ".join(f"'{each}'" for each in ids)
    sql = f"select newel.is_job_id(id) from unnest(array[{listed}]) with ordinality as t(id, n) order by n"  # noqa: S608 — its own words
    found = postgres.execute(sql, postgres.create_database()).split()
    assert [each == "t" for each in found] == [is_job_id(each) for each in ids]
