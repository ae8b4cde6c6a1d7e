"""A process that fills its disk and then gets room again.

Argument: the engine's folder. A run fills the disk and ends while it is full, so the worker has to wait. Prints the
error, how many events were acknowledged before it, the error of another change, how many events can be read meanwhile,
and the number of the last event.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import anyio

from newel.jobs.engine import EngineError, JobOutcome, Lease
from newel.jobs.sqlite import SqliteEngine, open_engine
from newel.jobs.worker import Worker

ROOM = 300_000
_, HARD = resource.getrlimit(resource.RLIMIT_FSIZE)


async def fill(engine: SqliteEngine, lease: Lease) -> int:
    seq = 0
    try:
        while True:
            seq = await engine.append(lease, [b"x" * 5000], expect_seq=seq)
    except EngineError as error:
        sys.stdout.write(f"{error}\n{seq}\n")
    return seq


async def main() -> None:
    async with open_engine(Path(sys.argv[1])) as engine, anyio.create_task_group() as tasks:

        async def work(lease: Lease) -> JobOutcome:
            resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, HARD))
            seq = await fill(engine, lease)
            try:
                await engine.submit("turn", b"x" * 5000, queue="other")
            except EngineError:
                sys.stdout.write(f"refused {len(await engine.read(lease.job))}\n")
            resource.setrlimit(resource.RLIMIT_FSIZE, (HARD, HARD))
            sys.stdout.write(f"{await engine.append(lease, [b'room again'], expect_seq=seq)}\n")
            resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, HARD))
            tasks.start_soon(make_room)
            return JobOutcome(state="done")

        async def make_room() -> None:
            await anyio.sleep(0.2)
            resource.setrlimit(resource.RLIMIT_FSIZE, (HARD, HARD))

        job = await engine.submit("turn", b"{}", queue="q", key="k")
        tasks.start_soon(Worker(engine, {"turn": work}, slots=1).run)
        await engine.read(job, sys.maxsize, wait=15)
        await engine.submit("turn", b"{}", queue="later")
        tasks.cancel_scope.cancel()


anyio.run(main)
