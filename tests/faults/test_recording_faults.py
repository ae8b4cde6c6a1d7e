"""If these fail, one short disk failure under the ledger makes a run impossible to undo exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from newel.review.tracking.recording_workspace import RecorderRegistry
from newel.workspace.local import LocalWorkspace
from tests.faults.recording_child import OLD, prepare
from tests.faults.system_call_faults import needs_strace, run_traced, run_with_fault, sample, steps

pytestmark = [pytest.mark.anyio, needs_strace]

CHILD = "tests.faults.recording_child"
NEW = {"a": b"1\n2\n", "c/d": b"D\n", "new/e": b"e\n"}


def files(project: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()
    }


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    prepare(folder)
    return folder


async def undo(folder: Path) -> None:
    recorders = RecorderRegistry(folder / "home")
    recorder = await recorders.recorder_of(LocalWorkspace(str(folder / "project")))
    plan = await recorder.project.undo()
    assert not plan.conflicts
    await recorder.project.apply(plan)
    recorders.close()


@pytest.mark.slow  # some twenty processes are traced
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["error=EIO", "error=ENOSPC"])
async def test_an_io_error_costs_a_run_nothing_of_its_undo(tmp_path: Path, fault: str) -> None:
    folder = fresh(tmp_path / "place")
    found = [step for step in steps(folder, CHILD) if step.call not in {"mkdir", "mkdirat"}]
    assert files(folder / "project") == NEW
    tried = 0
    for step in sample(found, 10):
        ran = run_with_fault(fault, step, fresh(folder), CHILD)
        if str(folder / "home") not in ran.at:
            continue  # it hit a file of the run itself, which then took another path
        tried += 1
        with ran.noted(f"{fault} at {step}"):
            assert ran.said.endswith("done")
            assert files(folder / "project") == NEW
            await undo(folder)
            assert files(folder / "project") == OLD
    assert tried


@pytest.mark.slow  # some ten processes are traced
@pytest.mark.timeout(120)
async def test_an_unreadable_folder_costs_a_run_nothing_of_its_undo(tmp_path: Path) -> None:
    folder = fresh(tmp_path / "place")
    below = steps(folder / "project", CHILD, calls="getdents64", place=folder)
    tried = 0
    for step in sample(below, 8):
        ran = run_with_fault("error=EIO", step, fresh(folder), CHILD, calls="getdents64")
        if str(folder / "project") not in ran.at:
            continue
        tried += 1
        with ran.noted(f"EIO at {step}"):
            assert ran.said == "done"
            await undo(folder)
            assert files(folder / "project") == OLD
    assert tried


async def test_signals_that_cannot_be_handled_are_an_explained_error(tmp_path: Path) -> None:
    ended = run_traced(
        CHILD, [str(tmp_path), "listen"], tmp_path / "trace", ["trace=fcntl", "inject=fcntl:error=EIO"]
    )
    assert "INJECTED" in (tmp_path / "trace").read_text()
    assert "Newel cannot handle signals" in ended.stdout
    assert "Traceback" not in ended.stderr
