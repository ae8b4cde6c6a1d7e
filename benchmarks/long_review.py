"""Reviewing ten runs of 10,000 changed lines each, with the floor of each figure beside it.

    ./run python -m benchmarks.long_review [--runs 3] [--shapes rewritten scattered many pending files]

rewritten: each run replaces all 10,000 lines of one file. scattered: each changes every second line of a file of 20,000.
many: each changes 100 lines in each of 100 files of 300. pending: the runs proposed 10,000 changed lines in blocks of twenty in a file of
20,000 lines each, and nothing is decided.

files: one run changes a line in each of 2,000 files, and is undone and redone.

``review``, ``undo`` and ``decide`` run with the standard output of a script or on a pseudo-terminal, there until the first screen. *wall*
and *cpu* are seconds, *MiB* is the largest resident size. The floors are a command that reads no change from the ledger, and git, which
compares two folders for each run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.pseudo_terminal import Figure, PseudoTerminal, heading, measure, median

from newel.diff.patience import diff
from newel.review.model.file_lines import content_of, lines_of
from newel.review.model.file_review import FileReview, Hunk, Layer, Lines
from newel.review.model.rebase import rebased
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.tracking.applied_sink import recorded
from newel.review.tracking.recording_workspace import ledger_folder

NEWEL: Final = [sys.executable, "-m", "newel"]
RUNS: Final = 10
FILES: Final = 2_000


REWRITE: Final = """
import os, pathlib
for file in [*pathlib.Path("src").rglob("*.py")] * 2:
    data, new = file.read_bytes(), file.with_suffix(".new")
    with new.open("wb") as out:
        out.write(data)
        os.fsync(out.fileno())
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
"""


def text(name: str, lines: int) -> Lines:
    return lines_of(
        "".join(f"    {name}_{n} = compute({n * 7919 % 1000}, {n})\n" for n in range(lines)).encode()
    )


def changed(lines: Lines, run: int, places: range) -> Lines:
    now = list(lines)
    for at in places:
        now[1 + at] = f"    changed_{at} = compute({at}, {run})  # run {run}\n"
    return tuple(now)


class Project:
    """A folder, and the ledger of ten runs in it."""

    def __init__(self, home: Path) -> None:
        self.home, self.root = home, home / "project"
        self.root.mkdir()
        self.before = home / "before"
        """The files before the last run."""
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        self.began = datetime.now(UTC) - timedelta(hours=RUNS)

    def fill(self, shape: str) -> None:
        with Ledger.open(ledger_folder(self.home / ".newel", str(self.root))) as ledger:
            files = {f"src/file{n}.py": text(f"name{n}", 300) for n in range(100)} if shape == "many" else {}
            if shape == "files":
                files = {f"src/part{n // 100}/file{n}.py": text(f"name{n}", 20) for n in range(FILES)}
                self._record(ledger, 0, files, range(5, 6))
                self._write_all(files)
                return
            if shape == "rewritten":
                files = {"src/big.py": text("name", 10_000)}
            if shape == "scattered":
                files = {"src/big.py": text("name", 20_000)}
            places = {"rewritten": range(10_000), "scattered": range(0, 20_000, 2), "many": range(50, 250, 2)}
            for run in range(RUNS):
                if run == RUNS - 1:
                    for path, lines in files.items():
                        self._write(self.before / path, lines)
                with ledger.batch(flush=False):
                    if shape == "pending":
                        self._propose(ledger, run)
                    else:
                        self._record(ledger, run, files, places[shape])
            self._write_all(files)

    def _write_all(self, files: dict[str, Lines]) -> None:
        for path, lines in files.items():
            self._write(self.root / path, lines)

    def _record(self, ledger: Ledger, run: int, files: dict[str, Lines], places: range) -> None:
        befores: list[FileVersion] = []
        for path, before in files.items():
            befores.append(self._version(ledger, path, before))
            files[path] = after = changed(before, run, places)
            ledger.change(path, "rebase", partial(rebased, base=before))
            make = partial(recorded, before=before, after=after, run=f"r{run}")
            ledger.change(path, "record", make, run=f"r{run}")
        self._add(ledger, run, befores)

    def _propose(self, ledger: Ledger, run: int) -> None:
        path = f"src/big{run}.py"
        base = text(f"name{run}", 20_000)
        places = [at for block in range(500) for at in range(block * 40, block * 40 + 20)]
        now = list(base)
        for at in places:
            now[1 + at] = f"    changed_{at} = compute({at}, {run})  # run {run}\n"
        after = tuple(now)
        hunks = tuple(
            Hunk(
                id=f"h_{run:02}{n:06}",
                a=span.a0,
                b=span.a1,
                layers=(Layer(origin="agent", lines=after[span.b0 : span.b1], run=f"r{run}"),),
            )
            for n, span in enumerate(diff(base, after))
        )
        self._write(self.root / path, base)
        before = self._version(ledger, path, base)
        ledger.change(path, "rebase", lambda _: FileReview(path=path, base=base))
        proposed = partial(msgspec.structs.replace, hunks=hunks, rev=2)
        ledger.change(path, "propose", proposed, run=f"r{run}")
        self._add(ledger, run, [before])

    def _add(self, ledger: Ledger, run: int, befores: list[FileVersion]) -> None:
        when = (self.began + timedelta(hours=run)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        ledger.add_checkpoint(
            Checkpoint(
                id=f"cp_{run:08}", created=when, run=f"r{run}", title=f"Run {run}", files=tuple(befores)
            )
        )

    def _version(self, ledger: Ledger, path: str, lines: Lines) -> FileVersion:
        content = content_of(lines)
        assert content is not None
        return FileVersion(path=path, blob=ledger.put_blobs([content.data])[0], mode=content.mode)

    def _write(self, file: Path, lines: Lines) -> None:
        content = content_of(lines)
        assert content is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.data)
        file.chmod(content.mode)

    def run(self, *words: str) -> Figure:
        return measure(words, cwd=self.root, environ=self.environ)

    def undo_and_redo(self) -> Figure:
        undo, redo = self.run(*NEWEL, "undo", "--yes"), self.run(*NEWEL, "redo", "--yes")
        return Figure(undo.wall + redo.wall, undo.cpu + redo.cpu, max(undo.memory, redo.memory))

    def shown(self, words: str, *command: str) -> Figure:
        """A command on a terminal, until words are on the screen."""
        with PseudoTerminal(command, cwd=self.root, environ=self.environ) as terminal:
            wall = terminal.wait_for(words) - terminal.began
            return Figure(wall, terminal.cpu(), terminal.resident())


def report(project: Project, shape: str, runs: int) -> None:
    def tell(name: str, once: Callable[[], Figure], limit: str = "") -> None:
        median([once() for _ in range(runs)]).tell(name, limit)

    project.run(*NEWEL, "checkpoints")  # warm-up

    if shape == "files":
        tell(f"newel undo and redo of {FILES:,} files", project.undo_and_redo)
        tell(
            "floor: their files read, written and flushed twice",
            lambda: project.run(sys.executable, "-c", REWRITE),
        )
        return
    tell("newel review, to a file", lambda: project.run(*NEWEL, "review"), "0.7 s")
    tell(
        "newel review, first screen of the pager",
        lambda: project.shown("compute(", *NEWEL, "review"),
        "0.7 s",
    )
    if shape == "pending":
        tell("newel decide, first hunk", lambda: project.shown("compute(", *NEWEL, "decide"), "0.7 s")
        tell("newel review --check", lambda: project.run(*NEWEL, "review", "--check"))
    tell("newel undo, its question", lambda: project.shown("[y/N", *NEWEL, "undo"), "0.7 s")
    tell("floor: newel checkpoints", lambda: project.run(*NEWEL, "checkpoints"))
    if project.before.exists():
        git = f"git diff --no-index {project.before}/src src"
        command = f"{git}; for n in $(seq 2 {RUNS}); do {git} --shortstat; done; true"
        tell("floor: git diff, and --shortstat nine times", lambda: project.run("sh", "-c", command))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shapes", nargs="+", default=["rewritten", "scattered", "many", "pending"])
    options = parser.parse_args()
    for shape in options.shapes:
        with tempfile.TemporaryDirectory(prefix="newel-bench-") as home:
            project = Project(Path(home))
            project.fill(shape)
            print(heading(shape))
            report(project, shape, options.runs)


if __name__ == "__main__":
    main()
