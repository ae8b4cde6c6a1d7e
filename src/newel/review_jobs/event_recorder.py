"""Writes the agent's events to the job's journal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, cast

import anyio.lowlevel
import msgspec

from newel.agent.events import AgentEvent, MessageEnd, MessageStart, ToolExecutionStart
from newel.agent.messages import AppMessage, AssistantMessage, ToolCall, ToolResultMessage
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.journal import JobEvent, JobJournal, event, message_entry
from newel.review_jobs.prompts import JOURNAL_FULL, TOO_MANY_FAILURES
from newel.review_jobs.propose import Proposer, proposed_event
from newel.text.json import to_json
from newel.tools.review import canonical_call, canonical_result

PROPOSE: Final = "propose_edits"
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
        if not isinstance(agent_event, MessageEnd):
            return
        message = agent_event.message
        if isinstance(message, AssistantMessage) and message.stop_reason in {"error", "aborted"}:
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
                return [*texts, *(_requested(call) for call in message.tool_calls)]
            case ToolResultMessage():
                return [*self._proposed(message), _completed(message)]
            case _:
                return []

    def _proposed(self, result: ToolResultMessage) -> list[JobEvent]:
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


def _requested(call: ToolCall) -> JobEvent:
    canonical = msgspec.structs.asdict(canonical_call(call))
    return event("tool.call.requested", tool=call.name, **canonical | {"arguments": _bounded(call.arguments)})


def _completed(result: ToolResultMessage) -> JobEvent:
    """A canonical result with a count in place of its content."""
    canonical = canonical_result(result)
    return event(
        "tool.call.completed",
        tool=canonical.name,
        tool_call_id=canonical.tool_call_id,
        name=canonical.name,
        ok=canonical.ok,
        result_count=_count(canonical.result),
        error=canonical.error and canonical.error[:MAX_QUOTE],
        duration_ms=result.duration,
    )


def _bounded(arguments: dict[str, Any]) -> dict[str, Any]:
    size = len(to_json(arguments))
    return arguments if size <= MAX_ARGUMENTS_BYTES else {"omitted_bytes": size}


def _count(result: dict[str, Any] | None) -> int | None:
    """The number of results or files; None for a tool without any."""
    lists: list[Any] = [result.get("results"), result.get("files")] if result is not None else []
    return next((len(cast("list[Any]", items)) for items in lists if isinstance(items, list)), None)
