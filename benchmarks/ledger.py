"""The cost of changes to a review: one file of 20,000 lines with 500 hunks, in a ledger on disk.

    python -m benchmarks.ledger [--lines 20000] [--places 500] [--runs 40] [--folder DIR] [--profile ACTION]

Milliseconds until an action is on disk, median and slowest of twenty: ``accept`` and ``reject`` a hunk, ``edit`` a
line as the user does, ``undo`` and ``redo`` that, ``save`` an accepted hunk (in the ledger; the file itself is not
written), ``rebase`` after another program changed a line, ``get`` the current review. ``floor``: the change in memory
with its journal entry, without the disk. ``--profile`` lists the functions in which an action spends its time.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.diff import texts

from newel.diff.patience import diff
from newel.review.model.decisions import accept, reject
from newel.review.model.edits import edit
from newel.review.model.file_lines import make_head
from newel.review.model.file_review import FileReview, Hunk, Layer, placed
from newel.review.model.history import Kind, entry
from newel.review.model.rebase import rebased, saved
from newel.review.store.ledger import Ledger

PATH: Final = "src/long.py"
Change = Callable[[FileReview], FileReview]


def proposed_review(lines: int, places: int) -> FileReview:
    """A review with everything proposed and nothing decided."""
    a, b = ((make_head(), *text) for text in texts("code", lines, places))
    hunks = [
        Hunk(
            id=f"h_{number}",
            a=span.a0,
            b=span.a1,
            layers=(Layer(origin="agent", lines=b[span.b0 : span.b1], run="r_1", edits=(f"e_{number}",)),),
        )
        for number, span in enumerate(diff(a, b))
    ]
    return FileReview(path=PATH, base=a, hunks=tuple(hunks))


def undecided_hunk(review: FileReview) -> str:
    """An undecided hunk in the middle."""
    waiting = [hunk.id for hunk in review.hunks if hunk.state == "pending" and not hunk.has_user_layer]
    return waiting[len(waiting) // 2]


def user_edit(review: FileReview, number: int) -> FileReview:
    """The user edits a hunk in the middle of the file."""
    there = list(placed(review))[len(review.hunks) // 2]
    layer = Layer(origin="user", lines=(f"what the user writes, {number}\n",))
    return edit(review, there.start, there.start + 1, layer, lambda: f"u_{number}")


def changes(numbers: count[int]) -> dict[str, tuple[Kind, Change]]:
    """The measured changes, except undo and redo: the journal's name of each, and its function of a review."""

    def outside(review: FileReview) -> FileReview:
        return rebased(review, (*review.base, f"from another program, {next(numbers)}\n"))

    def save_one(review: FileReview) -> FileReview:
        return saved(review, [undecided_hunk(review)])

    return {
        "accept": ("accept", lambda review: accept(review, undecided_hunk(review))),
        "reject": ("reject", lambda review: reject(review, undecided_hunk(review))),
        "edit": ("user_edit", lambda review: user_edit(review, next(numbers))),
        "save": ("save", save_one),
        "rebase": ("rebase", outside),
    }


def on_disk(ledger: Ledger, runs: int) -> dict[str, list[float]]:
    """Milliseconds of each action, by name; each starts with the review that the earlier ones left."""
    took: dict[str, list[float]] = {}
    for name, (kind, change) in changes(count()).items():
        took[name] = [time_ms(partial(ledger.change, PATH, kind, change)) for _ in range(runs)]
        if name == "edit":
            took["undo"] = [time_ms(partial(ledger.undo, PATH)) for _ in range(runs)]
            took["redo"] = [time_ms(partial(ledger.redo, PATH)) for _ in range(runs)]
    took["get"] = [time_ms(partial(ledger.get, PATH)) for _ in range(runs)]
    return took


def in_memory(review: FileReview, runs: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {}
    for name, (kind, change) in changes(count()).items():
        took[name] = []
        for _ in range(runs):
            start = time.perf_counter()
            after = change(review)
            entry(kind, review, after)
            took[name].append((time.perf_counter() - start) * 1000)
            review = after
    return took


def time_ms(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def profile(ledger: Ledger, name: str, runs: int) -> None:
    kind, change = changes(count())[name]
    with cProfile.Profile() as profile:
        for _ in range(runs):
            ledger.change(PATH, kind, change)
    pstats.Stats(profile).sort_stats("tottime").print_stats(14)


def p95(took: list[float]) -> float:
    return sorted(took)[len(took) * 95 // 100]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--places", type=int, default=500)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--folder", help="where to write; the disk there is what is measured")
    parser.add_argument("--profile", choices=list(changes(count())), help="one action, function by function")
    options = parser.parse_args()
    review = proposed_review(options.lines, options.places)
    with (
        tempfile.TemporaryDirectory(prefix="newel-bench-", dir=options.folder) as folder,
        Ledger.open(Path(folder, "review")) as ledger,
    ):
        file = msgspec.structs.replace(review, hunks=())
        ledger.change(PATH, "rebase", lambda _: file)
        first = time_ms(lambda: ledger.change(PATH, "propose", lambda _: review))
        if options.profile:
            profile(ledger, options.profile, options.runs)
            return
        took = on_disk(ledger, options.runs)
        size = sum(file.stat().st_size for file in Path(folder, "review").iterdir())
    floors = in_memory(review, options.runs)
    print(f"{'action':>8}{'median ms':>12}{'p95':>8}{'floor':>8}")
    print(f"{'propose':>8}{first:>12.1f}")
    for name, each in took.items():
        floor = f"{statistics.median(floors[name]):.1f}" if name in floors else ""
        print(f"{name:>8}{statistics.median(each):>12.1f}{p95(each):>8.1f}{floor:>8}")
    print(f"{size / 2**20:.1f} MiB on disk after {sum(map(len, took.values()))} actions")


if __name__ == "__main__":
    main()
