"""A process of its own that fills what it may write, then gets room again.

Arguments: the engine's folder. Says on standard output what happened: the error, how many events were acknowledged
before it, what the two small changes that came with the large one were told, and the number of the last event.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import anyio

from newel.jobs.engine import EngineError, Lease, Outcome
from newel.jobs.sqlite import SqliteEngine, open_engine

ROOM = 300_000


async def fill(engine: SqliteEngine, lease: Lease) -> int:
    seq = 0
    try:
        while True:
            seq = await engine.append(lease, [b"x" * 5000], expect_seq=seq)
    except EngineError as error:
        sys.stdout.write(f"{error}\n{seq}\n")
    return seq


async def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with open_engine(Path(sys.argv[1])) as engine:
        await engine.submit("turn", b"{}", queue="q", key="k")
        (lease,) = await engine.claim(1, "w")
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
        seq = await fill(engine, lease)
        told = "fitted"
        try:
            await engine.submit("turn", b"x" * 5000, queue="other")
        except EngineError:
            told = "refused"
        events = await engine.read(lease.job)
        sys.stdout.write(f"{told} {len(events)}\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        seq = await engine.append(lease, [b"room again"], expect_seq=seq)
        await engine.finish(lease, Outcome(state="done"))
        sys.stdout.write(f"{seq}\n")


anyio.run(main)
