"""If it fails, some order of requests, crashes and outside changes loses, invents or misplaces a change."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio.from_thread
import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest
from newel.review.model.file_lines import content_of, text_hash
from newel.review.model.file_review import FileReview, ReviewError, StaleRevision, buffer, render
from newel.review.model.history import patched
from newel.review.model.rebase import kept
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import ReviewServiceError
from newel.review_jobs.journal import JobState
from newel.review_jobs.requests import Decision, EditRequest, RollbackRequest, RunRequest, Splice
from newel.review_jobs.responses import EventView, JobView
from tests.properties import examples
from tests.review_bench import ReviewBench, calls, proposes, request_text, says
from tests.scripted_provider import ScriptedProvider

T = TypeVar("T")
Data = st.DataObject
FAST: Final = next((folder for folder in ("/dev/shm",) if Path(folder).is_dir()), None)  # noqa: S108 — within, a folder is made
"""A disk that need not be waited for, where there is one."""

NAMES: Final = ("a.md", "b.md", "c.md")
TEXTS: Final = st.lists(st.sampled_from("uvwxyz"), max_size=5).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)
LATER: Final = {
    "queued": {"queued", "waiting_for_user", "awaiting_review", "completed", "failed"},
    "waiting_for_user": {"waiting_for_user", "awaiting_review", "completed", "failed"},
    "awaiting_review": {"awaiting_review", "completed"},
    "completed": {"completed"},
    "failed": {"failed"},
}
"""What may have become of a job that had come to this."""


class DeskMachine(RuleBasedStateMachine):
    """Clients, a user with an editor, and crashes, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = contextlib.ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(dir=FAST))).resolve()
        self.portal = self.stack.enter_context(anyio.from_thread.start_blocking_portal())
        self.answers: dict[str, deque[AssistantMessage]] = {}
        """What the model says in a job, by its instruction."""
        self.at = ReviewBench(folder, ScriptedProvider([self.answer] * 10_000), ReviewLimits())
        self.desk = contextlib.ExitStack()
        self.disk: dict[str, bytes] = {}
        """The files as the last change that was asked for has left them."""
        self.jobs: dict[str, JobView] = {}
        self.events: dict[str, list[EventView]] = {}
        self.session = ""

    @initialize(first=TEXTS, second=TEXTS)
    def begin(self, first: str, second: str) -> None:
        self.put("a.md", first.encode())
        self.put("b.md", second.encode())
        self.open()
        self.session = self.ask(self.at.desk.sessions.create).session_id

    def answer(self, request: ModelRequest) -> AssistantMessage:
        mine = self.answers[re.findall(r"Do \d+", request_text(request))[-1]]
        return mine.popleft() if mine else says("Done.")

    # -- means ----------------------------------------------------------------------------------------

    def ask(self, call: Callable[..., Awaitable[T]], *arguments: Any, **named: Any) -> T:
        return self.portal.call(partial(call, *arguments, **named))

    def open(self) -> None:
        self.desk.enter_context(self.portal.wrap_async_context_manager(self.at.open()))

    def put(self, name: str, data: bytes | None) -> None:
        if data is None:
            (self.at.root / name).unlink(missing_ok=True)
            self.disk.pop(name, None)
        else:
            (self.at.root / name).write_bytes(data)
            self.disk[name] = data

    def review(self, name: str) -> FileReview:
        return self.at.ledger.get(name)

    @contextlib.contextmanager
    def may_refuse(self, *names: str) -> Generator[None]:
        """Check that a refusal changed nothing in these files, except for adopting the disk's state."""
        before = {name: self.review(name) for name in names}
        try:
            yield
        except (ReviewServiceError, ReviewError):
            for name, review in before.items():
                assert self.review(name) == review or self.last_kind(name) == "rebase"

    def last_kind(self, name: str) -> str:
        return self.at.ledger.entries(path=name)[-1].kind

    def drawn_hunk(self, data: Data, review: FileReview) -> str:
        return data.draw(st.sampled_from([hunk.id for hunk in review.hunks] or ["h_none"]))

    def drawn_job(self, data: Data, *statuses: str) -> JobView:
        found = [job for job in self.jobs.values() if job.status in statuses] or list(self.jobs.values())
        return data.draw(st.sampled_from(found))

    def drawn_edit(self, data: Data, name: str) -> dict[str, Any]:
        lines = len([line for line in buffer(self.review(name)) if not line.startswith("\0")])
        first = data.draw(st.integers(1, lines + 1))
        last = data.draw(st.integers(first, lines + 1))
        text = data.draw(TEXTS.filter(bool))
        kind = data.draw(st.sampled_from(["insert", "replace", "delete"] if last <= lines else ["insert"]))
        made = {"file_path": name, "operation": kind, "start_line": first}
        return (
            made
            | ({} if kind == "insert" else {"end_line": last})
            | ({"new_text": "" if kind == "delete" else text})
        )

    def settled(self, job: str) -> None:
        """Wait for a job, and for those behind it. Behind a question they stay queued."""
        self.jobs[job] = self.ask(self.at.desk.jobs.get, job)
        for each, known in list(self.jobs.items()):
            if known.status not in {"queued", "running"}:
                continue
            if any(other.status == "waiting_for_user" for other in self.jobs.values()):
                assert self.ask(self.at.desk.jobs.get, each).status == "queued"
            else:
                self.jobs[each] = self.ask(self.at.settled, each)

    # -- jobs -----------------------------------------------------------------------------------------

    @rule(data=st.data(), question=st.booleans(), names=st.sets(st.sampled_from(NAMES)))
    def run(self, data: Data, question: bool, names: set[str]) -> None:
        for name in names:
            self.ask(self.at.desk.files.state, name)
        edits = [self.drawn_edit(data, name) for name in sorted(names)]
        asked = [calls("clarify_user", question="Which?")] if question else []
        instruction = f"Do {len(self.answers)}"
        self.answers[instruction] = deque([*asked, *([proposes(*edits)] if edits else [])])
        request = RunRequest(session_id=self.session, instruction=instruction)
        job = self.ask(self.at.desk.jobs.run, request).job_id
        self.settled(job)
        if self.jobs[job].status != "queued":
            assert self.jobs[job].status == ("waiting_for_user" if question else self.jobs[job].status)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), answer=st.sampled_from(["yes", None]))
    def clarify(self, data: Data, answer: str | None) -> None:
        job = self.drawn_job(data, "waiting_for_user")
        question = job.question.question_id if job.question else "q_none"
        with self.may_refuse():
            self.ask(self.at.desk.jobs.clarify, job.id, question, answer)
            assert job.status == "waiting_for_user"
        self.settled(job.id)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def rerun(self, data: Data) -> None:
        job = self.drawn_job(data, "awaiting_review")
        with self.may_refuse(*NAMES):
            started = self.ask(self.at.desk.jobs.rerun, job.id)
            self.settled(started.job_id)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def apply(self, data: Data) -> None:
        job = self.drawn_job(data, "awaiting_review")
        shown = [hunk for file in (job.diff_bundle.files if job.diff_bundle else ()) for hunk in file.hunks]
        chosen = [hunk.hunk_id for hunk in shown if data.draw(st.booleans())]
        expected = {name: self.with_hunks(name, chosen) for name in NAMES}
        with self.may_refuse(*NAMES):
            done = self.ask(self.at.desk.jobs.apply, self.session, job.id, chosen)
            if job.status == "awaiting_review":
                for file in done.applied_files:
                    if file.applied_hunks:
                        self.expect(file.file_path, expected[file.file_path])
            assert self.ask(self.at.desk.jobs.apply, self.session, job.id, chosen) == done
        self.settled(job.id)

    # -- a person -------------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        name=st.sampled_from(NAMES),
        action=st.sampled_from(["accept", "reject", "reopen", "peel", "accept_all_file", "reject_all_file"]),
        mine=st.sampled_from([None, "peel", "base"]),
    )
    def decide(self, data: Data, name: str, action: Any, mine: Any) -> None:
        review = self.review(name)
        ids = [self.drawn_hunk(data, review) for _ in range(data.draw(st.integers(1, 3)))]
        with self.may_refuse(name):
            decision = Decision(file_path=name, rev=review.rev, action=action, hunk_ids=ids, mine=mine)
            self.ask(self.at.desk.decisions.decide, decision)

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def look_back(self, data: Data, name: str) -> None:
        entries = self.at.ledger.entries(path=name)
        if entries:
            entry = data.draw(st.sampled_from(entries))
            then = self.ask(self.at.desk.files.get, name, entry.rev)
            assert (text_hash(buffer(then)), then.rev) == (entry.hash_after, entry.rev)

    @rule(data=st.data(), name=st.sampled_from(NAMES), text=TEXTS)
    def edit(self, data: Data, name: str, text: str) -> None:
        view = self.ask(self.at.desk.files.state, name)
        lines = (view.content or "").count("\n")
        first = data.draw(st.integers(1, lines + 1))
        cut = data.draw(st.integers(0, lines + 1 - first))
        splices = [Splice(start_line=first, delete_lines=cut, new_text=text)]
        with self.may_refuse(name):
            done = self.ask(
                self.at.desk.decisions.edit, EditRequest(file_path=name, rev=view.rev, splices=splices)
            )
            typed = (view.content or "").splitlines(keepends=True)
            typed[first - 1 : first - 1 + cut] = text.splitlines(keepends=True)
            assert (done.content or "") == "".join(typed)

    @rule(name=st.sampled_from(NAMES), redo=st.booleans())
    def undo(self, name: str, redo: bool) -> None:
        desk = self.at.desk
        with self.may_refuse(name):
            self.ask(partial(desk.decisions.undo, redo=redo), name, self.review(name).rev)

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def act_on_a_state_that_is_gone(self, data: Data, name: str) -> None:
        review = self.review(name)
        old = data.draw(st.integers(-1, max(review.rev - 1, -1)))
        hunk = self.drawn_hunk(data, review)
        desk = self.at.desk
        splices = [Splice(start_line=1, delete_lines=0, new_text="stale\n")]
        stale: list[Callable[[], Awaitable[Any]]] = [
            partial(desk.decisions.decide, Decision(file_path=name, rev=old, action="accept", hunk_id=hunk)),
            partial(desk.decisions.edit, EditRequest(file_path=name, rev=old, splices=splices)),
            partial(desk.decisions.undo, name, old),
            partial(desk.decisions.undo, name, old, redo=True),
        ]
        for request in stale:
            try:
                self.ask(request)
            except StaleRevision:
                pass
            else:
                raise AssertionError(request)
        now = self.review(name)
        assert now == review or self.last_kind(name) == "rebase"
        assert "stale\n" not in buffer(now)

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    def save(self, names: list[str]) -> None:
        expected = {
            name: self.with_hunks(name, [one.id for one in kept(self.review(name))]) for name in names
        }
        with self.may_refuse(*names):
            for done in self.ask(self.at.desk.decisions.save, names).saved_files:
                if done.saved_hunks:
                    self.expect(done.file_path, expected[done.file_path])

    def with_hunks(self, name: str, ids: Sequence[str]) -> bytes | None:
        """The bytes of a file with some of its hunks, whatever else is under review."""
        review = self.review(name)
        content = content_of(render(review.base, [hunk for hunk in review.hunks if hunk.id in ids]))
        return content.data if content else None

    def expect(self, name: str, data: bytes | None) -> None:
        if data is None:
            self.disk.pop(name, None)
        else:
            self.disk[name] = data

    @rule(data=st.data(), scoped=st.booleans())
    def roll_back(self, data: Data, scoped: bool) -> None:
        points = self.ask(self.at.desk.overview.checkpoints).checkpoints
        if not points:
            return
        point = self.ask(self.at.desk.checkpoints.get, data.draw(st.sampled_from(points)).checkpoint_id)
        ids = [hunk.hunk_id for file in point.files for hunk in file.hunks]
        chosen = [name for name in ids if data.draw(st.booleans())] if scoped else []
        request = RollbackRequest(mode="scoped_selected" if scoped else "hard_all", hunk_ids=chosen)
        with self.may_refuse(*point.affected_files):
            self.ask(self.at.desk.checkpoints.roll_back, point.checkpoint_id, request)

    # -- the world ------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), text=st.none() | TEXTS)
    def change_from_outside(self, name: str, text: str | None) -> None:
        self.put(name, None if text is None else text.encode())

    @rule()
    def reopen(self) -> None:
        self.desk.close()
        self.open()

    @rule()
    def archive(self) -> None:
        self.ask(self.at.desk.sessions.archive, self.session)

    # -- what always holds ----------------------------------------------------------------------------

    @invariant()
    def files_are_as_they_were_asked_to_be(self) -> None:
        there = {path.name: path.read_bytes() for path in self.at.root.iterdir()}
        assert there == self.disk

    @invariant()
    def jobs_go_the_ways_that_there_are(self) -> None:
        for job, before in list(self.jobs.items()):
            now = self.ask(self.at.desk.jobs.get, job)
            assert now.status in LATER[before.status], (before.status, now.status)
            self.jobs[job] = now
            seen, events = self.events.get(job, []), self.ask(self.at.desk.jobs.events, job).events
            assert list(events[: len(seen)]) == seen
            assert all(one.cursor < next_.cursor for one, next_ in pairwise(events))
            state = JobState("")
            for each in events:
                state.reduce(each.cursor, each.type, each.ts, each.data)
            assert (state.status, state.checkpoint_id) == (now.status, now.checkpoint_id)
            self.events[job] = list(events)

    def teardown(self) -> None:
        try:
            if self.session:
                self.end()
        finally:
            self.desk.close()
            self.stack.close()

    def end(self) -> None:
        """The journal equals the state of each file, and rejecting all gives the files on disk."""
        for name in NAMES:
            folded = FileReview(path=name)
            for each in self.at.ledger.entries(path=name):
                folded = msgspec.structs.replace(patched(folded, each.forward), rev=each.rev)
            assert folded == self.review(name)
            view = self.ask(self.at.desk.files.state, name)
            for hunk in view.hunks:
                rejected = Decision(
                    file_path=name,
                    rev=self.review(name).rev,
                    action="reject",
                    hunk_id=hunk.hunk_id,
                    mine="base",
                )
                self.ask(self.at.desk.decisions.decide, rejected)
            assert self.with_hunks(
                name, [hunk.id for hunk in self.review(name).hunks if hunk.is_shown]
            ) == self.disk.get(name)
            self.ask(self.at.desk.decisions.save, [name])
        self.files_are_as_they_were_asked_to_be()


TestDesk = DeskMachine.TestCase
TestDesk.settings = settings(
    max_examples=examples(20), stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow]
)
