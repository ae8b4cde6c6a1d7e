"""Where a contract stands. It is the fold of its run's events, so that a process that comes after a crash goes on
from where the one before it was, with the same counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from newel.agent.events import AgentEnd, EndReason, MessageEnd, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.contracts.judge import NO_VERDICT
from newel.runs.models import Contract
from newel.runs.run_events import AcceptanceEnd, ContractState, Evaluation, RunEvent
from newel.session.coding_agent import totals

Step = Literal["work", "judge", "accept", "complete"]

NOT_YET = "Not yet: {missing}"
NOT_ACCEPTED = "The acceptance command `{command}` failed. Mend what it shows; the work counts only if it succeeds.\n\n{output}"
REPEATED = (
    "The last {times} turns made the same calls with the same results. Repeating them will not change that: "
    "do something else."
)

MAX_IDLE = 3
"""Turns in a row without a tool call, the contract not being fulfilled."""
WARN_REPEATED, MAX_REPEATED = 3, 6
"""Turns in a row with the same calls and the same results: after so many the model is told, after so many it is over."""
MAX_SAME_FAILURE = 5
MAX_NO_VERDICT = 5

_CHANGING = re.compile(r"\d+\.\d+|0x[0-9a-f]+")
"""Durations and addresses: what differs in the output of a command that fails in the same way again."""


class RepetitionDetector:
    """How many times in a row the same thing came."""

    def __init__(self) -> None:
        self.times = 0
        self._last: object = None

    def see(self, thing: object) -> None:
        self.times = self.times + 1 if self.times and thing == self._last else 1
        self._last = thing


class ContractProgress:
    """``step`` is what comes next, ``words`` what the model is told before it works on. ``final`` is the state in which
    the contract ended. ``tool_calls`` counts those that ran; ``cost`` is in US dollars, None if no price is known.
    """

    def __init__(self, contract: Contract, earlier: Sequence[RunEvent] = ()) -> None:
        self.contract = contract
        self.step: Step = "work"
        self.words: str | None = contract.text
        self.final: ContractState | None = None
        self.turns = self.tool_calls = 0
        self.usage = Usage()
        self.cost: float | None = None
        self._calls: list[tuple[str, object]] = []
        self._open: set[str] = set()
        self._outputs: list[str] = []
        self._cycles, self._failures = RepetitionDetector(), RepetitionDetector()
        self._idle = self._unjudged = 0
        for event in earlier:
            self.see(event)
        self.seconds = worked(earlier)
        """Of work before this process."""

    def see(self, event: RunEvent) -> None:
        """Take over what an event changes."""
        match event:
            case MessageEnd():
                self._said(event.message)
            case ToolExecutionStart():
                self.tool_calls += 1
            case Evaluation():
                self._judged(event)
            case AcceptanceEnd():
                self._checked(event)
            case AgentEnd(reason="stopped"):
                self.final = ContractState(state="stopped", reason=event.message)
            case ContractState(state="stopped" | "completed" | "failed"):
                self.final = event
            case _:
                pass

    # -- what may end it --------------------------------------------------------------------------

    def spent(self, seconds: float) -> tuple[EndReason, str] | None:
        """The first limit that is used up, and words for it. The last turn is still judged. ``seconds`` is the time that
        the work has taken.
        """
        contract = self.contract
        turns = contract.max_turns if self.step == "work" else None
        rows: tuple[tuple[EndReason, float | None, float, str], ...] = (
            ("max_turns", turns, self.turns, "turn"),
            ("max_tokens", contract.max_tokens, self.usage.total, "token"),
            ("max_cost", contract.max_cost, self.cost or 0.0, "US dollar"),
            ("stopped", contract.max_minutes, seconds / 60, "minute"),
        )
        for reason, limit, used, unit in rows:
            if limit is not None and used >= limit:
                return reason, f"Stopped at the limit of {pluralize(limit, unit)}. {self.done()}"
        return None

    def stuck(self) -> str | None:
        """Why there is no point in going on, in words; None while there is."""
        if self._idle >= MAX_IDLE:
            return (
                f"No progress: no tool was called in {self._idle} turns, and the contract is not fulfilled."
            )
        if self._cycles.times >= MAX_REPEATED:
            return f"No progress: {self._cycles.times} turns made the same calls with the same results."
        if self._failures.times >= MAX_SAME_FAILURE:
            return f"No progress: the acceptance command failed in the same way {self._failures.times} times."
        if self._unjudged >= MAX_NO_VERDICT:
            return f"{self._unjudged} answers in a row held no verdict on the contract. Choose another model to judge it."
        return None

    def done(self) -> str:
        """What was done until now, in words."""
        return f"{pluralize(self.tool_calls, 'tool call')} had run."

    # -- the events -------------------------------------------------------------------------------

    def _said(self, message: AppMessage) -> None:
        match message:
            case UserMessage():
                self.step, self.words = "work", None
            case AssistantMessage():
                self._answered(message)
            case ToolResultMessage():
                self._open.discard(message.tool_call_id)
                self._outputs.append(message.output)
                if not self._open:
                    self._turned()
            case CustomMessage():
                pass
        used = totals([message])
        self._use(used.usage, used.cost)

    def _answered(self, message: AssistantMessage) -> None:
        if message.stop_reason in {"error", "aborted"}:
            return
        self.turns += 1
        self._calls = [(call.name, call.arguments) for call in message.tool_calls]
        self._open = {call.id for call in message.tool_calls}
        self._outputs = []
        if not self._open:
            self._turned()

    def _turned(self) -> None:
        """A turn is over: all its calls have results."""
        self.step = "judge"
        if self._calls:
            self._idle = 0
            self._cycles.see((self._calls, self._outputs))
        else:
            self._idle += 1

    def _judged(self, verdict: Evaluation) -> None:
        self._use(verdict.usage, verdict.cost)
        self._unjudged = self._unjudged + 1 if verdict.why.startswith(NO_VERDICT) else 0
        if verdict.satisfied:
            self.step = "accept" if self.contract.accept else "complete"
            return
        self.step = "work"
        if self._idle:
            missing = verdict.missing or verdict.why
            self.words = NOT_YET.format(missing=missing)
        elif self._cycles.times >= WARN_REPEATED:
            self.words = REPEATED.format(times=self._cycles.times)

    def _checked(self, check: AcceptanceEnd) -> None:
        if check.passed:
            self.step = "complete"
            return
        self.step = "work"
        self.words = NOT_ACCEPTED.format(command=check.command, output=check.output)
        self._failures.see(_CHANGING.sub("…", check.output))

    def _use(self, usage: Usage, cost: float | None) -> None:
        self.usage += usage
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


def worked(events: Sequence[RunEvent]) -> float:
    """The seconds that a run's processes were at work; the time between two of them does not count."""
    seconds = 0.0
    before: datetime | None = None
    for event in events:
        now = datetime.fromisoformat(event.timestamp)
        begins = isinstance(event, ContractState) and event.state == "running"
        if before is not None and not begins:
            seconds += max((now - before).total_seconds(), 0.0)
        before = now
    return seconds
