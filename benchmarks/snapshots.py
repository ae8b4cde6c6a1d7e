"""The cost of finding the files that a command changed: first snapshot, steady state, later session, memory.

    ./run python benchmarks/snapshots.py [--files 10000 100000] [--scan]

The project is a git repository of small files in a temporary folder. ``first``: the first ``take``, which copies all
contents into a ledger. ``later``: the same in the next process, which finds the index. ``step``: ``take``, a ``true``
and ``changes``, minus the ``true`` alone; median and worst of the rounds. ``100 changed``: the same with a command that
writes a hundred files. ``memory``: resident memory after all that, minus that before. ``--scan``: without inotify.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import anyio

from newel.review.store.ledger import Ledger
from newel.workspace.local import LocalWorkspace
from newel.workspace.snapshots.local_source import LocalSnapshotSource
from newel.workspace.snapshots.manager import SnapshotManager

ROUNDS = 30
TOUCH = "for n in $(seq 0 99); do echo >> d0/s$((n % 50))/file_$((n / 50)).py; done"


def make(root: Path, files: int) -> None:
    """Twenty files of about 2 KB per directory, a thousand per parent directory."""
    root.mkdir()
    for number in range(files):
        folder = root / f"d{number // 1000}/s{number // 20 % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file_{number % 20}.py").write_text(f"# {number}\n" + "x = 1\n" * 330)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)


def resident() -> float:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


async def timed(workspace: LocalWorkspace, snapshots: SnapshotManager | None, command: str = "true") -> float:
    """Milliseconds of a command, with or without snapshots around it."""
    began = time.perf_counter()
    if snapshots is not None:
        await snapshots.take()
    await workspace.run(command)
    if snapshots is not None:
        await snapshots.changes()
    return (time.perf_counter() - began) * 1000


async def measure(files: int, *, scan: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="newel-bench-") as folder:
        root, home = Path(folder, "project"), Path(folder, "home")
        make(root, files)
        await anyio.sleep(2.5)  # a file that was just written is read again
        workspace = LocalWorkspace(str(root))
        with Ledger.open(home) as ledger:
            before = resident()
            for name in ("first", "later"):
                snapshots = SnapshotManager(
                    LocalSnapshotSource(str(root), watch=not scan), ledger, index=home / "files.index"
                )
                began = time.perf_counter()
                await snapshots.take()
                print(
                    f"{files:>7,} files  {name:<12} {(time.perf_counter() - began) * 1000:>8.0f} ms",
                    flush=True,
                )
                if name == "first":
                    snapshots.close()
            await timed(workspace, snapshots)
            alone = [await timed(workspace, None) for _ in range(ROUNDS)]
            known = [await timed(workspace, snapshots) for _ in range(ROUNDS)]
            floor = statistics.median(alone)
            print(
                f"{files:>7,} files  step         {statistics.median(known) - floor:>8.1f} ms, worst {max(known) - floor:.1f}"
            )
            wrote = await timed(workspace, snapshots, TOUCH) - await timed(workspace, None, TOUCH)
            print(f"{files:>7,} files  100 changed  {wrote:>8.1f} ms")
            print(f"{files:>7,} files  memory       {resident() - before:>8.1f} MiB")
            snapshots.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--scan", action="store_true")
    chosen = parser.parse_args()
    for count in chosen.files:
        anyio.run(lambda count=count: measure(count, scan=chosen.scan))
