"""If these fail, a review job is lost, fails silently, or acts without its user."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from newel.agent.events import MessageEnd, MessageStart, ToolExecutionStart
from newel.agent.messages import AssistantMessage, ToolCall, ToolResultMessage
from newel.agent.ports import ModelRequest
from newel.jobs.engine import Engine, JournalEntry
from newel.review.model.file_review import ChoiceNeeded, Conflict, StaleRevision, UnknownHunk
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import QuestionClosed, WrongState
from newel.review_jobs.journal import JobJournal
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.review_jobs.propose import Proposer
from newel.review_jobs.requests import ContextRow, Decision, EditRequest, RunRequest, Splice, ToolConfig
from newel.review_jobs.runner import JobEventRecorder
from newel.tools.review import ProposedEdit
from tests.review_bench import ReviewBench, calls, hunks, open_bench, proposes, replace, request_text, says
from tests.scripted_provider import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio

TEXT = "".join(f"line {n}\n" for n in range(1, 31))


async def test_a_proposal_is_shown_hunk_by_hunk_and_nothing_is_written(tmp_path: Path) -> None:
    edits = proposes(replace("a.md", 3, "drei\n", edit_id="e_1"), replace("a.md", 20, "zwanzig\n"))
    async with open_bench(
        tmp_path, calls("read_file", file_path="a.md"), edits, says("Two lines in German.")
    ) as at:
        at.write(a=TEXT)
        view = await at.start("Translate lines 3 and 20")
        assert view.status == "awaiting_review"
        shown = hunks(view)
        assert "-line 3\n+drei\n" in shown["a.md/0"].patch
        assert shown["a.md/0"].edit_ids == ("e_1",)
        assert [hunk.accepted for hunk in shown.values()] == [None, None]
        assert view.summary == "Two lines in German."
        assert at.read("a.md") == TEXT
        assert await at.types(view.id) == [
            "job.started",
            "checkpoint.created",
            "tool.call.requested",
            "tool.call.completed",
            "tool.call.requested",
            "edits.proposed",
            "tool.call.completed",
            "agent.message",
            "diff.generated",
        ]


async def test_only_accepted_hunks_are_written_and_the_same_request_twice_writes_once(tmp_path: Path) -> None:
    edits = proposes(replace("a.md", 3, "drei\n"), replace("a.md", 20, "zwanzig\n"))
    async with open_bench(tmp_path, edits, says("Done.")) as at:
        at.write(a=TEXT)
        view = await at.start()
        wanted = [hunks(view)["a.md/1"].hunk_id]
        first = await at.desk.jobs.apply(view.session_id, view.id, wanted)
        assert at.read("a.md") == TEXT.replace("line 20\n", "zwanzig\n")
        assert first.status == "completed"
        (file,) = first.applied_files
        assert (file.file_path, file.applied_hunks, file.rejected_hunks) == ("a.md", 1, 1)
        at.write(a="mine\n")
        assert await at.desk.jobs.apply(view.session_id, view.id, wanted) == first
        assert at.read("a.md") == "mine\n"
        with pytest.raises(WrongState):
            await at.desk.jobs.apply(view.session_id, view.id, [])
        assert (await at.desk.jobs.get(view.id)).status == "completed"


async def test_unknown_hunks_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    async with open_bench(tmp_path, proposes(replace("a.md", 3, "drei\n")), says("Done.")) as at:
        at.write(a=TEXT)
        view = await at.start()
        with pytest.raises(UnknownHunk):
            await at.desk.jobs.apply(view.session_id, view.id, ["h_none"])
        assert at.read("a.md") == TEXT
        assert (await at.desk.jobs.get(view.id)).diff_bundle == view.diff_bundle


async def test_a_question_waits_indefinitely_for_its_answer(tmp_path: Path) -> None:
    script = ScriptedProvider(
        [
            calls("clarify_user", question="Terse or detailed?"),
            lambda request: says(
                "terse it is" if "Short, please" in request_text(request) else "no answer came"
            ),
        ]
    )
    at = ReviewBench(tmp_path, script, ReviewLimits())
    async with at.open():
        view = await at.start()
        assert view.status == "waiting_for_user"
        assert view.question is not None
        assert view.question.question == "Terse or detailed?"
        question = view.question.question_id
    async with at.open():  # another process
        assert (await at.desk.jobs.get(view.id)).question == view.question
        with pytest.raises(QuestionClosed):
            await at.desk.jobs.clarify(view.id, "q_0", "Short, please")
        await at.desk.jobs.clarify(view.id, question, "Short, please")
        done = await at.settled(view.id)
        assert (done.status, done.summary, done.question) == ("completed", "terse it is", None)
        assert "clarification.received" in await at.types(view.id)
        with pytest.raises(QuestionClosed):
            await at.desk.jobs.clarify(view.id, question, "Long, please")
        await at.desk.jobs.clarify(view.id, question, "Short, please")  # the same answer, sent again
        assert (await at.types(view.id)).count("clarification.received") == 1


async def test_the_model_learns_that_its_question_was_skipped(tmp_path: Path) -> None:
    script: tuple[Answer, ...] = (
        calls("clarify_user", question="Which?"),
        lambda request: says("skipped" if "no_user_answer" in request_text(request) else "?"),
    )
    async with open_bench(tmp_path, *script) as at:
        view = await at.start()
        assert view.question is not None
        await at.desk.jobs.clarify(view.id, view.question.question_id, None)
        assert (await at.settled(view.id)).summary == "skipped"


async def test_more_questions_than_the_attempts_of_a_worker_are_all_asked(tmp_path: Path) -> None:
    asked = [calls("clarify_user", question=f"Number {n}?") for n in range(14)]
    async with open_bench(tmp_path, *asked, says("Enough.")) as at:
        view = await at.start(tool_config=ToolConfig(max_tool_calls=20))
        for n in range(14):
            assert view.question is not None
            assert view.question.question == f"Number {n}?"
            await at.desk.jobs.clarify(view.id, view.question.question_id, "yes")
            view = await at.settled(view.id)
        assert (view.status, view.summary) == ("completed", "Enough.")


async def test_invalid_model_output_is_given_up_after_five_retries(tmp_path: Path) -> None:
    wrong = [proposes({"file_path": "a.md", "operation": "paint", "start_line": n + 1}) for n in range(9)]
    async with open_bench(tmp_path, *wrong) as at:
        at.write(a=TEXT)
        view = await at.start()
        assert view.status == "failed"
        assert view.error is not None
        assert "6 malformed" in view.error
        assert "operation" in view.error
        assert (await at.types(view.id)).count("tool.call.completed") == 6


async def test_a_model_that_corrects_its_edits_continues(tmp_path: Path) -> None:
    wrong = [proposes({"file_path": "a.md", "operation": "paint", "start_line": n + 1}) for n in range(5)]
    async with open_bench(tmp_path, *wrong, proposes(replace("a.md", 1, "eins\n")), says("Done.")) as at:
        at.write(a=TEXT)
        assert (await at.start()).status == "awaiting_review"


async def test_a_job_that_used_all_calls_without_a_proposal_has_failed(tmp_path: Path) -> None:
    reads = [calls("read_file", file_path="a.md", start_line=n + 1) for n in range(4)]
    async with open_bench(tmp_path, *reads) as at:
        at.write(a=TEXT)
        view = await at.start(tool_config=ToolConfig(max_tool_calls=3))
        assert view.status == "failed"
        assert "limit of 3 tool calls" in str(view.error)


async def test_proposals_made_before_a_failure_can_be_reviewed(tmp_path: Path) -> None:
    async with open_bench(tmp_path, proposes(replace("a.md", 1, "eins\n"))) as at:  # then the script ends
        at.write(a=TEXT)
        view = await at.start()
        assert view.status == "awaiting_review"
        event = (await at.desk.jobs.events(view.id)).events[-1]
        assert "script" in event.data["incomplete"]


async def test_a_hunk_with_the_users_lines_is_never_dropped_without_asking(tmp_path: Path) -> None:
    async with open_bench(tmp_path, proposes(replace("a.md", 3, "drei\nund mehr\n")), says("Done.")) as at:
        at.write(a=TEXT)
        view = await at.start()
        file = await at.desk.files.state("a.md")
        mine = await at.desk.decisions.edit(
            EditRequest(
                file_path="a.md",
                rev=file.rev,
                splices=[Splice(start_line=4, delete_lines=1, new_text="ich\n")],
            )
        )
        with pytest.raises(ChoiceNeeded):
            await at.desk.jobs.apply(view.session_id, view.id, [])
        hunk = mine.hunks[0]
        assert hunk.mine
        assert hunk.own_lines == ((4, 4),)
        with pytest.raises(StaleRevision):
            await at.desk.decisions.decide(
                Decision(file_path="a.md", rev=file.rev, action="accept", hunk_id=hunk.hunk_id)
            )
        peeled = await at.desk.decisions.decide(
            Decision(file_path="a.md", rev=mine.rev, action="reject", hunk_id=hunk.hunk_id, mine="peel")
        )
        assert "und mehr\n" in str(peeled.content)
        assert "ich\n" not in str(peeled.content)
        await at.desk.jobs.apply(view.session_id, view.id, [peeled.hunks[0].hunk_id])
        assert at.read("a.md") == TEXT.replace("line 3\n", "drei\nund mehr\n")


async def test_a_file_changed_since_the_review_is_a_conflict_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    edits = proposes(
        replace("a.md", 3, "drei\n"), replace("a.md", 20, "zwanzig\n"), replace("b.md", 1, "eins\n")
    )
    script = [edits, says("Done."), says("No change is needed.")]
    async with open_bench(tmp_path, *script) as at:
        at.write(a=TEXT, b=TEXT)
        view = await at.start("Translate")
        shown = hunks(view)
        outside = TEXT.replace("line 3\n", "third\n")
        at.write(a=outside)
        ids = [hunk.hunk_id for hunk in shown.values()]
        with pytest.raises(Conflict):
            await at.desk.jobs.apply(view.session_id, view.id, ids)
        assert (at.read("a.md"), at.read("b.md")) == (outside, TEXT)
        assert (await at.types(view.id))[-1] == "conflict.detected"
        now = hunks(await at.desk.jobs.get(view.id))
        assert [hunk.conflict for hunk in now.values()] == [True, False, False]
        with pytest.raises(StaleRevision):  # that hunk was not a conflict when it was shown
            await at.desk.jobs.apply(view.session_id, view.id, ids)
        with pytest.raises(Conflict):  # it needs a decision on the hunk itself
            await at.desk.jobs.apply(view.session_id, view.id, [hunk.hunk_id for hunk in now.values()])
        again = await at.settled((await at.desk.jobs.rerun(view.id)).job_id)
        assert again.rerun_of == view.id
        assert isinstance(at.provider, ScriptedProvider)
        assert "-line 3\\n+third\\n" in request_text(at.provider.requests[-1])
        await at.desk.jobs.apply(view.session_id, view.id, ids[1:])
        assert at.read("a.md") == outside.replace("line 20\n", "zwanzig\n")
        assert at.read("b.md") == TEXT.replace("line 1\n", "eins\n")


async def test_a_file_changed_since_the_model_read_it_is_read_again(tmp_path: Path) -> None:
    at = ReviewBench(tmp_path, ScriptedProvider([]), ReviewLimits())

    def meanwhile(_: ModelRequest) -> AssistantMessage:
        at.write(a="new first line\n" + TEXT)
        return proposes(replace("a.md", 3, "drei\n"))

    at.provider = ScriptedProvider(
        [
            calls("read_file", file_path="a.md"),
            meanwhile,
            calls("read_file", file_path="a.md"),
            proposes(replace("a.md", 4, "drei\n")),
            says("Done."),
        ]
    )
    async with at.open():
        at.write(a=TEXT)
        view = await at.start()
        assert "conflict.detected" in await at.types(view.id)
        file = await at.desk.files.state("a.md")
        assert file.content == "new first line\n" + TEXT.replace("line 3\n", "drei\n")


async def test_a_session_keeps_its_chat_and_its_pending_review(tmp_path: Path) -> None:
    row = ContextRow(id="ctx_1", file_path="a.md", start_line=1, end_line=2, content="line 1\nline 2\n")
    script = (says("It is a list."), proposes(replace("a.md", 1, "eins\n")), says("One line."))
    async with open_bench(tmp_path, *script) as at:
        at.write(a=TEXT)
        first = await at.start("What is it?")
        assert first.status == "completed"
        second = await at.start("Change it", first.session_id, context_rows=[row])
        session = await at.desk.sessions.get(first.session_id)
        assert [entry.text for entry in session.chat] == [
            "What is it?",
            "It is a list.",
            "Change it",
            "One line.",
        ]
        assert session.context_rows == (row,)
        assert session.last_job_id == second.id
        assert session.pending_review is not None
        assert session.pending_review.job_id == second.id
        assert isinstance(at.provider, ScriptedProvider)
        told = request_text(at.provider.requests[1])
        assert "It is a list." in told
        assert "a.md, lines 1 to 2" in told


@asynccontextmanager
async def recorder_of_job(at: ReviewBench) -> AsyncGenerator[tuple[JobEventRecorder, Proposer, str]]:
    """The recorder of a job without a worker, with its proposer and the job's name."""
    async with at.open(working=False) as desk:
        at.write(a=TEXT)
        session = (await desk.sessions.create()).session_id
        started = await desk.jobs.run(RunRequest(session_id=session, instruction="Do it"))
        (lease,) = await at.engine.claim(1, "w")
        journal = await JobJournal.open(at.engine, started.job_id, limit=100)
        journal.lease = lease
        proposer = Proposer(at.bench, journal, OverlayWorkspace(at.bench.workspace, at.ledger))
        yield JobEventRecorder(journal, proposer, at.limits, lambda: None), proposer, started.job_id


@pytest.mark.parametrize(
    ("output", "is_error", "shown"),
    [
        ('{"results": [{}, {}]}', False, {"ok": True, "result_count": 2, "error": None}),
        ('{"files": []}', False, {"ok": True, "result_count": 0, "error": None}),
        ("words", False, {"ok": True, "result_count": None, "error": None}),
        ("[1]", False, {"ok": True, "result_count": None, "error": None}),
        ("\ud800", False, {"ok": True, "result_count": None, "error": None}),
        ("no", True, {"ok": False, "result_count": None, "error": "no"}),
    ],
)
async def test_calls_and_results_have_one_format(
    tmp_path: Path, output: str, is_error: bool, shown: dict[str, object]
) -> None:
    at = ReviewBench(tmp_path, ScriptedProvider([]), ReviewLimits())
    async with recorder_of_job(at) as (recorder, _, job):
        call = ToolCall(id="tc_1", name="search_project", arguments={"query": "x", "limit": 20})
        message = ToolResultMessage(
            tool_call_id=call.id, tool_name=call.name, output=output, is_error=is_error, duration=7
        )
        request = AssistantMessage(content=[call])
        await recorder(MessageStart(message=request))
        await recorder(MessageEnd(message=request))
        await recorder(MessageEnd(message=message))
        events = {each.type: each.data for each in (await at.desk.jobs.events(job)).events}
    same = {"tool": "search_project", "name": "search_project", "tool_call_id": "tc_1"}
    assert events["tool.call.requested"] == same | {"arguments": {"query": "x", "limit": 20}}
    assert events["tool.call.completed"] == same | shown | {"duration_ms": 7}


async def test_a_refusal_because_of_the_files_belongs_to_its_own_call(tmp_path: Path) -> None:
    """Results may be late: that of a call which the validator refused comes after the outcome of another."""
    at = ReviewBench(tmp_path, ScriptedProvider([]), ReviewLimits(max_schema_retries=2))
    async with recorder_of_job(at) as (recorder, proposer, _):

        def result(call: str) -> MessageEnd:
            return MessageEnd(
                message=ToolResultMessage(
                    tool_call_id=call, tool_name="propose_edits", output="no", is_error=True
                )
            )

        for number in range(2):
            await recorder(result(f"wrong {number}"))
        await recorder(ToolExecutionStart(tool_call_id="unfit", tool_name="propose_edits", args={}))
        edit = ProposedEdit(
            file_path="a.md",
            operation="replace",
            start_line=1,
            end_line=1,
            new_text="x\n",
            expected_hash="f" * 64,
        )
        with pytest.raises(Conflict):
            await proposer.propose([edit])
        await recorder(result("wrong 2"))
        assert "3 malformed" in recorder.failure


class LateEngine:
    """Delivers the events that it waited for when the job no longer runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def read(
        self, job: str, after_seq: int = 0, *, limit: int = 1000, wait: float = 0.0
    ) -> list[JournalEntry]:
        entries = await self._engine.read(job, after_seq, limit=limit, wait=wait)
        if wait:
            await self._engine.wait_for_release(job, wait=wait)
        return entries


class LateBench(ReviewBench):
    def wrap_engine(self, engine: Engine) -> Engine:
        return cast("Engine", LateEngine(engine))


async def test_a_status_comes_with_its_event(tmp_path: Path) -> None:
    """A client that sees the status change looks there for what the job proposed, to tell the user."""
    script = [proposes(replace("a.md", 1, "eins\n")), says("Done.")]
    bench = LateBench(tmp_path, ScriptedProvider(script), ReviewLimits())
    async with bench.open() as desk:
        bench.write(a=TEXT)
        session = (await desk.sessions.create()).session_id
        job = (await desk.jobs.run(RunRequest(session_id=session, instruction="Do it"))).job_id
        events: list[str] = []
        cursor, status = 0, "queued"
        with anyio.fail_after(20):
            while status != "awaiting_review":
                page = await desk.jobs.events(job, cursor, wait=20)
                events += [each.type for each in page.events]
                cursor, status = page.next_cursor, page.status
        assert "diff.generated" in events
