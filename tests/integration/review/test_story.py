"""If it fails, a decision or a file is lost between an instruction and the rollback of its rollback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from newel.review.model.file_review import Conflict
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.requests import ContextRow, Decision, EditRequest, RollbackRequest, RunRequest, Splice
from newel.review_jobs.responses import JobView
from newel.review_jobs.service import ReviewService
from tests.review_bench import ReviewBench, calls, hunks, proposes, replace, says
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio

NOTES = "# Notes\n\nfirst\nsecond\nthird\n"
PLAN = "plan\r\nstep one\r\nstep two\r\n"

SCRIPT = (
    calls("search_project", query="second"),
    calls("read_file", file_path="notes.md"),
    calls("clarify_user", question="In capitals?"),
    proposes(
        replace("notes.md", 4, "SECOND\n", edit_id="e_1"),
        replace("notes.md", 1, "# NOTES\n", edit_id="e_2"),
        replace("plan.md", 2, "STEP ONE\n", edit_id="e_3"),
        {
            "file_path": "new/made.md",
            "operation": "insert",
            "start_line": 1,
            "new_text": "made\n",
            "edit_id": "e_4",
        },
    ),
    says("Three files in capitals."),
    calls("read_file", file_path="notes.md"),
    proposes(replace("notes.md", 3, "FIRST of mine\n", edit_id="e_5")),
    says("One line more."),
)


class Story:
    """The steps one by one. ``between`` is awaited after each."""

    def __init__(self, at: ReviewBench, between: Callable[[], Awaitable[None]]) -> None:
        self.at = at
        self._between = between

    @property
    def desk(self) -> ReviewService:
        return self.at.desk

    async def step(self, made: Awaitable[Any]) -> Any:
        answer = await made
        await self._between()
        return answer

    async def decide(self, path: str, number: int, action: Any, job: JobView) -> Any:
        hunk = hunks(job)[f"{path}/{number}"].hunk_id
        rev = (await self.desk.files.state(path)).rev
        return await self.step(
            self.desk.decisions.decide(Decision(file_path=path, rev=rev, action=action, hunk_id=hunk))
        )

    async def propose(self) -> JobView:
        """From the context row to a proposal for three files."""
        session = await self.step(self.desk.sessions.create())
        row = ContextRow(id="ctx_1", file_path="notes.md", start_line=4, end_line=4, content="second\n")
        started = await self.step(
            self.desk.jobs.run(
                RunRequest(session_id=session.session_id, instruction="In capitals", context_rows=[row])
            )
        )
        asked = await self.at.settled(started.job_id)
        assert asked.question is not None
        await self.step(self.desk.jobs.clarify(asked.id, asked.question.question_id, "Yes, all of it"))
        return await self.at.settled(asked.id)

    async def review(self, job: JobView) -> JobView:
        """A user's edit beside the proposal, one hunk rejected, two accepted, and one decision undone."""
        rev = (await self.desk.files.state("notes.md")).rev
        splice = Splice(start_line=5, delete_lines=1, new_text="third, by me\n")
        await self.step(
            self.desk.decisions.edit(EditRequest(file_path="notes.md", rev=rev, splices=[splice]))
        )
        job = await self.desk.jobs.get(job.id)
        await self.decide("notes.md", 0, "reject", job)
        await self.decide("notes.md", 1, "accept", job)
        await self.decide("new/made.md", 0, "accept", job)
        await self.decide("plan.md", 0, "reject", job)
        rev = (await self.desk.files.state("plan.md")).rev
        await self.step(self.desk.decisions.undo("plan.md", rev))
        return await self.desk.jobs.get(job.id)


async def tell(at: ReviewBench, between: Callable[[], Awaitable[None]]) -> dict[str, Any]:
    """Run the story; returns its final state."""
    story = Story(at, between)
    job = await story.propose()
    assert job.status == "awaiting_review"
    assert {file.file_path for file in job.diff_bundle.files} == {"notes.md", "plan.md", "new/made.md"}  # type: ignore[union-attr]
    job = await story.review(job)
    shown = hunks(job)
    decided = {name: (hunk.origin, hunk.accepted) for name, hunk in shown.items()}
    assert decided == {
        "notes.md/0": ("agent", False),
        "notes.md/1": ("agent", True),
        "notes.md/2": ("user", None),
        "new/made.md/0": ("agent", True),
        "plan.md/0": ("agent", None),
    }
    assert (at.read("notes.md"), at.read("plan.md")) == (NOTES, PLAN)
    accepted = [shown[name].hunk_id for name in ("notes.md/1", "notes.md/2", "new/made.md/0")]
    await story.step(story.desk.jobs.apply(job.session_id, job.id, accepted))
    saved = "# Notes\n\nfirst\nSECOND\nthird, by me\n"
    assert (at.read("notes.md"), at.read("plan.md"), at.read("new/made.md")) == (saved, PLAN, "made\n")

    second = await story.step(
        story.desk.jobs.run(RunRequest(session_id=job.session_id, instruction="And the first line"))
    )
    later = await at.settled(second.job_id)
    outside = saved.replace("first\n", "first, changed elsewhere\n")
    (at.root / "notes.md").write_text(outside)
    with pytest.raises(Conflict):
        await story.desk.jobs.apply(later.session_id, later.id, [hunks(later)["notes.md/0"].hunk_id])
    assert at.read("notes.md") == outside
    again = await at.settled((await story.step(story.desk.jobs.rerun(later.id))).job_id)
    assert again.status == "awaiting_review"
    await story.step(story.desk.jobs.apply(again.session_id, again.id, [hunks(again)["notes.md/0"].hunk_id]))
    final = outside.replace("first, changed elsewhere\n", "FIRST anew\n")
    assert at.read("notes.md") == final

    assert job.checkpoint_id is not None
    point = await story.desk.checkpoints.get(job.checkpoint_id)
    assert set(point.affected_files) == {"notes.md", "plan.md", "new/made.md"}
    hard = RollbackRequest(mode="hard_all")
    back = await story.step(story.desk.checkpoints.roll_back(job.checkpoint_id, hard))
    assert at.read("notes.md") == final  # only the buffers changed
    await story.step(story.desk.decisions.save(list(point.affected_files)))
    assert (at.read("notes.md"), at.read("plan.md")) == (NOTES, PLAN)
    assert not (at.root / "new/made.md").exists()
    await story.step(story.desk.checkpoints.roll_back(back.rollback_checkpoint_id, hard))
    await story.step(story.desk.decisions.save(list(point.affected_files)))
    assert (at.read("notes.md"), at.read("plan.md"), at.read("new/made.md")) == (final, PLAN, "made\n")
    types = [event.type for event in (await story.desk.jobs.events(job.id)).events]
    return {"types": types, "status": (await story.desk.jobs.get(job.id)).status}


def script() -> ScriptedProvider:
    anew = (
        calls("read_file", file_path="notes.md"),
        proposes(replace("notes.md", 3, "FIRST anew\n")),
        says("On the new text."),
    )
    return ScriptedProvider([*SCRIPT, *anew])


def place(folder: Path) -> ReviewBench:
    at = ReviewBench(folder, script(), ReviewLimits())
    (at.root / "notes.md").write_bytes(NOTES.encode())
    (at.root / "plan.md").write_bytes(PLAN.encode())
    return at


@pytest.mark.slow  # a story with a restart after each step
async def test_a_review_ends_the_same_with_a_new_process_after_each_step(tmp_path: Path) -> None:
    (tmp_path / "once").mkdir()
    (tmp_path / "anew").mkdir()

    async def stay() -> None:
        pass

    once = place(tmp_path / "once")
    async with once.open():
        first = await tell(once, stay)

    anew = place(tmp_path / "anew")
    async with AsyncExitStack() as outer:
        inner = AsyncExitStack()

        async def reopen() -> None:
            await inner.aclose()
            await inner.enter_async_context(anew.open())

        outer.push_async_callback(inner.aclose)
        await inner.enter_async_context(anew.open())
        second = await tell(anew, reopen)
    assert second == first
    assert first["status"] == "completed"
    assert {"checkpoint.rollback.started", "checkpoint.rollback.completed", "apply.completed"} <= set(
        first["types"]
    )
