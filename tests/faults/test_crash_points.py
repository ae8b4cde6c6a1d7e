"""If these fail, a crash or a disk error at some step makes files and ledger disagree, or loses messages."""

from __future__ import annotations

import contextlib
import shutil
from functools import partial
from pathlib import Path

import anyio
import pytest

from newel.review.model.file_lines import content_of, lines_of
from tests.faults import review_child
from tests.faults.review_child import NEW, OLD, ONE_BACK, Files, files
from tests.faults.system_call_faults import KILLED, Outcome, needs_strace, run_with_fault, sample, steps
from tests.review_bench import ReviewBench

pytestmark = [pytest.mark.anyio, needs_strace]

CHILD = "tests.faults.review_child"
WAYS: dict[str, tuple[Files, Files]] = {
    "apply": (OLD, NEW),
    "rollback": (NEW, OLD),
    "scoped": (NEW, ONE_BACK),
    "undo": (NEW, OLD),
}
MOST = 6
"""Steps of each way that are tried in the suite; `FAULTS_AT_EVERY_STEP=1` tries all."""


@pytest.fixture(scope="session")
def origins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that awaits review, and an applied one."""
    folder = tmp_path_factory.mktemp("origins").resolve()
    for name in ("waiting", "applied"):
        (folder / name).mkdir()
        anyio.run(partial(review_child.prepare, folder / name, applied=name == "applied"))
    return folder


def copied(origins: Path, folder: Path, what: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(origins / ("waiting" if what == "apply" else "applied"), folder)
    return folder


def assert_whole(project: Path, what: str) -> None:
    start, end = WAYS[what]
    for name, there in files(project).items():
        assert there in {start[name], end[name]}, name


def assert_agrees(at: ReviewBench) -> None:
    """Check that the ledger's base of each file is its content."""
    for name, there in files(at.root).items():
        lines = lines_of(*there) if there else ()
        assert content_of(at.ledger.get(name).base) == content_of(lines), name


def assert_nothing_left(project: Path) -> None:
    assert [path.name for path in project.rglob("*") if path.name.startswith(".")] == []


async def assert_goes_on(folder: Path, what: str, *, died: bool) -> None:
    """Check that the next process recovers, that a repeated request has the same result, and that it can be undone."""
    start, end = WAYS[what]
    at = review_child.place(folder)
    async with at.open(working=False) as desk:
        there = files(at.root)
        assert_whole(at.root, what)
        assert_agrees(at)
        assert at.ledger.intents() == []
        if died:  # begun work was completed, and failures were reported
            assert there in (start, end)
        if what == "apply":
            status = (await desk.jobs.get((await at.engine.find(kind="review"))[-1].id)).status
            assert status == "awaiting_review" or there == end
            assert status == "completed" or there == start or not died
    if what in {"apply", "rollback"} or there != end:
        with contextlib.suppress(review_child.LeftAlone):  # the buffer had already been restored
            await review_child.do(folder, what)
        there = files(at.root)
    assert there == end
    async with at.open(working=False) as desk:
        assert_agrees(at)
        run = (await desk.overview.checkpoints()).checkpoints[-1]
        await desk.checkpoints.roll_back(run.checkpoint_id, review_child.ALL_BACK)
        await desk.decisions.save(list(OLD))
        assert files(at.root) == OLD
        assert_agrees(at)
    assert_nothing_left(at.root)


async def each_step(origins: Path, folder: Path, what: str, fault: str) -> list[Outcome]:
    """A process with the fault at one of its steps, then at another one, each in a fresh project."""
    all_steps = steps(copied(origins, folder, what), CHILD, what)
    assert files(folder / "project") == WAYS[what][1]
    every: list[Outcome] = []
    for step in sample(all_steps, MOST if fault == KILLED else MOST // 2):
        ran = run_with_fault(fault, step, copied(origins, folder, what), CHILD, what)
        if fault != KILLED and str(folder) not in ran.at:
            continue  # another thread made these calls, for other files
        with ran.noted(f"{fault} at {step}"):
            assert_whole(folder / "project", what)
            assert ran.killed or ran.said
            if "done" in ran.said:
                assert files(folder / "project") == WAYS[what][1]
            await assert_goes_on(folder, what, died=ran.killed)
        every.append(ran)
    return every


@pytest.mark.slow  # forty processes are killed
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("what", WAYS)
async def test_a_process_that_dies_at_any_step_is_completed_by_the_next(
    tmp_path: Path, origins: Path, what: str
) -> None:
    assert [ran for ran in await each_step(origins, tmp_path / "copy", what, KILLED) if ran.killed]


@pytest.mark.slow  # eighty processes
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("fault", ["error=ENOSPC", "error=EIO"])
@pytest.mark.parametrize("what", WAYS)
async def test_a_disk_that_fails_at_any_step_is_reported_and_the_request_can_be_repeated(
    tmp_path: Path, origins: Path, what: str, fault: str
) -> None:
    told = [ran for ran in await each_step(origins, tmp_path / "copy", what, fault) if "done" not in ran.said]
    assert told
    assert not any(ran.killed for ran in told)
