"""The size of a ledger after many runs, and the cost of deleting the old ones.

    ./run python benchmarks/purge.py [--runs 1000] [--files 5] [--lines 300] [--folder DIR]

Each run changes some lines of some of 50 files, as recording does: content before and after, a checkpoint, an entry per
file. Then all but the latest 200 runs are deleted, as if a year had passed. ``waited``: the longest wait of a change
from another thread of the process meanwhile.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from newel.agent.messages import now
from newel.review.model.file_lines import content_of, lines_of
from newel.review.store.garbage_collection import RetentionPolicy, purge
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.tracking.applied_sink import recorded

MIB = 2**20


def history(ledger: Ledger, runs: int, files: int, lines: int) -> None:
    for run in range(runs):
        with ledger.batch():
            befores = [change(ledger, run, f"src/file{(run + n) % 50}.py", lines) for n in range(files)]
            ledger.add_checkpoint(
                Checkpoint(id=f"cp_{run:08}", created=now(), run=f"r{run}", files=tuple(befores))
            )


def change(ledger: Ledger, run: int, path: str, lines: int) -> FileVersion:
    text = list(ledger.get(path).base) or list(lines_of(b"".join(b"line %d\n" % n for n in range(lines))))
    before = tuple(text)
    for place in range(3):
        text[1 + (run * 7 + place * 31) % lines] = f"changed by run {run} in place {place}\n"
    contents = [content for each in (before, tuple(text)) if (content := content_of(each))]
    blob = ledger.put_blobs([content.data for content in contents])[0]
    ledger.change(
        path, "record", partial(recorded, before=before, after=tuple(text), run=f"r{run}"), run=f"r{run}"
    )
    return FileVersion(path=path, blob=blob, mode=0o644)


def size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / MIB


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--files", type=int, default=5)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--folder", help="where to write; the disk there is what is measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="newel-bench-", dir=options.folder) as name:
        folder = Path(name, "review")
        with Ledger.open(folder) as ledger:
            history(ledger, options.runs, options.files, options.lines)
        with Ledger.open(folder) as ledger:
            print(f"{options.runs} runs of {options.files} files: {size(folder):.1f} MiB")
            work = partial(purge, ledger, RetentionPolicy(), now=datetime.now(UTC) + timedelta(days=365))
            thread = threading.Thread(target=work)
            began = time.perf_counter()
            thread.start()
            waited = 0.0
            while thread.is_alive():
                asked = time.perf_counter()
                ledger.put_blobs([b"what somebody puts there meanwhile"])
                waited = max(waited, time.perf_counter() - asked)
                time.sleep(0.005)
            took = time.perf_counter() - began
        print(f"purged in {took:.2f} s, waited {waited * 1000:.0f} ms: {size(folder):.1f} MiB")


if __name__ == "__main__":
    main()
