"""If these fail, the list of runs tells another size or state of a change than its diff."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from newel.diff.unified import MINUS
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import Lines
from newel.review.model.history import NothingToUndo
from newel.review.project import ProjectReview, load_run
from newel.review.run_summaries import FileSummary, summarize_runs, summary_of
from newel.review.store.ledger import Ledger
from newel.review.tracking.applied_sink import recorded
from newel.workspace.local import LocalWorkspace

pytestmark = pytest.mark.anyio

RUNS = 6


class History:
    """Runs that changed files in a folder, and were recorded."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        folder.mkdir()
        self.folder = folder
        self.project = ProjectReview(ledger, LocalWorkspace(str(folder)))
        self.now: dict[str, Lines] = {}

    async def run(self, run: str, *changes: tuple[str, bytes | None, int]) -> None:
        """Each change is a file with its new content, None for no file, and its mode."""
        checkpoint = await self.project.checkpoints.begin(run, title=run)
        for path, data, mode in changes:
            await self.project.checkpoints.touch(checkpoint.id, path)
            before, after = self.now.get(path, ()), lines_of(data, mode)
            self.write(path, data, mode)
            make = partial(recorded, before=before, after=after, run=run)
            self.project.ledger.change(path, "record", make, run=run)

    def write(self, path: str, data: bytes | None, mode: int = 0o644) -> None:
        self.now[path] = lines_of(data, mode)
        file = self.folder / path
        if data is None:
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(data)
            file.chmod(mode)

    async def summaries(self) -> list[tuple[FileSummary, ...]]:
        """The runs, the latest first. They have to be as their patches say."""
        checkpoints = self.project.ledger.checkpoints()
        refreshed = await self.project.refresh(*checkpoints)
        runs = await summarize_runs(self.project, checkpoints, refreshed)
        assert runs == [summary_of(await load_run(self.project, each)) for each in checkpoints]
        return [run.files for run in runs]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with Ledger.open(tmp_path / "ledger") as ledger:
        yield History(tmp_path / "project", ledger)


def numbered(*lines: int) -> bytes:
    return b"".join(b"%d\n" % line for line in lines)


async def test_the_size_and_the_state_of_a_change(history: History) -> None:
    await history.run("r1", ("a", numbered(1, 2, 3), 0o644), ("b", numbered(5), 0o644))
    await history.run("r2", ("a", numbered(1, 9, 3, 4), 0o644), ("b", numbered(5), 0o755))
    await history.run("r3", ("b", b"\0\1", 0o755))
    assert await history.summaries() == [
        (FileSummary("b", "", "", ""),),
        (FileSummary("a", f"+2 {MINUS}1", "", ""), FileSummary("b", "", "mode 644 → 755", "changed since")),
        (FileSummary("a", "+3", "", "changed since"), FileSummary("b", "+1", "", "changed since")),
    ]
    history.write("a", numbered(1, 2, 3))
    assert (await history.summaries())[1][0] == FileSummary("a", f"+2 {MINUS}1", "", "undone")


async def test_a_run_that_changed_a_file_twice_counts_what_remains(history: History) -> None:
    await history.run("r1", ("a", numbered(*range(10)), 0o644))
    await history.run("r2", ("a", numbered(*range(1, 10)), 0o644), ("a", numbered(*range(10)), 0o644))
    await history.run("r3", ("a", numbered(*range(2, 10)), 0o644), ("a", numbered(*range(1, 10)), 0o644))
    latest, without, _ = await history.summaries()
    assert latest == (FileSummary("a", f"{MINUS}1", "", ""),)
    assert without == ()


async def test_a_renamed_file_is_one_change(history: History) -> None:
    await history.run("r1", ("old", numbered(*range(20)), 0o644), ("kept", numbered(1), 0o644))
    await history.run(
        "r2",
        ("old", None, 0o644),
        ("new", numbered(*range(21)), 0o644),
        ("kept", numbered(2), 0o644),
    )
    assert (await history.summaries())[0] == (
        FileSummary("kept", f"+1 {MINUS}1", "", ""),
        FileSummary("old → new", "renamed", "", ""),
    )


@pytest.mark.parametrize("seed", range(12))
async def test_any_history_is_told_as_its_patches_tell_it(seed: int, history: History) -> None:
    draw = random.Random(seed)  # noqa: S311 — the same histories each time
    texts = [
        None,
        b"",
        b"\0",
        b"end",
        *(numbered(*draw.choices(range(4), k=draw.randrange(9))) for _ in range(9)),
    ]
    for run in range(RUNS):
        if draw.random() < 0.3:  # by the user
            history.write("a", draw.choice(texts))
            await history.project.saver.refresh("a")
        names = draw.choices("abc", k=draw.randrange(1, 5))
        changes = [(name, draw.choice(texts), draw.choice([0o644, 0o644, 0o755])) for name in names]
        await history.run(f"r{run}", *changes)
    if draw.random() < 0.5:
        with suppress(NothingToUndo):  # the last run changed nothing
            await history.project.apply(await history.project.undo())
    await history.summaries()
