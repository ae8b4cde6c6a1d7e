"""A process that works on jobs and prints each acknowledgement on a line.

Arguments: the engine's folder, and how many runs to write at once. Lines: ``submit JOB`` and ``append JOB SEQ``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from newel.jobs.engine import Lease
from newel.jobs.sqlite import SqliteEngine, open_engine


def promise(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def write(engine: SqliteEngine, lease: Lease) -> None:
    seq = lease.seq
    while True:
        events = [b'{"seq":%d}' % number for number in range(seq + 1, seq + 2 + seq % 3)]
        seq = await engine.append(lease, events, expect_seq=seq)
        promise("append", lease.job, seq)


async def main() -> None:
    async with open_engine(Path(sys.argv[1])) as engine, anyio.create_task_group() as tasks:
        for lease in await engine.claim(100, "before"):
            tasks.start_soon(write, engine, lease)
        for number in range(int(sys.argv[2])):
            job = await engine.submit("turn", b"{}", queue=f"q{number}", key=f"k{number}")
            promise("submit", job)
        for lease in await engine.claim(100, "new"):
            tasks.start_soon(write, engine, lease)


anyio.run(main)
