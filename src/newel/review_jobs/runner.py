"""A review job carried out: the model reads, asks and proposes, until there is something to review.

A job that asks the user is put aside, and so is one whose changes await review: nothing of it stays in memory. Whoever
carries on begins where the journal ends. A call that had not come to its end then is made again: what only reads does no
harm, a question finds its answer in the journal, and a proposal that the journal does not know of is taken back first.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.agent.events import AgentEnd
from newel.agent.loop import run
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
    new_id,
    open_calls,
)
from newel.agent.ports import AllowAll, Limits, RunConfig
from newel.concurrency import task_group
from newel.jobs.engine import EngineError, JobCancelled, JobOutcome, LeaseLost
from newel.permissions.guarded import GuardedWorkspace
from newel.review.model.file_lines import text_hash
from newel.review.serialize import bundle
from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.event_recorder import PROPOSE, JobEventRecorder
from newel.review_jobs.job_state import JobState
from newel.review_jobs.journal import JobJournal, event
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.review_jobs.prompts import NO_CHANGES, system_prompt, task
from newel.review_jobs.propose import Proposer, reviews_of
from newel.review_jobs.schemas import ChatEntry
from newel.runs.chat_session import is_settled
from newel.text.sanitize import plain_line
from newel.tools.review import project_tools
from newel.workspace.port import Workspace

_TITLE = 80


async def carry_out(bench: ReviewDependencies, journal: JobJournal, chat: Sequence[ChatEntry]) -> JobOutcome:
    """Carry out a job whose lease the journal has, or what an earlier process left of it. ``chat`` is what was said in the
    session before.
    """
    return await _ReviewJobRun(bench, journal, chat).run()


class _ReviewJobRun:
    def __init__(self, bench: ReviewDependencies, journal: JobJournal, chat: Sequence[ChatEntry]) -> None:
        self.bench = bench
        self.journal = journal
        self.chat = chat
        self.staged = OverlayWorkspace(bench.workspace, bench.ledger)
        self.opened: Workspace = self.staged
        if bench.places is not None:
            self.opened = GuardedWorkspace(self.staged, bench.places, strict=True)  # a job waits for no yes
        self.proposer = Proposer(bench, journal, self.staged)
        self.scope = anyio.CancelScope(shield=True)  # the one who waits for the loop cancels it, see `answer`
        self.recorder = JobEventRecorder(journal, self.proposer, bench.limits, self.scope.cancel)

    async def run(self) -> JobOutcome:
        state = self.journal.state
        if state.status not in {"queued", "running"}:
            return outcome_of(state)
        try:
            if state.checkpoint_id is None:
                await self.begin()
            said = await self.journal.messages()
            is_whole = await self.proposer.take_back()
            failure = ""
            if not said or not is_settled(said):
                failure = await self.answer(said, self.config(said, is_whole=is_whole))
        except (LeaseLost, JobCancelled, EngineError):
            raise
        except NewelError as error:
            failure = str(error)
        if not await self.proposer.take_back():
            failure = failure or "What came of the last proposal is unknown."
        if state.status == "waiting_for_user":
            return outcome_of(state)
        return await self.end(failure)

    async def begin(self) -> None:
        params, job = self.journal.params, self.journal.job
        checkpoint = await self.bench.checkpoints.begin(
            job, session=params.session, title=plain_line(params.instruction, _TITLE)
        )
        started = event(
            "job.started",
            session_id=params.session,
            instruction=plain_line(params.instruction, 10 * _TITLE),
            context_rows=len(params.context_rows),
            max_tool_calls=params.max_tool_calls,
            model=self.bench.config.model.id,
            provider=self.bench.config.model.provider,
            rerun_of=params.rerun_of or None,
        )
        made = event("checkpoint.created", checkpoint_id=checkpoint.id, session_id=params.session, job_id=job)
        await self.journal.append(started, made)

    def config(self, said: list[AppMessage], *, is_whole: bool) -> RunConfig:
        params = self.journal.params
        used = sum(isinstance(message, ToolResultMessage) for message in said)
        left_open = {call.id for call in open_calls(said) if is_whole or call.name != PROPOSE}
        return msgspec.structs.replace(
            self.bench.config,
            policy=AllowAll(),  # the tools read and propose: what changes a file is the user's decision
            system_prompt=system_prompt(params.max_tool_calls),
            tools=project_tools(
                self.opened,
                self.bench.limits.tools,
                ask=self.ask,
                propose=self.proposer.propose,
                staged=self.staged.staged_paths,
            ),
            limits=Limits(max_tool_calls=max(params.max_tool_calls - used, 0)),
            never_begun=left_open,
        )

    async def answer(self, said: list[AppMessage], config: RunConfig) -> str:
        """Let the loop run to its end, or until it is put aside; returns words if it failed. When the worker goes, the
        loop's closing words are not kept, as the run is not over.
        """
        params = self.journal.params
        prompts: list[AppMessage] = []
        if not said:
            prompts = [UserMessage(content=task(params.instruction, params.context_rows, params.changed))]
        ended: list[AgentEnd] = []
        failed: list[Exception] = []
        done = anyio.Event()

        async def go() -> None:
            with self.scope:
                try:
                    history = [*_history(self.chat), *said]
                    provider = self.bench.provider
                    ended.append(
                        await run(history, prompts, provider=provider, config=config, emit=self.recorder)
                    )
                except Exception as error:  # noqa: BLE001 — raised below, outside the task group
                    failed.append(error)
            done.set()

        async with task_group() as tasks:
            tasks.start_soon(go)
            try:
                await done.wait()
            except anyio.get_cancelled_exc_class():
                self.recorder.close()
                raise
        if self.recorder.is_closed:
            return self.recorder.failure
        if failed:
            raise failed[0]
        return "" if not ended or ended[0].reason == "done" else ended[0].message

    async def ask(self, question: str) -> str:
        """The answer to a question; a job whose question is not answered yet is put aside."""
        state = self.journal.state
        if state.question is not None and state.question.question == question and state.answer is not None:
            return state.answer
        await self.journal.append(
            event("clarification.requested", question_id=f"q_{new_id()[:16]}", question=question)
        )
        self.recorder.close()
        await anyio.sleep_forever()
        raise AssertionError  # the run was put aside

    async def end(self, failure: str) -> JobOutcome:
        """Say what came of it. What was proposed before a failure is there to be reviewed."""
        journal = self.journal
        if self.bench.traces is not None and (complaint := self.bench.traces.complaint()):
            await journal.append(event("trace.failed", message=complaint))
        reviews = await anyio.to_thread.run_sync(
            reviews_of, self.bench.ledger, journal.job, list(journal.state.hashes)
        )
        if reviews:
            files = [
                {
                    "file_path": review.path,
                    "base_file_hash": text_hash(review.base),
                    "rev": review.rev,
                    "hunk_ids": [hunk.hunk_id for hunk in bundle(journal.job, [review]).files[0].hunks],
                }
                for review in reviews
            ]
            await journal.append(event("diff.generated", files=files, incomplete=failure or None))
        elif failure:
            await journal.append(event("job.failed", error=NO_CHANGES.format(why=failure)))
        else:
            await journal.append(event("job.completed", summary=journal.state.summary))
        return outcome_of(journal.state)


def outcome_of(state: JobState) -> JobOutcome:
    """How a worker leaves a job that has come to this."""
    match state.status:
        case "completed":
            return JobOutcome(state="done")
        case "failed":
            return JobOutcome(state="failed", reason=state.error or "")
        case "waiting_for_user":
            return JobOutcome(state="asking", reason=state.status)
        case _:
            return JobOutcome(state="waiting", reason=state.status)


def _history(chat: Sequence[ChatEntry]) -> list[AppMessage]:
    """What was said in the session before, as the model is told."""
    return [
        UserMessage(content=entry.text)
        if entry.role == "user"
        else AssistantMessage(content=[TextContent(entry.text)])
        for entry in chat
    ]
