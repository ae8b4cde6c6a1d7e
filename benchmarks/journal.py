"""The cost of journaling a step of a run, beside that of the disk.

    python benchmarks/journal.py [--writers 1 200] [--steps 2000] [--runs 5] [--folder DIR]

A step is one event of 500 bytes, acknowledged once it is on disk. ``step``: wall clock milliseconds per step, of
all writers together: 200 writers at 0.05 ms make 20,000 steps a second. ``waits``: the time of one writer until the
acknowledgement, median and slowest of a hundred. ``floor``: write and fdatasync of the same bytes, one after the other.
Each figure is the median of the runs. ``busy``: how many cores the rest of the machine used; do not trust a row with
more than 0.1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import anyio
from steps import busy_seconds

from newel.jobs.engine import Lease
from newel.jobs.sqlite import SqliteEngine, open_engine

EVENT = b'{"type":"message_end","message":{"role":"user","content":"' + b"x" * 440 + b'"}}'


class Row(NamedTuple):
    """One run; times in milliseconds."""

    step: float
    median: float
    slowest: float
    busy: float


def floor(folder: str, steps: int) -> float:
    """Milliseconds to append one event to a file and flush it to the disk."""
    sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
    with Path(folder, "floor").open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(steps):
            file.write(EVENT)
            sync(file.fileno())
        return (time.perf_counter() - began) * 1000 / steps


async def journal(folder: str, writers: int, steps: int) -> Row:
    """Journal ``steps`` events in total."""
    each = max(1, steps // writers)
    waits: list[float] = []

    async def write(engine: SqliteEngine, lease: Lease) -> None:
        for seq in range(each):
            began = time.perf_counter()
            await engine.append(lease, [EVENT], expect_seq=seq)
            waits.append((time.perf_counter() - began) * 1000)

    async with open_engine(Path(folder, "jobs")) as engine:
        for number in range(writers):
            await engine.submit("turn", b"{}", queue=f"q{number}")
        leases = await engine.claim(writers, "benchmark")
        busy, own, began = busy_seconds(), time.process_time(), time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for lease in leases:
                tasks.start_soon(write, engine, lease)
        took = time.perf_counter() - began
        others = (busy_seconds() - busy) - (time.process_time() - own)
    waits.sort()
    return Row(
        step=took * 1000 / len(waits),
        median=statistics.median(waits),
        slowest=waits[len(waits) * 99 // 100],
        busy=max(0.0, others / took),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 200])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where to write; the disk there is what is measured")
    options = parser.parse_args()
    print(f"{'writers':>8}{'step ms':>10}{'waits ms':>10}{'1 in 100':>10}{'floor ms':>10}{'busy':>7}")
    for writers in options.writers:
        rows: list[Row] = []
        floors: list[float] = []
        for _ in range(options.runs):
            with tempfile.TemporaryDirectory(prefix="newel-bench-", dir=options.folder) as folder:
                floors.append(floor(folder, min(options.steps, 2000)))
                rows.append(anyio.run(journal, folder, writers, options.steps))
        middle = Row(*(statistics.median(column) for column in zip(*rows, strict=True)))
        print(
            f"{writers:>8}{middle.step:>10.3f}{middle.median:>10.2f}{middle.slowest:>10.2f}"
            f"{statistics.median(floors):>10.3f}{middle.busy:>7.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
