"""The progress of a contract, computed from its run's events: a process that resumes it after a crash has the same counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Literal

from newel.agent.events import AgentEnd, EndReason, MessageEnd, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.agent.limits import unenforceable_limit
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
    add_costs,
)
from newel.contracts.judge import NO_VERDICT
from newel.runs.models import Contract
from newel.runs.run_events import AcceptanceEnd, ContractState, Evaluation, RunEvent
from newel.session.totals import totals

Step = Literal["work", "judge", "accept", "complete"]

NOT_YET = "Not yet: {missing}"
NOT_ACCEPTED = (
    "The acceptance command `{command}` failed. Fix the cause; the contract counts as fulfilled only if the command succeeds."
    "\n\n{output}"
)
REPEATED = (
    "The last {times} turns made the same calls with the same results. Repeating them will not change that: "
    "try something else."
)

MAX_IDLE = 3
"""Turns in a row without a tool call while the contract is not fulfilled."""
WARN_REPEATED, MAX_REPEATED = 3, 6
"""Turns in a row with the same calls and results after which the model is warned, and after which the run ends."""
MAX_SAME_FAILURE = 5
MAX_NO_VERDICT = 5

_CHANGING = re.compile(r"\d+\.\d+|0x[0-9a-f]+")
"""Durations and addresses: they differ in the output of a command that fails in the same way again."""


class RepetitionDetector:
    """Counts equal values in a row."""

    def __init__(self) -> None:
        self.times = 0
        self._last: object = None

    def add(self, value: object) -> None:
        self.times = self.times + 1 if self.times and value == self._last else 1
        self._last = value


class ContractProgress:
    """``step`` comes next; ``prompt`` is the message for the model's next turn, if it gets one. ``final`` is the state in which
    the contract ended. ``tool_calls`` counts those that ran; ``cost`` is in US dollars, None if no price is known.
    """

    def __init__(self, contract: Contract, earlier: Sequence[RunEvent] = ()) -> None:
        self.contract = contract
        self.step: Step = "work"
        self.prompt: str | None = contract.text
        self.final: ContractState | None = None
        self.turns = self.tool_calls = 0
        self.usage = Usage()
        self.cost: float | None = None
        self._uncounted = False
        self._calls: list[tuple[str, object]] = []
        self._open: set[str] = set()
        self._outputs: list[str] = []
        self._cycles, self._failures = RepetitionDetector(), RepetitionDetector()
        self._idle = self._unjudged = 0
        for event in earlier:
            self.apply(event)
        self.seconds = seconds_of_work(earlier)
        """In earlier processes."""

    def apply(self, event: RunEvent) -> None:
        match event:
            case MessageEnd():
                self._add_message(event.message)
            case ToolExecutionStart():
                self.tool_calls += 1
            case Evaluation():
                self._add_verdict(event)
            case AcceptanceEnd():
                self._add_check(event)
            case AgentEnd(reason="stopped"):
                self.final = ContractState(state="stopped", reason=event.message)
            case ContractState(state="stopped" | "completed" | "failed"):
                self.final = event
            case _:
                pass

    # -- limits -----------------------------------------------------------------------------------

    def exceeded_limit(self, seconds: float) -> tuple[EndReason, str] | None:
        """The first limit that is reached, and a message; ``seconds`` of work were done. The last turn is still judged."""
        contract = self.contract
        if self._uncounted and (unenforceable := unenforceable_limit(contract.max_cost, contract.max_tokens)):
            return unenforceable
        turns = contract.max_turns if self.step == "work" else None
        rows: tuple[tuple[EndReason, float | None, float, str], ...] = (
            ("max_turns", turns, self.turns, "turn"),
            ("max_tokens", contract.max_tokens, self.usage.total, "token"),
            ("max_cost", contract.max_cost, self.cost or 0.0, "US dollar"),
            ("stopped", contract.max_minutes, seconds / 60, "minute"),
        )
        for reason, limit, used, unit in rows:
            if limit is not None and used >= limit:
                return reason, f"Stopped at the limit of {pluralize(limit, unit)}. {self.summary()}"
        return None

    def stuck_reason(self) -> str | None:
        """Why more turns would be pointless; None if they are not."""
        if self._idle >= MAX_IDLE:
            return (
                f"No progress: no tool was called in {self._idle} turns, and the contract is not fulfilled."
            )
        if self._cycles.times >= MAX_REPEATED:
            return f"No progress: {self._cycles.times} turns made the same calls with the same results."
        if self._failures.times >= MAX_SAME_FAILURE:
            return f"No progress: the acceptance command failed in the same way {self._failures.times} times."
        if self._unjudged >= MAX_NO_VERDICT:
            return f"{self._unjudged} answers in a row contained no verdict on the contract. Choose another model to judge it."
        return None

    def summary(self) -> str:
        return f"{pluralize(self.tool_calls, 'tool call')} had run."

    # -- the events -------------------------------------------------------------------------------

    def _add_message(self, message: AppMessage) -> None:
        match message:
            case UserMessage():
                self.step, self.prompt = "work", None
            case AssistantMessage():
                self._add_answer(message)
            case ToolResultMessage():
                self._open.discard(message.tool_call_id)
                self._outputs.append(message.output)
                if not self._open:
                    self._end_turn()
            case CustomMessage():
                pass
        used = totals([message])
        self._add_usage(used.usage, used.cost)

    def _add_answer(self, message: AssistantMessage) -> None:
        if message.is_incomplete:
            return
        self.turns += 1
        self._uncounted |= not message.usage.total
        self._calls = [(call.name, call.arguments) for call in message.tool_calls]
        self._open = {call.id for call in message.tool_calls}
        self._outputs = []
        if self._open:
            # A resumed turn may have ended its calls already, and gone on to a further request.
            self.step = "work"
        else:
            self._end_turn()

    def _end_turn(self) -> None:
        """All calls of the turn have results."""
        self.step = "judge"
        if self._calls:
            self._idle = 0
            self._cycles.add((self._calls, self._outputs))
        else:
            self._idle += 1

    def _add_verdict(self, verdict: Evaluation) -> None:
        self._add_usage(verdict.usage, verdict.cost)
        self._unjudged = self._unjudged + 1 if verdict.why.startswith(NO_VERDICT) else 0
        if verdict.satisfied:
            self.step = "accept" if self.contract.accept else "complete"
            return
        self.step = "work"
        if self._idle:
            missing = verdict.missing or verdict.why
            self.prompt = NOT_YET.format(missing=missing)
        elif self._cycles.times >= WARN_REPEATED:
            self.prompt = REPEATED.format(times=self._cycles.times)

    def _add_check(self, check: AcceptanceEnd) -> None:
        if check.passed:
            self.step = "complete"
            return
        self.step = "work"
        self.prompt = NOT_ACCEPTED.format(command=check.command, output=check.output)
        self._failures.add(_CHANGING.sub("…", check.output))

    def _add_usage(self, usage: Usage, cost: float | None) -> None:
        self.usage += usage
        self.cost = add_costs(self.cost, cost)


def seconds_of_work(events: Sequence[RunEvent]) -> float:
    """The seconds that a run's processes worked; the time between two of them does not count."""
    times = [datetime.fromisoformat(event.timestamp) for event in events]
    return sum(
        max((now - before).total_seconds(), 0.0)
        for (before, now), event in zip(pairwise(times), events[1:], strict=True)
        if not (isinstance(event, ContractState) and event.state == "running")
    )
