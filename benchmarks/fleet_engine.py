"""The engine for many machines, beside what its database costs anyhow. It starts a PostgreSQL server of its own.

    python benchmarks/fleet_engine.py [--jobs 100] [--rounds 20] [--skip-fleet]

``append``: milliseconds until an event of 500 bytes is durable, while each of ``--jobs`` jobs appends one a second, or all
append again at once. ``floor``: INSERT and COMMIT of the same event in the same server, one connection, before and after.
``fleet``: 1,000 jobs of 5 steps of 1 s, each with an event, on 4 workers of 64 slots: 20 s are the least. ``busy``: how many
cores the rest of the machine, the database included, used meanwhile.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
from steps import busy_seconds

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from newel.jobs.engine import Job, Lease
from newel.jobs.postgres.database import Connection, Database
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from tests.postgres import open_server

EVENT = b'{"type":"message_end","message":{"role":"user","content":"' + b"x" * 440 + b'"}}'
CHILD = Path(__file__).resolve().parent.parent / "tests" / "faults" / "fleet_worker_child.py"
WORKERS, JOBS, STEPS = 4, 1000, 5


def shown(name: str, times: list[float]) -> None:
    ordered = sorted(each * 1000 for each in times)
    p95 = ordered[len(ordered) * 95 // 100]
    print(f"{name:34} p50 {statistics.median(ordered):6.2f} ms   p95 {p95:6.2f} ms   of {len(ordered):,}")


async def floor(url: str, count: int) -> list[float]:
    database = Database(url)
    times: list[float] = []

    async def insert(connection: Connection) -> None:
        await connection.execute("CREATE TABLE IF NOT EXISTS bare (n serial PRIMARY KEY, data bytea)")
        for _ in range(count):
            began = time.perf_counter()
            await connection.execute("INSERT INTO bare (data) VALUES ($1)", EVENT)
            times.append(time.perf_counter() - began)

    await database.call(insert, within=600)
    database.close()
    return times


async def appends(engine: PostgresEngine, leases: list[Lease], rounds: int, pause: float) -> list[float]:
    times: list[float] = []
    last = {lease.job: len(await engine.read(lease.job, limit=100_000)) for lease in leases}

    async def write(lease: Lease) -> None:
        await anyio.sleep(pause * random.random())  # noqa: S311 — to spread the writers
        for _ in range(rounds):
            began = time.perf_counter()
            last[lease.job] = await engine.append(lease, [EVENT], expect_seq=last[lease.job])
            times.append(time.perf_counter() - began)
            await anyio.sleep(pause)

    async with anyio.create_task_group() as tasks:
        for lease in leases:
            tasks.start_soon(write, lease)
    return times


async def measure_appends(url: str, jobs: int, rounds: int) -> None:
    shown("floor: INSERT and COMMIT", await floor(url, 1000))
    async with open_postgres_engine(url) as engine:
        for number in range(jobs):
            await engine.submit("turn", b"{}", queue=f"q{number}")
        leases = await engine.claim(jobs, "benchmark")
        assert len(leases) == jobs
        shown(f"append, {jobs} jobs, one a second", await appends(engine, leases, rounds, 1.0))
        shown("floor: INSERT and COMMIT", await floor(url, 1000))
        began = time.perf_counter()
        times = await appends(engine, leases, rounds, 0.0)
        shown(f"append, {jobs} jobs, all at once", times)
        print(f"{'':34} {len(times) / (time.perf_counter() - began):,.0f} a second")
        big = b"x" * (1 << 20)
        began, seq = time.perf_counter(), len(await engine.read(leases[0].job, limit=100_000))
        for _ in range(10):
            seq = await engine.append(leases[0], [os.urandom(1 << 16) * 16 if _ % 2 else big], expect_seq=seq)
        print(f"{'append of 1 MiB':34} mean {(time.perf_counter() - began) * 100:.1f} ms")


@contextmanager
def workers(url: str) -> Generator[None]:
    words = [sys.executable, str(CHILD), url]
    processes = [
        subprocess.Popen([*words, f"w{n}", "10", str(STEPS), "1"], stdout=subprocess.DEVNULL)
        for n in range(WORKERS)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def repeat_until(find: Callable[[], Awaitable[list[Job]]], *, is_found: bool) -> None:
    while bool(await find()) != is_found:  # noqa: ASYNC110 — what other processes do sets no event here
        await anyio.sleep(0.1)


async def measure_fleet(url: str) -> None:
    async with open_postgres_engine(url) as engine:
        began = time.perf_counter()
        async with anyio.create_task_group() as tasks:

            async def submit(first: int) -> None:
                for number in range(first, JOBS, 8):
                    await engine.submit("turn", b"{}", queue=f"q{number}", key=f"k{number}")

            for first in range(8):
                tasks.start_soon(submit, first)
        print(f"fleet: {JOBS:,} jobs submitted in {time.perf_counter() - began:.1f} s")
        with workers(url):
            await repeat_until(lambda: engine.find(states=["running"], limit=1), is_found=True)
            began = time.perf_counter()
            await repeat_until(lambda: engine.find(states=["queued", "running"], limit=1), is_found=False)
            took = time.perf_counter() - began
            jobs = await engine.find(limit=2 * JOBS)
    assert [job.seq for job in jobs] == [STEPS] * JOBS
    print(f"fleet: done in {took:.1f} s, {sum(job.attempts for job in jobs) - JOBS} attempts more than jobs")


async def timed(measure: Callable[[], Awaitable[None]]) -> None:
    busy, own, began = busy_seconds(), time.process_time(), time.perf_counter()
    await measure()
    others = (busy_seconds() - busy) - (time.process_time() - own)
    print(f"{'busy':34} {others / (time.perf_counter() - began):.2f}; load {os.getloadavg()[0]:.1f}")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--skip-fleet", action="store_true")
    options = parser.parse_args()
    with open_server() as server:
        url = server.url(server.create_database())
        await timed(lambda: measure_appends(url, options.jobs, options.rounds))
        if not options.skip_fleet:
            await timed(lambda: measure_fleet(server.url(server.create_database())))


if __name__ == "__main__":
    anyio.run(main)
