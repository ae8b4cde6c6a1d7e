"""Snapshots of a job's folder: taken, stored, fetched and written on another machine, beside their floors.

    python benchmarks/job_snapshots.py [--files 10000] [--runs 3]

The project is a clone with ``--files`` files of 2 KB in folders of 20, a ledger of 20 MB, and a session. ``first`` is the first snapshot of
the clone, ``next`` one after 10 files changed and the ledger grew by a row, ``unknown`` one whose signatures were lost, so that every file
is read again. ``put`` stores the next one, ``restore`` fetches and writes it in another folder. Two floors for that folder: ``tar c`` to a
file, and ``cp -a``. Times are the best and the median in milliseconds, sizes in KB; ``CPU`` is seconds of this process and of git.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from newel.fleet.git_store import GitStore
from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import folder_store
from newel.fleet.snapshot_repository import STATE
from newel.fleet.snapshot_store import SnapshotStore

times: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
sizes: dict[str, float] = {}


def timed(name: str, work: Callable[[], Any]) -> Any:
    began, used = time.perf_counter(), sum(os.times()[:4])
    result = work()
    times[name].append((time.perf_counter() - began, sum(os.times()[:4]) - used))
    return result


def run(*words: str, cwd: Path | None = None) -> None:
    subprocess.run(words, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def make_source(folder: Path, files: int) -> None:
    for number in range(files):
        place = folder / f"pkg{number // 400}" / f"part{number // 20}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"module{number}.py").write_text(f"# {number}\n" + f"value_{number} = {number}\n" * 70)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    run(*git, "init", "-q", "-b", "main", cwd=folder)
    run(*git, "add", "-A", cwd=folder)
    run(*git, "commit", "-qm", "All", cwd=folder)


def make_home(job: JobFolder) -> sqlite3.Connection:
    folder = job.home / "review" / "other"
    folder.mkdir(parents=True)
    ledger = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    ledger.execute("PRAGMA journal_mode = WAL")
    ledger.execute("CREATE TABLE blobs (n INTEGER PRIMARY KEY, data BLOB)")
    ledger.execute("BEGIN")
    ledger.executemany("INSERT INTO blobs (data) VALUES (?)", ([os.urandom(2000)] for _ in range(10_000)))
    ledger.execute("COMMIT")
    (job.home / "sessions").mkdir()
    (job.home / "sessions" / "one.jsonl").write_text("{}\n" * 100_000)
    return ledger


def size_of(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1000


def one_run(folder: Path, source: Path, store: SnapshotStore, kind: str, place: Path) -> None:
    job = JobFolder(folder / "a", "job")
    timed("clone", lambda: job.clone(str(source)))
    ledger = make_home(job)
    first = timed("snapshot, first", lambda: job.snapshot(1))
    timed(f"put, first, {kind}", lambda: store.put(1, first.commit, job.repository))
    sizes[f"store, first, {kind}"] = size_of(place)
    for number, path in enumerate(sorted(job.work.rglob("*.py"))[:10]):
        path.write_text(f"changed {number}\n")
    ledger.execute("INSERT INTO blobs (data) VALUES (?)", [os.urandom(2000)])
    time.sleep(2.1)  # what was written just now is read each time
    before = size_of(place)
    taken = timed("snapshot, next", lambda: job.snapshot(2))
    ref = timed(f"put, next, {kind}", lambda: store.put(2, taken.commit, job.repository))
    sizes[f"store, next, {kind}"] = size_of(place) - before
    other = JobFolder(folder / "b", "job")
    timed(f"restore, {kind}", lambda: other.restore(ref, store))
    timed("snapshot, after a restore", lambda: other.snapshot(3))
    (job.repository.folder / STATE).unlink()
    timed("snapshot, unknown", lambda: job.snapshot(3))
    timed(
        "floor: tar c",
        lambda: run("tar", "cf", str(folder / "all.tar"), "-C", str(job.folder), "work", "home"),
    )
    timed("floor: cp -a", lambda: run("cp", "-a", str(job.work), str(job.home), str(folder)))
    ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary, "source")
        source.mkdir()
        make_source(source, options.files)
        for number in range(options.runs):
            for kind in ("bundles", "mirror"):
                folder = Path(temporary, f"{number}-{kind}")
                place = folder / "store"
                store = folder_store(place) if kind == "bundles" else GitStore(str(place))
                one_run(folder, source, store, kind, place)
                shutil.rmtree(folder)
    print(f"{options.files:,} files; load {os.getloadavg()[0]:.1f}\n{'':32}  best  median   CPU")
    for name, taken in times.items():
        seconds = [each[0] * 1000 for each in taken]
        cpu = statistics.median(each[1] for each in taken)
        print(f"{name:32}{min(seconds):6.0f}{statistics.median(seconds):8.0f}{cpu:6.2f}")
    for name, size in sizes.items():
        print(f"{name:32}{size:10.0f} KB")


if __name__ == "__main__":
    main()
