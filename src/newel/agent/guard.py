"""What keeps a run from going on for ever: limits, and a watch for a model that repeats itself."""

from __future__ import annotations

from newel.agent.events import EndReason
from newel.agent.messages import AssistantMessage, ToolCall, ToolResultMessage, Usage
from newel.agent.ports import Limits

REPEATED = (
    "Not run: this exact call has been made {times} times in a row and its result was the same each time. "
    "Repeating it will not change that. Look at the result above and do something else."
)

UNCOUNTED = (
    "Stopped: the server does not report how many tokens it used, so the limit of cost cannot be enforced. "
    "Limit the turns instead (--max-turns)."
)


class Guard:
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
        self.usage += message.usage
        self.uncounted |= not message.usage.total
        if message.cost is not None:
            self.cost = (self.cost or 0.0) + message.cost

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
                    f"Stopped at the limit of {amount(limit, unit)} for one prompt ({number(used)} used).",
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


def number(value: float) -> str:
    """``1,000,000``, ``0.25``."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def amount(value: float, unit: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{number(value)} {unit}{'' if value == 1 else 's'}"


def _what(call: ToolCall) -> tuple[str, object]:
    return call.name, call.arguments
