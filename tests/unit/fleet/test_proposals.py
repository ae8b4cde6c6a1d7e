# ruff: noqa: ASYNC240 — small files of a scratch folder
"""If these fail, a job's work is lost on its way to the user's project, or changes it without a decision."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from newel.agent.errors import NewelError
from newel.app.fleet_changes import JobNotEnded, read_job_changes
from newel.config.settings import Flags, load_settings
from newel.fleet.errors import SnapshotError
from newel.fleet.proposals import AlreadyProposed, JobChanges, JobFile, JobFileChange, propose_changes
from newel.jobs.engine import Job, JobState
from newel.jobs.placement import Placement
from newel.review.decide import decide, load_pending, select_hunks, write
from newel.review.model.proposal import HunkSize
from newel.review.project import ProjectReview
from newel.review.store.ledger import Ledger
from newel.workspace.local import LocalWorkspace

pytestmark = pytest.mark.anyio

LINES = [f"line {n}\n" for n in range(40)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ProjectReview]:
    folder = tmp_path / "project"
    folder.mkdir()
    with Ledger.open(tmp_path / "ledger") as ledger:
        yield ProjectReview(ledger, LocalWorkspace(str(folder)))


def changes(*edits: JobFileChange, run: str = "job1") -> JobChanges:
    return JobChanges(run=run, session="s", title="Type the importer", edits=edits)


def text(*lines: str, mode: int = 0o644) -> JobFile:
    return JobFile("".join(lines).encode(), mode)


async def keep_all(project: ProjectReview) -> None:
    choice = select_hunks(await load_pending(project), [], "keep", every=True)
    reviews = await decide(project, choice)
    report = await write(project, reviews, choice.hunks)
    assert not report.problems


async def test_a_change_waits_and_is_written_once_it_is_kept(project: ProjectReview) -> None:
    file = Path(project.workspace.root, "a.py")
    file.write_text("".join(LINES))
    after = [*LINES]
    after[3], after[30] = "three\n", "thirty\n"
    notices = await propose_changes(
        project, changes(JobFileChange("a.py", text(*LINES), text(*after))), HunkSize()
    )
    assert notices == []
    assert file.read_text() == "".join(LINES)
    await keep_all(project)
    assert file.read_text() == "".join(after)


async def test_lines_that_the_user_has_changed_meanwhile_stay(project: ProjectReview) -> None:
    file = Path(project.workspace.root, "a.py")
    mine = [*LINES]
    mine[20] = "mine\n"
    file.write_text("".join(mine))
    after = [*LINES]
    after[3] = "three\n"
    await propose_changes(project, changes(JobFileChange("a.py", text(*LINES), text(*after))), HunkSize())
    await keep_all(project)
    merged = [*mine]
    merged[3] = "three\n"
    assert file.read_text() == "".join(merged)


async def test_new_removed_and_executable_files_and_links(project: ProjectReview) -> None:
    root = Path(project.workspace.root)
    (root / "old.py").write_text("old\n")
    (root / "run.sh").write_text("echo\n")
    await propose_changes(
        project,
        changes(
            JobFileChange("new/deep.py", None, text("new\n")),
            JobFileChange("old.py", text("old\n"), None),
            JobFileChange("run.sh", text("echo\n"), text("echo\n", mode=0o755)),
            JobFileChange("link", None, JobFile(b"new/deep.py", stat.S_IFLNK | 0o777)),
        ),
        HunkSize(),
    )
    assert sorted(path.name for path in root.iterdir()) == ["old.py", "run.sh"]
    await keep_all(project)
    assert (root / "new/deep.py").read_text() == "new\n"
    assert not (root / "old.py").exists()
    assert (root / "run.sh").stat().st_mode & 0o111
    assert str((root / "link").readlink()) == "new/deep.py"


async def test_what_was_decided_does_not_come_back(project: ProjectReview) -> None:
    edit = JobFileChange("a.py", None, text("new\n"))
    await propose_changes(project, changes(edit), HunkSize())
    await decide(project, select_hunks(await load_pending(project), [], "reject", every=True))
    with pytest.raises(AlreadyProposed, match="proposed here already"):
        await propose_changes(project, changes(edit), HunkSize())
    assert not Path(project.workspace.root, "a.py").exists()


@pytest.mark.parametrize(
    "path", ["../a", "/etc/passwd", ".git/hooks/pre-commit", "sub/.GIT/config", "a\0b", ""]
)
async def test_a_path_that_leads_out_is_not_proposed(project: ProjectReview, path: str) -> None:
    """It comes from an agent on another machine."""
    notices = await propose_changes(project, changes(JobFileChange(path, None, text("x\n"))), HunkSize())
    assert len(notices) == 1
    assert not project.ledger.paths()


@pytest.mark.parametrize(
    ("job", "state", "error"),
    [("../../elsewhere", "done", SnapshotError), ("3f9c", "running", JobNotEnded)],
)
async def test_a_job_whose_id_leads_elsewhere_and_one_that_goes_on_are_refused(
    tmp_path: Path, job: str, state: JobState, error: type[NewelError]
) -> None:
    """A submitter chooses the id of a job, and changes are proposed once."""
    values = {"kind": "fleet_contract", "queue": "q", "params": b"{}", "attempts": 1, "seq": 0}
    submitted = Job(id=job, state=state, created="", updated="", **cast("Any", values))
    settings = load_settings(Flags(), cwd=tmp_path, environ={"NEWEL_HOME": str(tmp_path / "newel")})
    with pytest.raises(error, match=job):
        await read_job_changes(settings, cast("Any", None), Placement(job=submitted, labels=[]))
    assert not (tmp_path / "newel" / "fleet").exists()
