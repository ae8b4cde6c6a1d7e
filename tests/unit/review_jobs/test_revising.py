"""If these fail, a sentence about one hunk changes other lines, loses a decision, or loses the proposal that it was about."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import FileReview, Hunk, Layer, StaleRevision, UserEditConflict
from newel.review.model.revision import NotRevisable, revisable
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.requests import Decision, EditRequest, HunkName, RunRequest, Splice
from newel.review_jobs.responses import FileState
from tests.review_bench import ReviewBench, calls, open_bench, proposes, replace, request_text, says
from tests.scripted_provider import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio

TEXT = "".join(f"line {n}\n" for n in range(1, 31))
FIRST: tuple[Answer, ...] = (
    proposes(replace("a.md", 3, "drei\n"), replace("a.md", 10, "zehn\n"), replace("a.md", 20, "zwanzig\n")),
    says("Three lines in German."),
)


async def decide(at: ReviewBench, number: int, action: str) -> FileState:
    file = await at.desk.files.state("a.md")
    hunk = file.hunks[number].hunk_id
    return await at.desk.decisions.decide(
        Decision(file_path="a.md", rev=file.rev, action=action, hunk_id=hunk)  # pyright: ignore[reportArgumentType]
    )


async def hunk_name(at: ReviewBench, number: int) -> HunkName:
    return HunkName(file_path="a.md", hunk_id=(await at.desk.files.state("a.md")).hunks[number].hunk_id)


def states(file: FileState) -> list[str]:
    return [hunk.state for hunk in file.hunks]


async def test_one_hunk_is_proposed_anew_and_all_other_decisions_stand(tmp_path: Path) -> None:
    asked: list[str] = []

    def revise(request: ModelRequest) -> AssistantMessage:
        asked.append(request_text(request))
        return proposes(replace("a.md", 10, "DIX\n"))

    async with open_bench(tmp_path, *FIRST, revise, says("In French.")) as at:
        at.write(a=TEXT)
        first = await at.start("Translate")
        await decide(at, 0, "accept")
        await decide(at, 2, "reject")
        name = await hunk_name(at, 1)
        view = await at.start("In French, please", first.session_id, revise=name)
        assert view.status == "awaiting_review"
        assert view.revise == name
        file = await at.desk.files.state("a.md")
        assert states(file) == ["accepted", "pending", "rejected"]
        assert "-line 10\n+DIX\n" in file.hunks[1].patch
        (earlier,) = file.hunks[1].earlier
        assert "-line 10\n+zehn\n" in earlier.patch
        assert earlier.run_id == first.id
        assert file.hunks[1].run_ids == (first.id, view.id)
        assert "line 10" in asked[0]
        assert "zehn" in asked[0]
        undone = await at.desk.decisions.undo("a.md", file.rev)
        assert "+zehn\n" in undone.hunks[1].patch
        assert states(undone) == ["accepted", "pending", "rejected"]
        assert at.read("a.md") == TEXT


async def test_edits_outside_the_hunk_are_refused_and_the_model_may_correct_itself(tmp_path: Path) -> None:
    tries = (
        proposes(replace("a.md", 10, "DIX\n"), replace("a.md", 25, "vingt-cinq\n")),
        proposes(replace("b.md", 1, "elsewhere\n")),
        proposes(replace("a.md", 9, "neuf\nDIX\n", end=10)),
        proposes(replace("a.md", 10, "DIX\n")),
    )
    async with open_bench(tmp_path, *FIRST, *tries, says("Only this line.")) as at:
        at.write(a=TEXT, b=TEXT)
        await at.start("Translate")
        view = await at.start("In French", revise=await hunk_name(at, 1))
        events = (await at.desk.jobs.events(view.id)).events
        calls_of = [event.data for event in events if event.type == "tool.call.completed"]
        assert [call["ok"] for call in calls_of] == [False, False, False, True]
        assert "only the lines 10 to 10" in calls_of[0]["error"]
        assert "b.md stays as it is" in calls_of[1]["error"]
        file = await at.desk.files.state("a.md")
        assert "vingt" not in str(file.content)
        assert "neuf" not in str(file.content)
        assert "DIX" in str(file.content)


async def test_a_decision_made_meanwhile_applies_to_the_version_that_was_seen(tmp_path: Path) -> None:
    async with open_bench(tmp_path, *FIRST, proposes(replace("a.md", 10, "DIX\n")), says("Done.")) as at:
        at.write(a=TEXT)
        await at.start("Translate")
        name = await hunk_name(at, 1)
        await decide(at, 1, "accept")
        await at.start("In French", revise=name)
        file = await at.desk.files.state("a.md")
        assert states(file)[1] == "pending"
        with pytest.raises(StaleRevision):
            await at.desk.decisions.decide(
                Decision(file_path="a.md", rev=file.rev, action="accept", hunk_id=name.hunk_id)
            )
        with pytest.raises(StaleRevision):
            await at.start("Again", revise=name)


async def test_neighbours_that_touch_the_hunk_keep_their_decisions(tmp_path: Path) -> None:
    whole = proposes(replace("a.md", 10, "zehn\nelf\nzwoelf\n", end=12))
    again = proposes(replace("a.md", 11, "ONZE\n"))
    async with open_bench(tmp_path, whole, says("Done."), again, says("Done.")) as at:
        at.write(a=TEXT)
        await at.start("Translate")
        await decide(at, 0, "split")
        parts = await decide(at, 1, "split")
        assert [(hunk.start_line, hunk.end_line) for hunk in parts.hunks] == [(10, 10), (11, 11), (12, 12)]
        await decide(at, 0, "accept")
        await decide(at, 2, "reject")
        await at.start("In French", revise=await hunk_name(at, 1))
        file = await at.desk.files.state("a.md")
        assert states(file) == ["accepted", "pending", "rejected"]
        assert [file.hunks[number].hunk_id for number in (0, 2)] == [
            parts.hunks[number].hunk_id for number in (0, 2)
        ]
        assert "-line 11\n+ONZE\n" in file.hunks[1].patch


async def test_a_rejected_hunk_is_proposed_anew_on_the_lines_of_the_file(tmp_path: Path) -> None:
    async with open_bench(tmp_path, *FIRST, proposes(replace("a.md", 10, "DIX\n")), says("Done.")) as at:
        at.write(a=TEXT)
        await at.start("Translate")
        await decide(at, 1, "reject")
        await at.start("In French", revise=await hunk_name(at, 1))
        file = await at.desk.files.state("a.md")
        assert states(file) == ["pending"] * 3
        assert "-line 10\n+DIX\n" in file.hunks[1].patch
        assert "+zehn\n" in file.hunks[1].earlier[0].patch


async def test_a_hunk_in_conflict_is_proposed_anew_on_the_changed_file(tmp_path: Path) -> None:
    asked: list[str] = []

    def revise(request: ModelRequest) -> AssistantMessage:
        asked.append(request_text(request))
        return proposes(replace("a.md", 10, "DIX + theirs\n"))

    async with open_bench(tmp_path, *FIRST, revise, says("Done.")) as at:
        at.write(a=TEXT)
        await at.start("Translate")
        await decide(at, 0, "accept")
        at.write(a=TEXT.replace("line 10\n", "theirs\n"))
        assert (await at.desk.files.state("a.md")).hunks[1].conflict
        await at.start("Take theirs, too", revise=await hunk_name(at, 1))
        file = await at.desk.files.state("a.md")
        assert "theirs" in asked[0]
        assert "zehn" in asked[0]
        assert [hunk.conflict for hunk in file.hunks] == [False] * 3
        assert states(file) == ["accepted", "pending", "pending"]
        assert "-theirs\n+DIX + theirs\n" in file.hunks[1].patch


async def test_lines_of_the_users_own_are_not_given_to_an_agent(tmp_path: Path) -> None:
    async with open_bench(tmp_path, *FIRST) as at:
        at.write(a=TEXT)
        await at.start("Translate")
        file = await at.desk.files.state("a.md")
        splice = Splice(start_line=10, delete_lines=1, new_text="ich\n")
        await at.desk.decisions.edit(EditRequest(file_path="a.md", rev=file.rev, splices=[splice]))
        with pytest.raises(UserEditConflict, match="your lines"):
            await at.start("In French", revise=await hunk_name(at, 1))


def test_a_hunk_without_lines_is_refused() -> None:
    before, after = lines_of(b"x\n", mode=0o644), lines_of(b"x\n", mode=0o755)
    layer = Layer(origin="agent", lines=after[:1], run="job")
    review = FileReview(path="a.sh", base=before, hunks=(Hunk(id="h_1", a=0, b=1, layers=(layer,)),))
    with pytest.raises(NotRevisable):
        revisable(review, "h_1")


async def test_removed_lines_come_back_in_another_form(tmp_path: Path) -> None:
    remove = proposes({"file_path": "a.md", "operation": "delete", "start_line": 10, "end_line": 12})
    insert = proposes(
        {"file_path": "a.md", "operation": "insert", "start_line": 10, "new_text": "ten to twelve\n"}
    )
    async with open_bench(tmp_path, remove, says("Done."), insert, says("Done.")) as at:
        at.write(a=TEXT)
        await at.start("Remove them")
        await at.start("Leave one line in their place", revise=await hunk_name(at, 0))
        (hunk,) = (await at.desk.files.state("a.md")).hunks
        assert "-line 10\n-line 11\n-line 12\n+ten to twelve\n" in hunk.patch


async def test_a_proposed_file_is_proposed_anew_and_written_as_it_was_accepted(tmp_path: Path) -> None:
    add = proposes({"file_path": "new.md", "operation": "insert", "start_line": 1, "new_text": "one\ntwo\n"})
    again = proposes(replace("new.md", 2, "deux\ntrois\n"))
    async with open_bench(tmp_path, add, says("Done."), again, says("Done.")) as at:
        await at.start("Add it")
        (hunk,) = (await at.desk.files.state("new.md")).hunks
        await at.start("More", revise=HunkName(file_path="new.md", hunk_id=hunk.hunk_id))
        file = await at.desk.files.state("new.md")
        assert file.content == "one\ndeux\ntrois\n"
        (hunk,) = file.hunks
        await at.desk.decisions.decide(
            Decision(file_path="new.md", rev=file.rev, action="accept", hunk_id=hunk.hunk_id)
        )
        await at.desk.decisions.save(["new.md"])
        assert at.read("new.md") == "one\ndeux\ntrois\n"


async def test_it_is_announced_until_it_has_proposed_and_outlives_its_process(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def never(_: ModelRequest) -> AssistantMessage:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    again = (proposes(replace("a.md", 10, "DIX\n")), says("In French."))
    place = ReviewBench(tmp_path, ScriptedProvider([*FIRST, never, *again]), ReviewLimits())
    place.write(a=TEXT)
    async with place.open():
        first = await place.start("Translate")
        name = await hunk_name(place, 1)
        request = RunRequest(session_id=first.session_id, instruction="In French", revise=name)
        job = await place.desk.jobs.run(request)
        await asked.wait()
        (session,) = (await place.desk.sessions.list()).sessions
        assert [(each.job_id, each.hunk_id, each.instruction) for each in session.revising] == [
            (job.job_id, name.hunk_id, "In French")
        ]
    async with place.open():
        view = await place.settled(job.job_id)
        assert view.status == "awaiting_review"
        (session,) = (await place.desk.sessions.list()).sessions
        assert session.revising == ()
        file = await place.desk.files.state("a.md")
        assert "+DIX\n" in file.hunks[1].patch
        assert len(file.hunks[1].earlier) == 1


async def test_a_hunk_that_is_saved_before_the_job_begins_ends_the_job_in_words(tmp_path: Path) -> None:
    ask = (calls("clarify_user", question="Which?"), says("Nothing then."))
    async with open_bench(tmp_path, *FIRST, *ask) as at:
        at.write(a=TEXT)
        first = await at.start("Translate")
        blocking = await at.start("Something else", first.session_id)
        name = await hunk_name(at, 1)
        job = await at.desk.jobs.run(
            RunRequest(session_id=first.session_id, instruction="In French", revise=name)
        )
        await decide(at, 1, "accept")
        await at.desk.decisions.save(["a.md"])
        assert blocking.question is not None
        await at.desk.jobs.clarify(blocking.id, blocking.question.question_id, None)
        view = await at.settled(job.job_id)
        assert view.status == "failed"
        assert "has no hunk" in str(view.error)
        assert "zehn" in at.read("a.md")
