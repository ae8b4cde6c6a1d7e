"""Runs a review job: the model reads, asks and proposes until there is something to review.

A job that asks the user is suspended, and so is one whose changes await review: nothing of it stays in memory. It resumes
at the end of its journal. A call that was interrupted is made again: reading has no effects, a question finds its answer
in the journal, and a proposal that the journal lacks is withdrawn first.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
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
from newel.concurrency import background_tasks
from newel.jobs.engine import EngineError, JobCancelled, JobOutcome, LeaseLost
from newel.permissions.secret_paths import GuardedWorkspace
from newel.review.model.file_lines import text_hash
from newel.review.serialize import bundle
from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.event_recorder import PROPOSE, JobEventRecorder
from newel.review_jobs.job_state import JobState
from newel.review_jobs.journal import JobJournal, event
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.review_jobs.presenters import TITLE_LENGTH
from newel.review_jobs.prompts import NO_CHANGES, system_prompt, task
from newel.review_jobs.propose import Proposer, reviews_of
from newel.review_jobs.responses import ChatEntry
from newel.runs.chat_session import is_settled
from newel.text.sanitize import plain_line
from newel.tools.review import project_tools
from newel.workspace.port import Workspace


class JobSuspended(NewelError):
    """The job waits for the user. The loop is cancelled before the model could see this."""


async def run_job(
    dependencies: ReviewDependencies, journal: JobJournal, chat: Sequence[ChatEntry]
) -> JobOutcome:
    """Start or resume the job whose lease the journal holds. ``chat`` is the session's earlier conversation."""
    return await _ReviewJobRun(dependencies, journal, chat).run()


class _ReviewJobRun:
    def __init__(
        self, dependencies: ReviewDependencies, journal: JobJournal, chat: Sequence[ChatEntry]
    ) -> None:
        self.dependencies = dependencies
        self.journal = journal
        self.chat = chat
        self.overlay = OverlayWorkspace(dependencies.workspace, dependencies.ledger)
        self.workspace: Workspace = self.overlay
        if dependencies.secret_paths is not None:  # strict: nobody is there to approve access
            self.workspace = GuardedWorkspace(self.overlay, dependencies.secret_paths, strict=True)
        self.proposer = Proposer(dependencies, journal, self.overlay)
        self.scope = anyio.CancelScope(shield=True)  # cancelled by the recorder alone, see `answer`
        self.recorder = JobEventRecorder(journal, self.proposer, dependencies.limits, self.scope.cancel)

    async def run(self) -> JobOutcome:
        state = self.journal.state
        if state.status not in {"queued", "running"}:
            return outcome_of(state)
        try:
            if state.checkpoint_id is None:
                await self.start()
            messages = await self.journal.messages()
            is_complete = await self.proposer.withdraw_unrecorded()
            failure = ""
            if not messages or not is_settled(messages):
                failure = await self.answer(messages, self.config(messages, is_complete=is_complete))
        except (LeaseLost, JobCancelled, EngineError):
            raise
        except NewelError as error:
            failure = str(error)
        if not await self.proposer.withdraw_unrecorded():
            failure = failure or "The outcome of the last proposal is unknown."
        if state.status == "waiting_for_user":
            return outcome_of(state)
        return await self.finish(failure)

    async def start(self) -> None:
        params, job, model = self.journal.params, self.journal.job, self.dependencies.config.model
        checkpoint = await self.dependencies.checkpoints.begin(
            job, session=params.session, title=plain_line(params.instruction, TITLE_LENGTH)
        )
        await self.journal.append(
            event(
                "job.started",
                session_id=params.session,
                instruction=plain_line(params.instruction, 10 * TITLE_LENGTH),
                context_rows=len(params.context_rows),
                max_tool_calls=params.max_tool_calls,
                model=model.id,
                provider=model.provider,
                rerun_of=params.rerun_of or None,
            ),
            event("checkpoint.created", checkpoint_id=checkpoint.id, session_id=params.session, job_id=job),
        )

    def config(self, messages: list[AppMessage], *, is_complete: bool) -> RunConfig:
        """``is_complete``: the ledger has no proposal left whose outcome is unknown."""
        params = self.journal.params
        used = sum(isinstance(message, ToolResultMessage) for message in messages)
        repeatable = {call.id for call in open_calls(messages) if is_complete or call.name != PROPOSE}
        return msgspec.structs.replace(
            self.dependencies.config,
            policy=AllowAll(),  # the tools only read and propose; the user decides on every change
            system_prompt=system_prompt(params.max_tool_calls),
            tools=project_tools(
                self.workspace,
                self.dependencies.limits.tools,
                ask=self.ask,
                propose=self.proposer.propose,
                staged=self.overlay.overlaid_paths,
            ),
            limits=Limits(max_tool_calls=max(params.max_tool_calls - used, 0)),
            never_begun=repeatable,
        )

    async def answer(self, messages: list[AppMessage], config: RunConfig) -> str:
        """Run the loop until it ends or is suspended, and return why it failed, if it did.

        A cancelled worker closes the recorder before the loop is cancelled: the closing events of the loop, which complete
        its open calls, must not be recorded, as the run resumes later.
        """
        params = self.journal.params
        prompts: list[AppMessage] = []
        if not messages:
            prompts = [UserMessage(content=task(params.instruction, params.context_rows, params.changed))]
        history = [*_history(self.chat), *messages]
        failure = ""
        async with background_tasks(self.close_when_cancelled):
            with self.scope:
                end = await run(
                    history, prompts, provider=self.dependencies.provider, config=config, emit=self.recorder
                )
                failure = "" if end.reason == "done" else end.message
            if self.recorder.is_closed:
                failure = self.recorder.failure
        return failure

    async def close_when_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.recorder.close()

    async def ask(self, question: str) -> str:
        """The answer to a question. A job without an answer is suspended."""
        state = self.journal.state
        if state.question is not None and state.question.question == question and state.answer is not None:
            return state.answer
        await self.journal.append(
            event("clarification.requested", question_id=f"q_{new_id()[:16]}", question=question)
        )
        self.recorder.close()
        raise JobSuspended(question)

    async def finish(self, failure: str) -> JobOutcome:
        """Record the result. Proposals that were made before a failure are reviewed, too."""
        journal = self.journal
        if self.dependencies.traces is not None and (complaint := self.dependencies.traces.complaint()):
            await journal.append(event("trace.failed", message=complaint))
        reviews = await anyio.to_thread.run_sync(
            reviews_of, self.dependencies.ledger, journal.job, list(journal.state.hashes)
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
    """How the worker releases a job in this state."""
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
    """The session's earlier conversation for the model."""
    return [
        UserMessage(content=entry.text)
        if entry.role == "user"
        else AssistantMessage(content=[TextContent(entry.text)])
        for entry in chat
    ]
