"""Runs a review job: the model reads, asks and proposes until there is something to review.

A job that asks the user is suspended, and so is one whose changes await review: nothing of it stays in memory. It resumes
at the end of its journal. A call that was interrupted is made again: reading has no effects, a question finds its answer
in the journal, and a proposal that the journal lacks is withdrawn first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.agent.events import AgentEvent, MessageEnd, MessageStart, ModelRouted, ToolExecutionStart
from newel.agent.loop import run
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    new_id,
    open_calls,
)
from newel.agent.ports import AllowAll, Emit, Limits, RunConfig
from newel.concurrency import background_tasks
from newel.jobs.engine import EngineError, JobCancelled, JobOutcome, LeaseLost
from newel.permissions.secret_paths import GuardedWorkspace
from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import buffer
from newel.review.model.revision import revisable
from newel.review.serialize import bundle
from newel.review_jobs.dependencies import ReviewDependencies, ReviewLimits
from newel.review_jobs.journal import TITLE_LENGTH, JobEvent, JobJournal, JobState, event, message_entry
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.review_jobs.prompts import describe_hunk, system_prompt, task
from newel.review_jobs.propose import Proposer, proposed_event, reviews_of
from newel.review_jobs.requests import HunkName
from newel.review_jobs.responses import ChatEntry
from newel.runs.chat_session import is_settled
from newel.text.json import to_json
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
        self.base = dependencies.config
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
            self.base = await self.base_config()
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

    async def base_config(self) -> RunConfig:
        """The configuration of all jobs, with the mode of this one. Raises ``NewelError`` if its model is not available."""
        config, mode = self.dependencies.config, self.journal.params.agent_mode
        if mode is None or mode == config.agent_mode or self.dependencies.find_model is None:
            return config
        model = await self.dependencies.find_model(mode)
        return msgspec.structs.replace(config, agent_mode=mode, model=model)

    async def start(self) -> None:
        params, job, model = self.journal.params, self.journal.job, self.base.model
        checkpoint = await self.dependencies.checkpoints.begin(
            job, session=params.session, title=params.title
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
                agent_mode=self.base.agent_mode,
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
            self.base,
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
            about = await self.revision_task(params.revise) if params.revise is not None else ""
            words = task(params.instruction, params.context_rows, params.changed, about)
            prompts = [UserMessage(content=words)]
        history = [*_history(self.chat), *messages]
        failure = ""
        async with background_tasks(self.close_when_cancelled):
            with self.scope:
                end = await run(
                    history, prompts, provider=self.dependencies.provider, config=config, emit=self.emitter()
                )
                failure = "" if end.reason == "done" else end.message
            if self.recorder.is_closed:
                failure = self.recorder.failure
        return failure

    def emitter(self) -> Emit:
        """The recorder; before it, a subscriber also gets the closing events of a job that is suspended."""
        recorder, follow = self.recorder, self.dependencies.follow
        if follow is None:
            return recorder
        subscriber = follow(self.journal.params.session, self.base.model)

        async def emit(agent_event: AgentEvent) -> None:
            subscriber(agent_event)
            await recorder(agent_event)

        return emit

    async def revision_task(self, name: HunkName) -> str:
        """The hunk that the instruction is about, for the model. The file counts as read. Raises ``ReviewError`` if the hunk
        is gone, or the user has edited it meanwhile.
        """
        review = await self.dependencies.saver.refresh(name.file_path)
        position = revisable(review, name.hunk_id)
        if buffer(review):
            await self.overlay.read_bytes(await self.overlay.resolve(review.path))
        checkpoints = await anyio.to_thread.run_sync(self.dependencies.ledger.checkpoints)
        titles = {checkpoint.run: checkpoint.title for checkpoint in checkpoints}
        return describe_hunk(review, position, titles.get(position.hunk.top.run, ""))

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


# -- the journal of a run -----------------------------------------------------------------------------


PROPOSE: Final = "propose_edits"
NO_CHANGES: Final = "The job ended before it proposed a change. {why}"
TOO_MANY_FAILURES: Final = "The model made {times} malformed proposals in a row. The last error: {problem}"
JOURNAL_FULL: Final = "The job was stopped because its journal reached the limit of {limit} entries."
MAX_ARGUMENTS_BYTES: Final = 4096
"""The longest arguments of a call that an event includes."""
MAX_QUOTE: Final = 500
"""Characters of an error that an event quotes."""


class JobEventRecorder:
    """Receives the events of one run of the loop. ``stop`` is called to end the run; ``failure`` says why it failed."""

    def __init__(
        self, journal: JobJournal, proposer: Proposer, limits: ReviewLimits, stop: Callable[[], None]
    ) -> None:
        self._journal = journal
        self._proposer = proposer
        self._limits = limits
        self._stop = stop
        self._failures = 0
        self._requested_at = ""
        self.failure = ""
        self.is_closed = False
        """Whether events are dropped: the run resumes later from the end of the journal."""

    async def __call__(self, agent_event: AgentEvent) -> None:
        if self.is_closed:
            await anyio.lowlevel.checkpoint()  # the loop is cancelled here, before its next request
            return
        if isinstance(agent_event, MessageStart):
            self._requested_at = agent_event.timestamp
        if isinstance(agent_event, ToolExecutionStart) and agent_event.tool_name == PROPOSE:
            self._proposer.call = agent_event.tool_call_id
        if isinstance(agent_event, ModelRouted):
            await self._journal.append(
                event(
                    "model.routed",
                    place=agent_event.place,
                    provider=agent_event.provider,
                    model=agent_event.model,
                    reason=agent_event.reason,
                )
            )
        if not isinstance(agent_event, MessageEnd):
            return
        message = agent_event.message
        if isinstance(message, AssistantMessage) and message.is_incomplete:
            return
        entry = message_entry(message)
        if isinstance(message, AssistantMessage):
            entry.data["raw_usage"] = _raw_usage(message, self._requested_at, agent_event.timestamp)
        await self._journal.append(*self._entries(message), entry)
        if isinstance(message, ToolResultMessage) and message.tool_name == PROPOSE:
            self._count_failures(message)
        if self._journal.is_full:
            self.fail(JOURNAL_FULL.format(limit=self._limits.max_events_per_job))

    def close(self) -> None:
        """End the loop without recording that it ended."""
        self.is_closed = True
        self._stop()

    def fail(self, reason: str) -> None:
        self.failure = reason
        self.close()

    def _entries(self, message: AppMessage) -> list[JobEvent]:
        match message:
            case AssistantMessage():
                texts = [event("agent.message", text=message.text)] if message.text.strip() else []
                return [*texts, *(_requested_event(call) for call in message.tool_calls)]
            case ToolResultMessage():
                return [*self._proposed_event(message), _completed_event(message)]
            case _:
                return []

    def _proposed_event(self, result: ToolResultMessage) -> list[JobEvent]:
        """The event of a successful proposal."""
        outcomes = self._proposer.outcomes
        if result.tool_call_id not in outcomes:
            return []
        proposal = outcomes.pop(result.tool_call_id)
        if proposal is None:
            self._failures = -1  # well-formed but rejected: `_count_failures` resets it to 0
        return [proposed_event(proposal)] if proposal is not None and not result.is_error else []

    def _count_failures(self, result: ToolResultMessage) -> None:
        """Stop a model that keeps making malformed calls."""
        self._failures = self._failures + 1 if result.is_error else 0
        if self._failures > self._limits.max_schema_retries:
            self.fail(TOO_MANY_FAILURES.format(times=self._failures, problem=result.output[:MAX_QUOTE]))


def _raw_usage(message: AssistantMessage, requested_at: str, answered_at: str) -> dict[str, Any]:
    """The usage of a model request: tokens, milliseconds including retries, and US dollars if known."""
    latency = datetime.fromisoformat(answered_at) - datetime.fromisoformat(requested_at)
    return {
        "provider": message.provider,
        "model": message.model,
        **{f"{kind}_tokens": number for kind, number in msgspec.structs.asdict(message.usage).items()},
        "cost": message.cost,
        "latency_ms": round(latency.total_seconds() * 1000),
    }


def _requested_event(call: ToolCall) -> JobEvent:
    arguments = _bound_arguments(call.arguments)
    return event(
        "tool.call.requested", tool=call.name, tool_call_id=call.id, name=call.name, arguments=arguments
    )


def _completed_event(result: ToolResultMessage) -> JobEvent:
    """A result with a count in place of its content."""
    return event(
        "tool.call.completed",
        tool=result.tool_name,
        tool_call_id=result.tool_call_id,
        name=result.tool_name,
        ok=not result.is_error,
        result_count=None if result.is_error else _count(result.output),
        error=result.output[:MAX_QUOTE] if result.is_error else None,
        duration_ms=result.duration,
    )


def _bound_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    size = len(to_json(arguments))
    return arguments if size <= MAX_ARGUMENTS_BYTES else {"omitted_bytes": size}


def _count(output: str) -> int | None:
    """The number of results or files in a tool's answer; None for a tool without any."""
    try:
        answer = msgspec.json.decode(output, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError):  # plain text, perhaps with half of a surrogate pair
        return None
    lists: list[Any] = [answer.get("results"), answer.get("files")]
    return next((len(cast("list[Any]", items)) for items in lists if isinstance(items, list)), None)
