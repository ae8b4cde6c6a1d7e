"""The review desk: what a client talks to, be it the HTTP API or a page.

    desk = await ReviewDesk.open(engine, bench)
    tasks.start_soon(Worker(engine, desk.handlers, slots=4).run)
    session = await desk.create_session()
    job = await desk.run(RunRequest(session_id=session.session_id, instruction="Split the long lines"))
    …                                                    poll desk.events(job.job_id, cursor)
    await desk.apply(session.session_id, job.job_id, ["h_1"])

What a method returned is durable: sessions and jobs stand in the engine's journals, hunks and decisions in the ledger. A
desk that is opened anew on both goes on where the one before was, in the midst of an application too.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import anyio
import anyio.to_thread
import msgspec

from newel.agent.messages import new_id
from newel.agent.ports import Model
from newel.jobs.engine import FINAL, LIVE, Job, JobOutcome, Lease
from newel.jobs.worker import Handler
from newel.review.model.file_lines import text_hash
from newel.review.serialize import CheckpointView
from newel.review_jobs import apply, cancel, rerun, retention
from newel.review_jobs import schemas as p
from newel.review_jobs.checkpoints import Rollbacks
from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.errors import BadRequest, NoSuchJob, QuestionClosed
from newel.review_jobs.event_pages import PAGE, page_of
from newel.review_jobs.file_browser import Browser
from newel.review_jobs.file_reviews import Reviewed, ReviewFiles, saved_file
from newel.review_jobs.file_state import FileStates
from newel.review_jobs.job_state import JobState
from newel.review_jobs.journal import (
    KIND,
    EventType,
    JobEvent,
    JobJournal,
    JobParams,
    event,
    find_jobs,
    queue_of,
)
from newel.review_jobs.overview import Overview, job_summary, session_summary
from newel.review_jobs.presenters import Known, chat_of, job_view, session_view
from newel.review_jobs.runner import carry_out, outcome_of
from newel.review_jobs.session_store import SessionStore
from newel.review_jobs.validation import check_answer, check_run
from newel.text.json import to_json
from newel.tools.review import NO_USER_ANSWER


class ReviewService:
    """Sessions, jobs and reviews of one project. Use ``open``. One desk an engine at a time.

    Methods raise ``ReviewServiceError`` and ``ReviewError`` (see ``newel.review_jobs.errors``), and ``EngineError``; then nothing has
    changed but what the error says.
    """

    def __init__(self, bench: ReviewDependencies, store: SessionStore) -> None:
        self._bench = bench
        self._store = store
        self._journals: dict[str, JobJournal] = {}
        """Those of the jobs that have not ended."""
        self._opening = anyio.Lock()
        self.limits = bench.limits
        self.files = ReviewFiles(bench.ledger, bench.saver, bench.workspace, bench.limits)
        self.rollbacks = Rollbacks(bench.ledger, bench.checkpoints, self.files)
        self.states = FileStates(self.files, bench.workspace)
        self.overview = Overview(bench.ledger)
        self.browser = Browser(bench.workspace, self.overview)

    @classmethod
    async def open(cls, bench: ReviewDependencies) -> Self:
        """The desk that an engine and a ledger keep; to be called before a worker takes jobs of the engine."""
        desk = cls(bench, await SessionStore.open(bench.engine))
        await bench.saver.recover()
        await desk._collect()
        for job in await bench.engine.find(kind=KIND, states=LIVE, limit=10_000):
            journal = await desk._journal(job.id)
            if job.state == "queued":
                await desk._put_aside(job, journal)
            await apply.resume(desk.files, journal)
            if job.state in {"waiting", "asking"} and journal.state.status in {"queued", "running"}:
                await journal.go_on()  # the answer was taken, and the process died before it could be used
        return desk

    def use_model(self, model: Model) -> None:
        """Let the jobs that begin from now on ask another model."""
        config = msgspec.structs.replace(self._bench.config, model=model)
        self._bench = self._bench._replace(config=config)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """For the worker of the engine."""
        return {KIND: self._carry_out}

    async def _carry_out(self, lease: Lease) -> JobOutcome:
        journal = await self._journal(lease.job)
        params = journal.params
        journal.lease = lease
        try:
            jobs = await find_jobs(self._bench.engine, params.session)
            chat = chat_of(await self._known(itertools.takewhile(lambda job: job.id != lease.job, jobs)))
            return await carry_out(self._bench, journal, chat)
        finally:
            journal.lease = None
            if journal.state.is_finished:
                self._journals.pop(lease.job, None)

    async def _put_aside(self, job: Job, journal: JobJournal) -> None:
        """Let a job wait that had said so, and whose process died before the engine knew."""
        if journal.state.status in {"queued", "running"}:
            return
        for lease in await self._bench.engine.claim(1, "review", queues=[job.queue]):
            is_it = lease.job == job.id
            outcome = outcome_of(journal.state) if is_it else JobOutcome(state="retry")
            await self._bench.engine.finish(lease, outcome)

    # -- sessions ---------------------------------------------------------------------------------

    async def create_session(self) -> p.SessionCreated:
        """Begin a session. Raises ``TooMany``."""
        if len(self._store.sessions) >= self.limits.max_sessions:
            await self._collect(room=1)
        retention.check_room_for_session(self._store, self.limits)
        session = await self._store.create(f"sess_{new_id()}")
        return p.SessionCreated(session_id=session.id, status=session.status, created_at=session.created_at)

    async def session(self, session_id: str) -> p.SessionView:
        """A session as it stands. Raises ``NoSuchSession``."""
        session = self._store.get(session_id)
        return session_view(session, await self._known(await find_jobs(self._bench.engine, session_id)))

    async def sessions(self) -> list[p.SessionSummary]:
        """All sessions, the latest first."""
        found: list[p.SessionSummary] = []
        for session in reversed(list(self._store.sessions.values())):
            jobs = await find_jobs(self._bench.engine, session.id)
            live = await self._known(job for job in jobs if job.state not in FINAL)
            found.append(session_summary(session, jobs, live))
        return found

    async def archive(self, session_id: str) -> p.SessionView:
        """Put a session away: it may be forgotten once none of its jobs is under way. A run brings it back."""
        await self._store.archive(session_id)
        return await self.session(session_id)

    # -- jobs -------------------------------------------------------------------------------------

    async def run(self, request: p.RunRequest) -> p.JobStarted:
        """Start a job. Raises ``NoSuchSession``, ``BadRequest``, ``TooLarge``, ``TooMany``, ``Unprocessable``."""
        self._store.get(request.session_id)
        await check_run(request, self.limits, self._bench.workspace)
        wanted = request.tool_config.max_tool_calls
        return await self._submit(
            JobParams(
                session=request.session_id,
                key=f"review/{new_id()}",
                instruction=request.instruction,
                context_rows=request.context_rows,
                max_tool_calls=wanted or self.limits.max_tool_calls_per_job,
            )
        )

    async def rerun(self, job_id: str) -> p.JobStarted:
        """Run a job again on the files as they are now, and tell the model what changed; see
        ``newel.review_jobs.rerun.again``.
        """
        journal = await self._journal(job_id)
        async with journal.deciding:
            params = await rerun.again(self.files, journal)
            started = await self._submit(params)
            await self._tell(journal, "rerun.started", job_id=job_id, new_job_id=started.job_id)
        for path in journal.state.hashes:
            await self._told(Reviewed(await self.files.known(path), "reject"))
        return started

    async def _submit(self, params: JobParams) -> p.JobStarted:
        engine = self._bench.engine
        jobs = await find_jobs(engine, params.session)
        known = await self._known(job for job in jobs if job.state not in FINAL)
        live = sum(not journal.state.is_finished for _, journal in known)
        retention.check_room_for_job(live, self.limits)
        await self._store.activate(params.session)
        job = await engine.submit(KIND, to_json(params), queue=queue_of(params.session), key=params.key)
        await self._collect()
        return p.JobStarted(job_id=job, status="queued")

    async def job(self, job_id: str) -> p.JobView:
        """A job as it stands. Raises ``NoSuchJob``."""
        return await job_view(await self._journal(job_id), self._bench.ledger)

    async def jobs(self, *, limit: int = PAGE) -> p.JobList:
        """Those of all sessions, the latest first."""
        found = await self._bench.engine.find(kind=KIND, limit=limit + 1)
        known = await self._known(found[:limit])
        return p.JobList(jobs=tuple(job_summary(*each) for each in known), more=len(found) > limit)

    async def events(
        self, job_id: str, cursor: int = 0, *, limit: int = PAGE, wait: float = 0.0
    ) -> p.EventsPage:
        """What happened after event ``cursor``; see ``newel.review_jobs.event_pages.page_of``. Raises ``NoSuchJob`` and
        ``BadRequest``.
        """
        if cursor < 0:
            raise BadRequest("The cursor is the number of an event, or 0 to begin with.")

        async def state() -> JobState:
            return (await self._journal(job_id)).state

        await state()  # of a job that is not there nothing is waited for
        return await page_of(self._bench.engine, job_id, state, cursor, limit=limit, wait=wait)

    async def cancel(self, job_id: str) -> p.JobStarted:
        """End a job that waits for its turn, runs, or asks; see ``newel.review_jobs.cancel.cancel``."""
        journal = await self._journal(job_id)
        async with journal.deciding:
            await cancel.cancel(self._bench, journal)
        self._journals.pop(job_id, None)
        return p.JobStarted(job_id=job_id, status=journal.state.status)

    async def clarify(self, job_id: str, question_id: str, answer: str | None) -> p.JobStarted:
        """Answer a question, or skip it with None. The same answer again changes nothing. Raises ``QuestionClosed``."""
        check_answer(answer, self.limits)
        journal = await self._journal(job_id)
        words = NO_USER_ANSWER if answer is None else answer
        async with journal.deciding:
            state = journal.state
            is_open = state.status == "waiting_for_user"
            if state.question is None or state.question.question_id != question_id or not is_open:
                if (
                    state.question is not None
                    and state.question.question_id == question_id
                    and state.answer == words
                ):
                    return p.JobStarted(job_id=job_id, status=state.status)
                raise QuestionClosed(f"Job {job_id} does not ask question {question_id} now.")
            await journal.annotate(
                event("clarification.received", question_id=question_id, answer=words, skipped=answer is None)
            )
            await journal.go_on()
        return p.JobStarted(job_id=job_id, status=journal.state.status)

    # -- the review -------------------------------------------------------------------------------

    async def file(self, path: str, rev: int | None = None) -> p.FileState:
        """A file as the page edits it, or what there is instead; with ``rev`` as it was at that revision, which a window that
        was cut off has last seen. Raises ``StaleRevision`` where that is not known any more.
        """
        if rev is None:
            return await self.states.read(path)
        return await self.states.of(await self.files.at(path, rev))

    async def pending(self) -> p.PendingFiles:
        """All files with hunks that are undecided or unsaved, of whatever run."""
        return await anyio.to_thread.run_sync(self.overview.pending)

    async def change_log(self, path: str) -> p.ChangeLog:
        return p.ChangeLog(file=await self.file(path), changes=tuple(await self.files.log(path)))

    async def decide(self, decision: p.Decision) -> p.FileState:
        if decision.action.endswith("_all_file"):
            await self.states.name_of_file(decision.file_path)
        return await self._told(await self.files.decide(decision))

    async def decide_all(self, request: p.DecideAll) -> p.DecidedFiles:
        """Decide on all that was seen of several files; see ``ReviewFiles.decide_all``."""
        for each in request.files:
            await self.states.name_of_file(each.file_path)
        found: list[p.DecidedFile] = []
        for (review, action, ids), left in await self.files.decide_all(request):
            if ids:
                await self._told(Reviewed(review, action, ids))
            found.append(p.DecidedFile(file_path=review.path, rev=review.rev, hunk_ids=ids, left=left))
        return p.DecidedFiles(files=tuple(found))

    async def edit(self, request: p.EditRequest) -> p.FileState:
        return await self._told(await self.files.edit(request))

    async def undo(self, path: str, rev: int) -> p.FileState:
        return await self._told(await self.files.undo(path, rev))

    async def redo(self, path: str, rev: int) -> p.FileState:
        return await self._told(await self.files.undo(path, rev, redo=True))

    async def apply(self, session_id: str, job_id: str, accepted_hunk_ids: Sequence[str]) -> p.Applied:
        """Save the accepted hunks of a job and reject the others; see ``newel.review_jobs.apply.apply``."""
        self._store.get(session_id)
        journal = await self._journal(job_id)
        if journal.params.session != session_id:
            raise NoSuchJob(f"Session {session_id} has no job {job_id}.")
        async with journal.deciding:
            before = journal.state.is_finished
            applied = await apply.apply(self.files, journal, accepted_hunk_ids)
        if not before:
            self._journals.pop(job_id, None)
            await self._tell_others([each.file_path for each in applied.applied_files])
        return applied

    async def save(self, paths: Sequence[str], *, revs: Mapping[str, int] | None = None) -> list[p.SavedFile]:
        """Save what is accepted in files, and what the user alone wrote. A job all of whose hunks are saved or rejected by
        then has ended.
        """
        names = {path: await self.states.name_of_file(path) for path in paths}
        known = {names[path]: rev for path, rev in (revs or {}).items()}
        saved = await self.files.saver.save(dict.fromkeys(names.values()), revs=known)
        for each in saved:
            await self._told(Reviewed(each.review, "save"))
        await self.settle(list(names.values()))
        return [saved_file(each) for each in saved]

    async def settle(self, paths: Sequence[str] = ()) -> None:
        """End the review of jobs in these files (none: in any) all of whose hunks are saved or rejected."""
        for journal in self._reviewed(paths):
            async with journal.deciding:
                await apply.finish_if_settled(self.files, journal)
            if journal.state.is_finished:
                self._journals.pop(journal.job, None)

    # -- checkpoints ------------------------------------------------------------------------------

    async def checkpoints(self, *, limit: int = 100, before: str = "", session: str = "") -> p.CheckpointList:
        """Up to ``limit`` of them, the latest first; see ``Overview.checkpoints``. Raises ``UnknownCheckpoint``."""
        return await anyio.to_thread.run_sync(self.overview.checkpoints, limit, before, session)

    async def checkpoint(self, checkpoint_id: str) -> CheckpointView:
        return await self.rollbacks.get(checkpoint_id)

    async def rollback(self, checkpoint_id: str, request: p.RollbackRequest) -> p.RollbackView:
        """Take a run back, all of it or some of its hunks, in the buffers; a save brings it to the disk. The job that the
        checkpoint is of tells of it. Raises as ``Rollbacks.roll_back``.
        """
        done = await self.rollbacks.roll_back(checkpoint_id, request, self._tell_run)
        for view in done.buffers:
            await self._told(Reviewed(await self.files.known(view.file_path), "rollback"))
        return done

    async def _tell_run(self, run: str, happened: JobEvent) -> None:
        """Tell it in the journal of the job that a run was; a run of another kind, or a forgotten one, has none."""
        with contextlib.suppress(NoSuchJob):
            journal = await self._journal(run)
            if journal.state.status not in {"queued", "running"}:
                await journal.annotate(happened)

    # -- within -----------------------------------------------------------------------------------

    async def _told(self, reviewed: Reviewed) -> p.FileState:
        """Let the jobs whose review a file is part of know what became of it."""
        review = reviewed.review
        for journal in self._reviewed([review.path]):
            await self._tell(
                journal,
                "review.updated",
                file_path=review.path,
                rev=review.rev,
                action=reviewed.action,
                hunk_ids=list(reviewed.hunk_ids),
                base_file_hashes={review.path: text_hash(review.base)},
            )
        return await self.states.of(review)

    async def _tell_others(self, paths: Sequence[str]) -> None:
        for path in paths:
            await self._told(Reviewed(await self.files.known(path), "save"))

    async def _tell(self, journal: JobJournal, kind: EventType, **data: object) -> None:
        if not journal.is_full:
            await journal.annotate(event(kind, **data))

    def _reviewed(self, paths: Sequence[str]) -> list[JobJournal]:
        """The jobs that await review of one of these files, or of any for none."""
        waiting = [each for each in self._journals.values() if each.state.status == "awaiting_review"]
        return [each for each in waiting if not paths or not each.state.hashes.keys().isdisjoint(paths)]

    async def _known(self, jobs: Iterable[Job]) -> list[Known]:
        """Jobs with their journals, without one that is being forgotten just now."""
        known: list[Known] = []
        for job in jobs:
            with contextlib.suppress(NoSuchJob):
                known.append((job, await self._journal(job.id)))
        return known

    async def _journal(self, job_id: str) -> JobJournal:
        async with self._opening:
            journal = self._journals.get(job_id)
            if journal is None:
                engine, limit = self._bench.engine, self.limits.max_events_per_job
                journal = self._journals[job_id] = await JobJournal.open(engine, job_id, limit=limit)
            else:
                await journal.settle()
            if journal.state.is_finished:
                del self._journals[job_id]
            return journal

    async def _collect(self, *, room: int = 0) -> None:
        for job in await retention.collect(self._bench.engine, self._store, self.limits, room=room):
            self._journals.pop(job, None)
