"""A worker of a fleet that prints each acknowledgement on a line.

Arguments: the database, the worker's name, its lease in seconds, the events of a job, the seconds before each. Lines:
``ready``, ``begin JOB ATTEMPT`` and ``append JOB SEQ``.
"""

from __future__ import annotations

import sys

import anyio
import msgspec

from newel.jobs.engine import JobOutcome, Lease
from newel.jobs.placement import WorkerIdentity
from newel.jobs.postgres.engine import open_postgres_engine
from newel.jobs.worker import Worker


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(url: str, name: str, lease_s: float, events: int, delay: float) -> None:
    async def handle(lease: Lease) -> JobOutcome:
        say("begin", lease.job, lease.attempt)
        for seq in range(lease.seq, events):
            await anyio.sleep(delay)
            event = msgspec.json.encode({"worker": name, "seq": seq + 1})
            await engine.append(lease, [event], expect_seq=seq)
            say("append", lease.job, seq + 1)
        return JobOutcome(state="done", reason=name)

    me = WorkerIdentity(name=name, machine=name, slots=64)
    async with open_postgres_engine(url, worker=me, lease=lease_s) as engine:
        say("ready")
        await Worker(engine, {"turn": handle}, slots=64, name=name).run()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
