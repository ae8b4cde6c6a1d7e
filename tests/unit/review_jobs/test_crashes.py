"""If these fail, a crash loses a decision, proposes twice, or applies a review by half."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

import anyio
import pytest

from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest
from newel.jobs.engine import JobOutcome
from newel.review.model.file_lines import lines_of, text_hash
from newel.review.model.file_review import Conflict
from newel.review.model.proposal import propose
from newel.review.store.pending_saves import PlannedWrite, SaveIntent
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.journal import JobJournal, event
from newel.review_jobs.requests import RunRequest
from newel.tools.review import ProposedEdit
from tests.review_bench import ReviewBench, calls, hunks, proposes, replace, request_text, says
from tests.scripted_provider import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio

TEXT = "one\ntwo\nthree\n"


def at(folder: Path, *script: Answer) -> ReviewBench:
    made = ReviewBench(folder, ScriptedProvider(script), ReviewLimits())
    made.write(a=TEXT, b=TEXT)
    return made


async def test_an_interrupted_job_continues_where_its_journal_ends(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def never(_: ModelRequest) -> AssistantMessage:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    place = at(
        tmp_path,
        calls("read_file", file_path="a.md"),
        never,
        lambda request: (
            proposes(replace("a.md", 2, "zwei\n"))
            if "two" in request_text(request) and "Interrupted" not in request_text(request)
            else says("It does not know what it read.")
        ),
        says("Done."),
    )
    async with place.open() as desk:
        session = await desk.sessions.create()
        job = await desk.jobs.run(RunRequest(session_id=session.session_id, instruction="Translate"))
        await asked.wait()
    async with place.open():
        view = await place.settled(job.job_id)
        assert view.status == "awaiting_review"
        assert (await place.types(view.id)).count("job.started") == 1


async def test_a_proposal_missing_from_the_journal_is_made_once(tmp_path: Path) -> None:
    place = at(
        tmp_path,
        calls("clarify_user", question="Both?"),
        proposes({"file_path": "a.md", "operation": "insert", "start_line": 1, "new_text": "zero\n"}),
        says("Done."),
    )
    async with place.open() as desk:
        view = await place.start()
        # What a process leaves that dies after the ledger's change and before the journal's.
        await desk.files.refresh("a.md")
        ids = count()
        edit = ProposedEdit(
            edit_id="e", file_path="a.md", operation="insert", start_line=1, new_text="zero\n"
        )
        make = partial(propose, edits=[edit], run=view.id, new_id=lambda: f"h_{next(ids)}")
        place.ledger.change("a.md", "propose", make, run=view.id)
    async with place.open() as desk:
        assert view.question is not None
        await desk.jobs.clarify(view.id, view.question.question_id, "Yes")
        view = await place.settled(view.id)
        assert view.status == "awaiting_review"
        assert (await desk.files.state("a.md")).content == f"zero\n{TEXT}"


async def test_an_accepted_answer_is_used_by_the_next_process(tmp_path: Path) -> None:
    place = at(
        tmp_path, calls("clarify_user", question="Both?"), lambda r: says(f"{'yes' in request_text(r)}")
    )
    async with place.open():
        view = await place.start()
        assert view.question is not None
    async with place.open(working=False) as desk:
        journal = await JobJournal.open(place.engine, view.id, limit=3000)
        asked = view.question.question_id
        await journal.annotate(
            event("clarification.received", question_id=asked, answer="yes", skipped=False)
        )
        assert (await desk.jobs.get(view.id)).status == "waiting_for_user"
    async with place.open():
        assert (await place.settled(view.id)).summary == "True"


@pytest.mark.parametrize("written", [False, True])
async def test_an_interrupted_application_is_completed_at_the_next_start(
    tmp_path: Path, *, written: bool
) -> None:
    place = at(tmp_path, proposes(replace("a.md", 2, "zwei\n"), replace("b.md", 1, "eins\n")), says("Done."))
    async with place.open():
        view = await place.start()
        shown = hunks(view)
    async with place.open(working=False):
        # What a process leaves that dies between the two files of a save.
        journal = await JobJournal.open(place.engine, view.id, limit=3000)
        ids = [hunk.hunk_id for hunk in shown.values()]
        await journal.annotate(event("apply.started", accepted_hunk_ids=ids))
        if written:
            saving = [
                PlannedWrite(
                    path=path,
                    rev=place.ledger.get(path).rev,
                    ids=(shown[f"{path}/0"].hunk_id,),
                    before=text_hash(lines_of(TEXT.encode())),
                    after=text_hash(lines_of(after.encode())),
                )
                for path, after in (("a.md", "one\nzwei\nthree\n"), ("b.md", "eins\ntwo\nthree\n"))
            ]
            place.ledger.begin_saving(SaveIntent(id="i", files=tuple(saving)))
            place.write(a="one\nzwei\nthree\n")
    async with place.open() as desk:
        assert (await desk.jobs.get(view.id)).status == "completed"
        assert (place.read("a.md"), place.read("b.md")) == ("one\nzwei\nthree\n", "eins\ntwo\nthree\n")
        applied = await desk.jobs.apply(view.session_id, view.id, ids)
        assert [file.applied_hunks for file in applied.applied_files] == [1, 1]
    async with place.open():
        assert (await place.types(view.id)).count("apply.completed") == 1


async def test_an_application_that_cannot_be_completed_awaits_review_again(tmp_path: Path) -> None:
    place = at(tmp_path, proposes(replace("a.md", 2, "zwei\n")), says("Done."))
    async with place.open():
        view = await place.start()
    async with place.open(working=False):
        journal = await JobJournal.open(place.engine, view.id, limit=3000)
        ids = [hunk.hunk_id for hunk in hunks(view).values()]
        await journal.annotate(event("apply.started", accepted_hunk_ids=ids))
        place.write(a="one\n2\nthree\n")
    async with place.open() as desk:
        now = await desk.jobs.get(view.id)
        assert now.status == "awaiting_review"
        assert [hunk.conflict for hunk in hunks(now).values()] == [True]
        assert place.read("a.md") == "one\n2\nthree\n"
        assert (await place.types(view.id))[-1] == "conflict.detected"


async def test_a_job_that_the_engine_gave_up_has_failed_with_the_reason(tmp_path: Path) -> None:
    place = at(tmp_path)
    async with place.open(working=False) as desk:
        session = await desk.sessions.create()
        job = await desk.jobs.run(RunRequest(session_id=session.session_id, instruction="Translate"))
        assert (await desk.jobs.get(job.job_id)).status == "queued"
        (lease,) = await place.engine.claim(1, "w")
        await place.engine.finish(lease, JobOutcome(state="failed", reason="the disk was full"))
        view = await desk.jobs.get(job.job_id)
        assert (view.status, view.error) == ("failed", "the disk was full")
    async with place.open() as desk:
        view = await desk.jobs.get(job.job_id)
        assert (view.status, view.error) == ("failed", "the disk was full")


async def test_an_applied_hunk_deleted_from_outside_is_not_reported_as_applied(
    tmp_path: Path,
) -> None:
    made = {"file_path": "c.md", "operation": "insert", "start_line": 1}
    place = at(
        tmp_path,
        proposes({**made, "new_text": "one\n"}),
        says("Done."),
        proposes({**made, "new_text": "zero\n"}),
        says("Done."),
    )
    async with place.open() as desk:
        first = await place.start()
        second = await place.start()
        (hunk,) = hunks(second).values()  # both have written to it
        await desk.jobs.apply(first.session_id, first.id, [hunk.hunk_id])
        (place.root / "c.md").unlink()
        with pytest.raises(Conflict):
            await desk.jobs.apply(second.session_id, second.id, [hunk.hunk_id])
        assert (await desk.jobs.get(second.id)).status == "awaiting_review"


async def test_a_job_resumes_in_its_mode(tmp_path: Path) -> None:
    """A job that is to stay on this machine would go on elsewhere, because the setting is another one by then."""
    place = at(tmp_path, calls("clarify_user", question="Sure?"), says("Done."))
    async with place.open():
        job = await place.start(agent_mode="local")
    async with place.open() as desk:
        assert job.question is not None
        await desk.jobs.clarify(job.id, job.question.question_id, "Yes")
        await place.settled(job.id)
    assert isinstance(place.provider, ScriptedProvider)
    asked = [(request.model.id, request.agent_mode) for request in place.provider.requests]
    assert asked == 2 * [("model of local", "local")]
