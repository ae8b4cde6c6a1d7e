"""What keeps a run from going on for ever: limits, and a watch for a model that repeats itself."""

from __future__ import annotations

import msgspec

from newel.agent.events import EndReason
from newel.agent.formatting import format_number, pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from newel.agent.ports import Limits

REPEATED = (
    "Not run: this exact call has been made {times} times in a row and its result was the same each time. "
    "Repeating it will not change that. Look at the result above and do something else."
)

UNCOUNTED = (
    "Stopped: the server does not report how many tokens it used, so the limit of cost cannot be enforced. "
    "Limit the turns instead (--max-turns)."
)


class UsageLimiter:
    """Counts what one prompt uses. ``cost`` is in US dollars: the sum of what is known, None if nothing is. ``uncounted``: for a
    response the server has told no tokens, so that its cost is unknown.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.last_usage = Usage()
        self.cost: float | None = None
        self.uncounted = False
        self._last: tuple[object, object] | None = None
        self._times = 0

    def count(self, message: AssistantMessage) -> None:
        self.turns += 1
        self.last_usage = message.usage
        self._add(message.usage, message.cost)

    def count_summary(self, compaction: AppMessage) -> None:
        """What a model used to sum up the conversation; nothing if it was done without one."""
        if isinstance(compaction, CustomMessage) and "usage" in compaction.data:
            self._add(msgspec.convert(compaction.data["usage"], Usage), compaction.data.get("cost"))

    def _add(self, usage: Usage, cost: float | None) -> None:
        self.usage += usage
        self.uncounted |= not usage.total
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def spent(self, *, in_turn: bool = False) -> tuple[EndReason, str] | None:
        """The first limit that is used up, and words for it; None while there is room. ``in_turn`` leaves
        out the limit of turns: the last turn may run its tools.
        """
        limits = self.limits
        if limits.max_cost is not None and self.uncounted:
            return "max_cost", UNCOUNTED
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

    def repeated(self, call: ToolCall) -> str | None:
        """Words in place of a run if the last two calls were this one, with one result."""
        if self._times >= 2 and self._last is not None and self._last[0] == _what(call):
            return REPEATED.format(times=self._times)
        return None

    def note(self, call: ToolCall, result: ToolResultMessage) -> None:
        """Remember how a call was answered."""
        now = (_what(call), result.output)
        if now == self._last:
            self._times += 1
        elif self.repeated(call) is None:  # a warning is no news: the same call again gets it again
            self._last, self._times = now, 1


def _what(call: ToolCall) -> tuple[str, object]:
    return call.name, call.arguments
