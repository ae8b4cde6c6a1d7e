"""Runs a review to its end: ``review_child FOLDER apply|rollback|scoped|undo``.

Prints ``done``, or the error's message.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from newel.agent.errors import NewelError
from newel.review.project import ProjectReview
from newel.review.save import DiskSync
from newel.review.store.ledger import Ledger
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.requests import RollbackRequest
from newel.workspace.local import LocalWorkspace
from tests.faults.traced_start import wait_for_tracer
from tests.review_bench import ReviewBench, hunks, proposes, replace, says
from tests.scripted_provider import ScriptedProvider

Files = dict[str, tuple[bytes, int] | None]
OLD: Files = {"a.md": (b"one\ntwo\n", 0o640), "b.md": (b"one\r\ntwo\r\n", 0o755), "sub/c.md": None}
NEW: Files = {
    "a.md": (b"one\nzwei\n", 0o640),
    "b.md": (b"eins\r\ntwo\r\n", 0o755),
    "sub/c.md": (b"drei\n", 0o644),
}
ONE_BACK: Files = {**NEW, "b.md": OLD["b.md"]}
ALL_BACK = RollbackRequest(mode="hard_all")


def files(project: Path) -> Files:
    """The files and their permission bits."""
    paths = {name: project / name for name in OLD}
    return {
        name: (path.read_bytes(), path.stat().st_mode & 0o777) if path.exists() else None
        for name, path in paths.items()
    }


def place(folder: Path) -> ReviewBench:
    edits = proposes(
        replace("a.md", 2, "zwei\n"),
        replace("b.md", 1, "eins\n"),
        {"file_path": "sub/c.md", "operation": "insert", "start_line": 1, "new_text": "drei\n"},
    )
    return ReviewBench(folder, ScriptedProvider([edits, says("Done.")]), ReviewLimits())


class LeftAlone(NewelError):
    """Not everything was undone."""


def check(conflicts: Sequence[object]) -> None:
    if conflicts:
        raise LeftAlone(str(conflicts))


async def prepare(folder: Path, *, applied: bool) -> None:
    """A job that awaits review, or was applied."""
    at = place(folder)
    for name, there in OLD.items():
        if there is not None:
            (at.root / name).write_bytes(there[0])
            (at.root / name).chmod(there[1])
    async with at.open():
        view = await at.start()
        if applied:
            await at.desk.jobs.apply(
                view.session_id, view.id, [each.hunk_id for each in hunks(view).values()]
            )


async def apply(folder: Path) -> None:
    at = place(folder)
    async with at.open(working=False) as desk:
        view = await desk.jobs.get((await at.engine.find(kind="review"))[-1].id)
        run = await desk.checkpoints.get((await desk.overview.checkpoints()).checkpoints[-1].checkpoint_id)
        await desk.jobs.apply(
            view.session_id, view.id, [hunk.hunk_id for file in run.files for hunk in file.hunks]
        )


async def roll_back(folder: Path, *, scoped: bool = False) -> None:
    at = place(folder)
    async with at.open(working=False) as desk:
        run = await desk.checkpoints.get((await desk.overview.checkpoints()).checkpoints[-1].checkpoint_id)
        ids = [hunk.hunk_id for file in run.files if file.file_path == "b.md" for hunk in file.hunks]
        request = RollbackRequest(mode="scoped_selected", hunk_ids=ids)
        done = await desk.checkpoints.roll_back(run.checkpoint_id, request if scoped else ALL_BACK)
        await desk.decisions.save(list(OLD))
    check(done.conflicts)


async def undo(folder: Path) -> None:
    await _undo(folder, again=False)


async def redo(folder: Path) -> None:
    await _undo(folder, again=True)


async def _undo(folder: Path, *, again: bool) -> None:
    with Ledger.open(folder / "review") as ledger:
        workspace = LocalWorkspace(str(folder / "project"))
        await DiskSync(ledger, workspace).recover()
        project = ProjectReview(ledger, workspace)
        plan = await (project.redo() if again else project.undo())
        await project.apply(plan)
    check(plan.conflicts)


async def do(folder: Path, what: str) -> None:
    match what:
        case "apply":
            await apply(folder)
        case "undo":
            await undo(folder)
        case _:
            await roll_back(folder, scoped=what == "scoped")


async def main(folder: Path, what: str) -> None:
    anyio.to_thread.current_default_thread_limiter().total_tokens = (
        1  # so that steps are counted in few threads
    )
    said = "done"
    try:
        await do(folder, what)
    except* NewelError as group:  # the task group of the worker makes it a group
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            (error,) = error.exceptions
        said = str(error)
    os.writev(1, [said.encode()])  # a call that cannot be the one that fails


if __name__ == "__main__":
    wait_for_tracer()
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
