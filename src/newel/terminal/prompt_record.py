"""Follows a prompt to its result (``newel.terminal.run_result``), which is loaded at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from newel.agent.events import AgentEnd, AgentEvent, EndReason, MessageEnd, MessageStart
from newel.agent.messages import AssistantMessage, Usage, add_costs
from newel.session.coding_agent import CodingAgent

if TYPE_CHECKING:
    from newel.terminal.run_result import ModelUse, PromptResult, SessionStarted


class RunReporter(Protocol):
    """Tells a program where its run begins and ends. Raises ``OSError`` if the reader has gone."""

    def on_session(self, session: SessionStarted, /) -> None: ...

    def on_result(self, result: PromptResult, /) -> None: ...


class HeldAnswer(Protocol):
    """The last answer of a run whose answers are held to a schema."""

    @property
    def value(self) -> Any:
        """The decoded answer, ``UNSET`` if none fits."""
        ...

    @property
    def text(self) -> str:
        """The JSON of ``value``."""
        ...

    @property
    def problem(self) -> str:
        """Why the last answer does not fit."""
        ...


class PromptRecord:
    """Follows one prompt from its start; ``result`` ends it. ``held`` is set if the answer is held to a schema."""

    def __init__(self, agent: CodingAgent, held: HeldAnswer | None = None) -> None:
        self._agent = agent
        self._held = held
        self._first = len(agent.state.messages)
        self._began = time.monotonic()
        self._asked: float | None = None
        self._waited = 0.0
        self._end: AgentEnd | None = None
        self._unsubscribe = agent.subscribe(self._on_event)

    def _on_event(self, event: AgentEvent) -> None:
        match event:
            case MessageStart(message=AssistantMessage()):
                self._asked = time.monotonic()
            case MessageEnd(message=AssistantMessage()) if self._asked is not None:
                self._waited += time.monotonic() - self._asked
                self._asked = None
            case AgentEnd():
                self._end = event
            case _:
                pass

    def result(self, *, problem: str = "", exit_code: int | None = None) -> PromptResult:
        """The result, after the run. ``problem`` is why there was no run; ``exit_code`` replaces the one that the run gives."""
        from newel.terminal.run_result import ABORTED, FAILED, PromptResult, denied_calls, shortfall

        self._unsubscribe()
        reason: EndReason = "error" if problem and exit_code is None else "aborted"
        end = self._end or AgentEnd(reason=reason, message=problem)
        messages = self._agent.state.messages[self._first :]
        answers = [message for message in messages if isinstance(message, AssistantMessage)]
        held = self._held
        message, code, schema_error = end.message, FAILED, ""
        if end.reason == "done":
            schema_error = held.problem if held else ""
            message = schema_error or shortfall(messages)
            code = FAILED if message else 0
        elif end.reason == "aborted":
            code = ABORTED
        last = next((answer for answer in reversed(answers) if answer.content), None)
        return PromptResult(
            text=last.text if last else "",
            reason=end.reason,
            exit_code=code if exit_code is None else exit_code,
            message=message,
            turns=len(answers),
            duration=round((time.monotonic() - self._began) * 1000),
            model_duration=round(self._waited * 1000),
            usage=end.usage,
            cost=end.cost,
            stop_reason=last.stop_reason if last else None,
            denied=denied_calls(messages),
            models=self._models(answers),
            structured_output=held.value if held and not code else UNSET,
            schema_error=schema_error,
        )

    def _models(self, answers: Sequence[AssistantMessage]) -> dict[str, ModelUse]:
        from newel.terminal.run_result import ModelUse

        uses: dict[str, ModelUse] = {}
        model = self._agent.state.model
        for answer in answers:
            before = uses.get(answer.model, ModelUse(Usage(), None))
            use = ModelUse(before.usage + answer.usage, add_costs(before.cost, answer.cost))
            if answer.model == model.id:
                use = msgspec.structs.replace(use, window=self._agent.window(), max_output=model.max_output)
            uses[answer.model] = use
        return uses
