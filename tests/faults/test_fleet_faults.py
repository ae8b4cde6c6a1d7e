"""If these fail, a job of a fleet is lost with its machine, runs on two at once, or loses what it has done."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from newel.jobs.engine import EngineError, Job, JobOutcome, JournalEntry, Lease
from newel.jobs.placement import WorkerIdentity
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from newel.jobs.worker import Worker
from tests.postgres import PostgresServer, open_server
from tests.tcp_relay import open_relay

CHILD = Path(__file__).with_name("fleet_worker_child.py")
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    with open_server() as opened:
        yield opened


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class WorkerProcess:
    """A worker of its own process, and the lines that it has printed."""

    def __init__(self, url: str, name: str, *, lease: float, events: int, delay: float) -> None:
        words = [sys.executable, str(CHILD), url, name, str(lease), str(events), str(delay)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.lines.append(line.strip())

    async def wait_for(self, beginning: str, count: int = 1) -> None:
        await until(lambda: sum(line.startswith(beginning) for line in self.lines) >= count)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def acknowledged(self) -> list[tuple[str, int]]:
        return [(line.split()[1], int(line.split()[2])) for line in self.lines if line.startswith("append")]

    def end(self) -> None:
        self.send(signal.SIGCONT)
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def workers(
    url: str, *names: str, lease: float, events: int = 5, delay: float = 0.3
) -> Generator[list[WorkerProcess]]:
    started = [WorkerProcess(url, name, lease=lease, events=events, delay=delay) for name in names]
    try:
        yield started
    finally:
        for each in started:
            each.end()


@contextmanager
def mounted_disk(size: str) -> Generator[Path]:
    """A small disk, with a folder ``space`` for the server. Skips the test if none can be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="newel-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    try:
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("needs root, to mount a small disk")
        try:
            folder.chmod(0o755)
            (folder / "space").mkdir()
            shutil.chown(folder / "space", "postgres")
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    finally:
        folder.rmdir()


async def until(condition: Callable[[], bool], within: float = 30) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        await anyio.sleep(0.02)


async def ended(engine: PostgresEngine, job: str, within: float = 60) -> tuple[Job, list[JournalEntry]]:
    with anyio.fail_after(within):
        while True:
            found = await engine.get(job)
            assert found is not None
            if found.state in {"done", "failed", "cancelled"}:
                return found, await engine.read(job)
            await anyio.sleep(0.05)


def numbers(entries: list[JournalEntry]) -> list[int]:
    return [msgspec.json.decode(entry.data)["seq"] for entry in entries]


async def test_the_job_of_a_killed_worker_goes_on_elsewhere_within_15_seconds(server: PostgresServer) -> None:
    url = server.url(server.create_database())
    async with open_postgres_engine(url) as engine:
        with workers(url, "first", lease=10, events=8) as (first,):
            job = await engine.submit("turn", b"{}", queue="q")
            await first.wait_for("append", 3)
            with workers(url, "second", lease=10, events=8) as (second,):
                await second.wait_for("ready")
                first.send(signal.SIGKILL)
                killed = time.monotonic()
                await second.wait_for("begin")
                took = time.monotonic() - killed
                found, entries = await ended(engine, job)
    assert took < 15
    assert (found.state, found.reason, found.attempts) == ("done", "second", 2)
    assert numbers(entries) == list(range(1, 9))


async def test_a_worker_that_was_stopped_for_longer_than_its_lease_writes_nothing(
    server: PostgresServer,
) -> None:
    url = server.url(server.create_database())
    async with open_postgres_engine(url) as engine:
        with workers(url, "one", "two", lease=2, events=6) as both:
            for each in both:
                await each.wait_for("ready")
            job = await engine.submit("turn", b"{}", queue="q")
            await until(lambda: any(len(each.acknowledged()) >= 2 for each in both))
            second, zombie = sorted(both, key=lambda each: len(each.lines))
            zombie.send(signal.SIGSTOP)
            await second.wait_for("begin")
            zombie.send(signal.SIGCONT)
            found, entries = await ended(engine, job)
            await anyio.sleep(1)
            assert (await engine.read(job)) == entries
    assert (found.state, found.attempts) == ("done", 2)
    assert numbers(entries) == list(range(1, 7))
    acknowledged = zombie.acknowledged() + second.acknowledged()
    assert sorted(acknowledged) == [(job, seq) for seq in range(1, 7)]


async def test_a_database_that_loses_its_power_keeps_what_it_acknowledged(server: PostgresServer) -> None:
    url = server.url(server.create_database())
    async with open_postgres_engine(url) as engine:
        jobs = [await engine.submit("turn", b"{}", queue=f"q{n}") for n in range(6)]
        with workers(url, "a", "b", lease=10, events=40, delay=0.05) as both:
            await until(lambda: sum(len(each.acknowledged()) for each in both) >= 30)
            for _ in range(2):
                await anyio.to_thread.run_sync(server.stop)
                await anyio.to_thread.run_sync(server.start)
                await anyio.sleep(0.5)
            results = [await ended(engine, job) for job in jobs]
            acknowledged = sorted(both[0].acknowledged() + both[1].acknowledged())
    assert [found.state for found, _ in results] == ["done"] * 6
    assert [numbers(entries) for _, entries in results] == [list(range(1, 41))] * 6
    assert acknowledged == sorted((job, seq) for job in jobs for seq in range(1, 41))


async def test_a_worker_that_is_cut_off_stops_its_job_before_another_begins_it(
    server: PostgresServer,
) -> None:
    """Its tools would go on changing a folder that another worker works in."""
    name = server.create_database()
    stopped: list[float] = []
    begun = anyio.Event()

    async def hang(_: Lease) -> JobOutcome:
        begun.set()
        try:
            await anyio.sleep(60)
        finally:
            stopped.append(time.monotonic())
        return JobOutcome(state="done")

    with open_relay(server.port) as relay:
        url = server.url(name, port=relay.port)
        me = WorkerIdentity(name="cut", machine="m1")
        async with (
            open_postgres_engine(server.url(name), lease=4) as other,
            open_postgres_engine(url, worker=me, lease=4) as engine,
            anyio.create_task_group() as tasks,
        ):
            job = await other.submit("turn", b"{}", queue="q")
            tasks.start_soon(Worker(engine, {"turn": hang}, slots=1).run)
            await begun.wait()
            with relay.swallowing():
                leases: list[Lease] = []
                with anyio.fail_after(15):
                    while not leases:
                        leases = await other.claim(1, "other", wait=1)
                assert stopped, "both run"
                assert await other.append(leases[0], [b"{}"], expect_seq=0) == 1
                await other.finish(leases[0], JobOutcome(state="done", reason="other"))
            found, entries = await ended(other, job)
            assert (found.reason, len(entries), found.attempts) == ("other", 1, 2)
            tasks.cancel_scope.cancel()


async def test_a_worker_that_was_cut_off_begins_its_job_again_only_when_it_has_stopped(
    server: PostgresServer,
) -> None:
    """It may be the first to find the job whose lease it lost."""
    running: list[int] = []
    attempts: list[int] = []

    async def handle(lease: Lease) -> JobOutcome:
        attempts.append(lease.attempt)
        running.append(lease.attempt)
        assert len(running) == 1
        try:
            if lease.attempt == 1:
                await anyio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(4)  # its processes take a while to end
            running.remove(lease.attempt)
        return JobOutcome(state="done")

    with open_relay(server.port) as relay:
        url = server.url(server.create_database(), port=relay.port)
        async with open_postgres_engine(url, lease=2) as engine, anyio.create_task_group() as tasks:
            tasks.start_soon(Worker(engine, {"turn": handle}, slots=2).run)
            job = await engine.submit("turn", b"{}", queue="q")
            await until(lambda: attempts == [1])
            with relay.swallowing():
                await anyio.sleep(3)
            found, _ = await ended(engine, job)
            assert found.state == "done", found.reason
            assert running == []
            tasks.cancel_scope.cancel()


async def test_each_of_many_jobs_runs_once(server: PostgresServer) -> None:
    url = server.url(server.create_database())
    async with open_postgres_engine(url) as engine:
        with workers(url, "a", "b", lease=10, events=1, delay=0.05) as both:
            for each in both:
                await each.wait_for("ready")
            jobs = [await engine.submit("turn", b"{}", queue=f"q{n % 100}") for n in range(200)]
            for job in jobs:
                await ended(engine, job)
            begun = [line.split()[1:] for each in both for line in each.lines if line.startswith("begin")]
    assert sorted(begun) == sorted([job, "1"] for job in jobs)
    assert all(each.acknowledged() for each in both)


async def test_a_job_whose_worker_died_after_its_cancellation_ends_as_cancelled(
    server: PostgresServer,
) -> None:
    url = server.url(server.create_database())
    async with open_postgres_engine(url, lease=2) as engine:
        with workers(url, "dying", lease=2, delay=5) as (dying,):
            job = await engine.submit("turn", b"{}", queue="q")
            later = await engine.submit("turn", b"{}", queue="q")
            await dying.wait_for("begin")
            dying.send(signal.SIGKILL)
            assert await engine.cancel(job, "not needed")
            with anyio.fail_after(10):
                leases: list[Lease] = []
                while not leases:
                    leases = await engine.claim(1, "other", wait=1)
        found = await engine.get(job)
        assert found is not None
        assert (found.state, found.reason) == ("cancelled", "not needed")
        assert leases[0].job == later


async def test_a_full_disk_of_the_database_ends_no_job(server: PostgresServer) -> None:
    with mounted_disk("24m") as disk:
        server.execute(f"create tablespace small location '{disk / 'space'}'")
        name = server.create_database(options="tablespace small")
        async with open_postgres_engine(server.url(name)) as engine:
            job = await engine.submit("turn", b"{}", queue="q")
            (lease,) = await engine.claim(1, "w")
            filler = disk / "filler"
            with contextlib.suppress(OSError):
                filler.write_bytes(b"x" * (24 << 20))
            done: list[int] = []
            async with anyio.create_task_group() as tasks:

                async def append() -> None:
                    done.append(await engine.append(lease, [bytes(range(256)) * 2000], expect_seq=0))

                tasks.start_soon(append)
                with pytest.raises(EngineError, match="has a full disk"):
                    await engine.submit("turn", os.urandom(1 << 20), queue="q")
                assert not done
                filler.unlink()
            assert done == [1]
            await engine.finish(lease, JobOutcome(state="done"))
            found, _ = await ended(engine, job)
        assert found.attempts == 1
        server.execute(f"drop database {name}")
        server.execute("drop tablespace small")


async def test_a_handler_waits_for_a_database_that_is_away(server: PostgresServer) -> None:
    url = server.url(server.create_database())
    async with open_postgres_engine(url, lease=30) as engine:
        await engine.submit("turn", b"{}", queue="q")
        (lease,) = await engine.claim(1, "w")
        server.stop()
        done: list[int] = []
        async with anyio.create_task_group() as tasks:

            async def append() -> None:
                done.append(await engine.append(lease, [b"{}"], expect_seq=0))

            tasks.start_soon(append)
            await anyio.sleep(2)
            assert not done
            await anyio.to_thread.run_sync(server.start)
        assert done == [1]
        with contextlib.suppress(TimeoutError), anyio.fail_after(1):
            assert await engine.renew([lease]) == set()
