"""Limits of a run, and detection of repeated calls."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from newel.agent.errors import NoProgress
from newel.agent.events import AgentEvent, EndReason, MessageEnd, ToolExecutionStart, ToolExecutionUpdate
from newel.agent.formatting import format_number, pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    add_costs,
)
from newel.agent.ports import Limits

REPEATED = (
    "Not run: this exact call has been made {times} times in a row with the same result. Repeating it at once will not change that. "
    "Read the result above and try something else."
)

WAITED_MS = 10_000
"""Duration of a call that waits, such as for a build elsewhere: the next one may have another result."""

MAX_REFUSED = 5
"""Turns in a row in which a repeated call is refused, after which the run ends."""

STUCK = "The model keeps repeating one call of `{tool}`, although it was refused. Say what it should do instead, or choose another model."

UNCOUNTED = (
    "Stopped: the server does not report token usage, so the {limit} limit cannot be enforced. Limit the turns instead "
    "(--max-turns)."
)


def unenforceable_limit(max_cost: float | None, max_tokens: int | None) -> tuple[EndReason, str] | None:
    """The limit that a server without usage would never reach, and a message; None if there is none."""
    if max_cost is not None:
        return "max_cost", UNCOUNTED.format(limit="cost")
    if max_tokens is not None:
        return "max_tokens", UNCOUNTED.format(limit="token")
    return None


class UsageLimiter:
    """Counts what one prompt uses.

    ``turns`` are the answers, without those of failed requests. ``cost`` is the sum of all known costs in US dollars, None if none
    is known. ``uncounted`` is true once an answer came without token usage.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns: int = 0
        self.tool_calls = 0
        self.usage: Usage = Usage()
        self.last_usage: Usage = Usage()
        self.cost: float | None = None
        self.uncounted: bool = False
        self._last: tuple[tuple[str, object], str] | None = None
        self._times = 0
        self._refused_turns: set[int] = set()

    def count_response(self, message: AssistantMessage) -> None:
        if not message.is_incomplete:
            self.last_usage = message.usage
        self._add_answer(message)

    def count_compaction(self, compaction: AppMessage) -> None:
        """Count what a model used for a summary, if one wrote it."""
        if isinstance(compaction, CustomMessage) and "usage" in compaction.data:
            usage = msgspec.convert(compaction.data["usage"], Usage)
            self.uncounted |= not usage.total
            self._add(usage, compaction.data.get("cost"))

    def count_event(self, event: AgentEvent) -> None:
        """Count an event of a run that is followed from outside, also of one that a tool runs."""
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                self._add_answer(message)
            case MessageEnd(message=message):
                self.count_compaction(message)
            case ToolExecutionStart():
                self.tool_calls += 1
            case ToolExecutionUpdate(event=nested) if nested is not None:
                self.count_event(nested)
            case _:
                pass

    def _add_answer(self, message: AssistantMessage) -> None:
        if not message.is_incomplete:
            self.turns += 1
            self.uncounted |= not message.usage.total
        self._add(message.usage, message.cost)

    def _add(self, usage: Usage, cost: float | None) -> None:
        self.usage += usage
        self.cost = add_costs(self.cost, cost)

    def exceeded_limit(self, *, in_turn: bool = False) -> tuple[EndReason, str] | None:
        """The first limit that is reached, and a message; None if there is none. With ``in_turn`` the limit of turns does not
        count: the last turn may run its tools.
        """
        limits = self.limits
        if self.uncounted and (unenforceable := unenforceable_limit(limits.max_cost, limits.max_tokens)):
            return unenforceable
        rows: tuple[tuple[EndReason, float | None, float, str], ...] = (
            ("max_turns", limits.max_turns, self.turns, "turn"),
            ("max_tool_calls", limits.max_tool_calls, self.tool_calls, "tool call"),
            ("max_tokens", limits.max_tokens, self.usage.total, "token"),
            ("max_cost", limits.max_cost, self.cost or 0.0, "US dollar"),
        )
        for reason, limit, used, unit in rows:
            if limit is not None and used >= limit and not (in_turn and reason == "max_turns"):
                return (
                    reason,
                    f"Stopped at the limit of {pluralize(limit, unit)} for one prompt ({format_number(used)} used).",
                )
        return None

    def repetition(self, call: ToolCall) -> str | None:
        """The refusal of a call if at least the last two calls were the same, with the same result, and did not wait for another."""
        if self._times >= 2 and self._last is not None and self._last[0] == (call.name, call.arguments):
            return REPEATED.format(times=self._times)
        return None

    def record_result(self, call: ToolCall, result: ToolResultMessage) -> None:
        latest = ((call.name, call.arguments), result.output)
        if latest == self._last and result.duration < WAITED_MS:
            self._times += 1
        elif self.repetition(call) is None:
            self._last, self._times = latest, 1
            self._refused_turns.clear()
        else:  # a refusal is no new result: the same call is refused again
            self._refused_turns.add(self.turns)

    def check_progress(self, queued: Sequence[AppMessage]) -> None:
        """Raises ``NoProgress``, unless one of the ``queued`` messages is the user's, which may help the model."""
        if any(isinstance(message, UserMessage) and not message.is_notice for message in queued):
            self._refused_turns.clear()
        if self._last is not None and len(self._refused_turns) >= MAX_REFUSED:
            raise NoProgress(STUCK.format(tool=self._last[0][0]))
