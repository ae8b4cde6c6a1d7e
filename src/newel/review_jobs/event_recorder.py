"""What the loop tells of a job becomes the job's journal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, cast

import anyio.lowlevel
import msgspec

from newel.agent.events import AgentEvent, MessageEnd, MessageStart, ToolExecutionStart
from newel.agent.messages import AppMessage, AssistantMessage, ToolCall, ToolResultMessage
from newel.review_jobs.journal import JobEvent, JobJournal, event, message_entry
from newel.review_jobs.limits import ReviewLimits
from newel.review_jobs.prompts import FULL, TOO_MANY_FAILURES
from newel.review_jobs.propose import Proposer, told
from newel.text.json import to_json
from newel.tools.review import canonical_call, canonical_result

PROPOSE: Final = "propose_edits"
MAX_ARGUMENTS: Final = 4096
"""Bytes of a call's arguments that an event holds whole."""
MAX_WORDS: Final = 500
"""Characters of an error that an event quotes."""


class JobEventRecorder:
    """Takes the events of one run of the loop. ``end`` is called when the run must end, with words if it has failed."""

    def __init__(
        self, journal: JobJournal, proposer: Proposer, limits: ReviewLimits, end: Callable[[], None]
    ) -> None:
        self._journal = journal
        self._proposer = proposer
        self._limits = limits
        self._end = end
        self._failures = 0
        self._asked = ""
        """When the message began that is under way."""
        self.failure = ""
        self.is_closed = False
        """Whether what comes is no longer kept: the run goes on another time, from where the journal ends."""

    async def __call__(self, happened: AgentEvent) -> None:
        if self.is_closed:
            await anyio.lowlevel.checkpoint()  # the loop ends here, and not with its next request
            return
        if isinstance(happened, MessageStart):
            self._asked = happened.timestamp
        if isinstance(happened, ToolExecutionStart) and happened.tool_name == PROPOSE:
            self._proposer.call = happened.tool_call_id
        if not isinstance(happened, MessageEnd):
            return
        message = happened.message
        if isinstance(message, AssistantMessage) and message.stop_reason in {"error", "aborted"}:
            return
        entry = message_entry(message)
        if isinstance(message, AssistantMessage):
            entry.data["raw_usage"] = _raw_usage(message, self._asked, happened.timestamp)
        await self._journal.append(*self._entries(message), entry)
        if isinstance(message, ToolResultMessage) and message.tool_name == PROPOSE:
            self._count(message)
        if self._journal.is_full:
            self.fail(FULL.format(limit=self._limits.max_events_per_job))

    def close(self) -> None:
        """Let the loop end without a word of it in the journal."""
        self.is_closed = True
        self._end()

    def fail(self, words: str) -> None:
        self.failure = words
        self.close()

    def _entries(self, message: AppMessage) -> list[JobEvent]:
        match message:
            case AssistantMessage():
                spoken = [event("agent.message", text=message.text)] if message.text.strip() else []
                return [*spoken, *(_requested(call) for call in message.tool_calls)]
            case ToolResultMessage():
                return [*self._proposed(message), _completed(message)]
            case _:
                return []

    def _proposed(self, result: ToolResultMessage) -> list[JobEvent]:
        """The event of the proposal that a result is of. A call that the validator refused has come to nothing."""
        outcomes = self._proposer.outcomes
        if result.tool_call_id not in outcomes:
            return []
        proposed = outcomes.pop(result.tool_call_id)
        if proposed is None:
            self._failures = -1  # it was understood, and refused for what the files say
        return [told(proposed)] if proposed is not None and not result.is_error else []

    def _count(self, result: ToolResultMessage) -> None:
        """Give a model up that does not learn from the validator's words."""
        self._failures = self._failures + 1 if result.is_error else 0
        if self._failures > self._limits.max_schema_retries:
            self.fail(TOO_MANY_FAILURES.format(times=self._failures, problem=result.output[:MAX_WORDS]))


def _raw_usage(message: AssistantMessage, asked: str, answered: str) -> dict[str, Any]:
    """What a request to the model took: tokens, milliseconds with all its tries, US dollars where they are known."""
    taken = datetime.fromisoformat(answered) - datetime.fromisoformat(asked)
    return {
        "provider": message.provider,
        "model": message.model,
        **{f"{kind}_tokens": number for kind, number in msgspec.structs.asdict(message.usage).items()},
        "cost": message.cost,
        "latency_ms": round(taken.total_seconds() * 1000),
    }


def _requested(call: ToolCall) -> JobEvent:
    canonical = msgspec.structs.asdict(canonical_call(call))
    return event("tool.call.requested", tool=call.name, **canonical | {"arguments": _bounded(call.arguments)})


def _completed(result: ToolResultMessage) -> JobEvent:
    """A canonical result, in which the answer itself gives way to how much it was."""
    canonical = canonical_result(result)
    return event(
        "tool.call.completed",
        tool=canonical.name,
        tool_call_id=canonical.tool_call_id,
        name=canonical.name,
        ok=canonical.ok,
        result_count=_count(canonical.result),
        error=canonical.error and canonical.error[:MAX_WORDS],
        duration_ms=result.duration,
    )


def _bounded(arguments: dict[str, Any]) -> dict[str, Any]:
    size = len(to_json(arguments))
    return arguments if size <= MAX_ARGUMENTS else {"omitted_bytes": size}


def _count(found: dict[str, Any] | None) -> int | None:
    """How many results or files a tool found; None of a tool that counts nothing."""
    lists: list[Any] = [found.get("results"), found.get("files")] if found is not None else []
    return next((len(cast("list[Any]", each)) for each in lists if isinstance(each, list)), None)
