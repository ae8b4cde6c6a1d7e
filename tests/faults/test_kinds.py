"""If these fail, a crash while links and folders change leaves a tree that no undo can repair."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from newel.review.model.file_review import ReviewError
from newel.review.tracking.recording_workspace import RecorderRegistry
from newel.workspace.local import LocalWorkspace
from tests.faults import kinds_child
from tests.faults.kinds_child import BEGIN, sh
from tests.faults.system_call_faults import KILLED, ROOT, needs_strace, run_with_fault, sample, steps
from tests.unit.review.model.test_file_kinds import Tree, tree

pytestmark = pytest.mark.anyio

CHILD = "tests.faults.kinds_child"
CALLS = (
    "unlinkat,mkdirat,symlinkat,mknodat,chmod,fchmodat,renameat,renameat2,rename,linkat,pwrite64,fdatasync"
)


def fresh(folder: Path) -> Tree:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "project").mkdir(parents=True)
    sh(folder / "project", BEGIN)
    return tree(folder / "project")


async def done(folder: Path) -> None:
    """Run the work, recorded."""
    with anyio.fail_after(30):
        await kinds_child.main(folder, "run")


async def undo(folder: Path, *, again: bool = False) -> None:
    """Undo the work, or do it ``again``."""
    recorders = RecorderRegistry(folder / "home")
    recorder = await recorders.recorder_of(LocalWorkspace(str(folder / "project")))
    plan = await (recorder.project.redo() if again else recorder.project.undo())
    assert plan.conflicts == ()
    await recorder.project.apply(plan)
    recorders.close()


async def test_changes_of_a_command_are_undone_although_newel_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "place"
    before = fresh(folder)
    words = [sys.executable, "-m", CHILD, str(folder), "die"]
    ended = await anyio.run_process(words, cwd=ROOT, input=b"\n", check=False)
    assert ended.returncode == -9, ended.stderr
    after = tree(folder / "project")
    assert after != before
    await undo(folder)
    assert tree(folder / "project") == before
    await undo(folder, again=True)
    assert tree(folder / "project") == after


@needs_strace
@pytest.mark.slow  # some twenty processes are killed
@pytest.mark.timeout(300)
async def test_an_undo_killed_at_any_step_is_completed(tmp_path: Path) -> None:
    folder, origin = tmp_path / "place", tmp_path / "origin"
    before = fresh(folder)
    await done(folder)
    shutil.move(folder, origin)

    def again() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["cp", "-a", origin, folder], check=True)

    again()
    all_steps = steps(folder, CHILD, "undo", calls=CALLS)
    assert tree(folder / "project") == before
    killed = 0
    for step in sample(all_steps, 12):
        again()
        ran = run_with_fault(KILLED, step, folder, CHILD, "undo", calls=CALLS)
        killed += ran.killed
        with ran.noted(f"killed at {step}"):
            recorders = RecorderRegistry(folder / "home")
            recorder = await recorders.recorder_of(LocalWorkspace(str(folder / "project")))  # this recovers
            if tree(folder / "project") != before:
                try:
                    plan = await recorder.project.undo()
                except ReviewError as error:
                    error.add_note(str(tree(folder / "project")))
                    raise
                assert plan.conflicts == ()
                await recorder.project.apply(plan)
            assert tree(folder / "project") == before
            recorders.close()
    assert killed
