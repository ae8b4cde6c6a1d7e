"""The first and the last word about a run for programs: the session it belongs to, and the result of each prompt.

JSON mode writes both as they are; ``newel.terminal.stream_json`` converts them to the lines of other agents' scripts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from newel.agent.events import AgentEnd, AgentEvent, EndReason, Event, MessageEnd, MessageStart
from newel.agent.formatting import pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    StopReason,
    ToolCall,
    ToolResultMessage,
    Usage,
    Wire,
    add_costs,
)
from newel.permissions.approval import is_denial, is_unasked
from newel.session.coding_agent import CodingAgent
from newel.version import VERSION

ABORTED, FAILED = 130, 1

CUT_OFF = (
    "The answer was cut off at the longest output that the model may write. "
    'Ask for less, or set [models."{model}"] max_output in config.toml.'
)
WITHHELD = "The answer was withheld: {why}"
NOTHING = "The model returned an empty answer. Try again, or choose another with --model."
UNASKED = "{calls} did not run: this run cannot ask you to approve {them}. --approve auto runs such calls without asking."
UNASKED_BY_RULE = "{calls} did not run: your rules ask about {them}, and this run cannot ask you. Run newel in a terminal to answer."


class ServerSummary(Wire, frozen=True):
    """An MCP server; ``state`` is ``starting``, ``active``, ``broken``, ``untrusted`` or ``disabled``."""

    name: str
    state: str


class SessionStarted(Event, frozen=True, kw_only=True, tag="session"):
    """The conversation that the next lines belong to. ``file`` is where it is saved, None if it is not; ``approve`` the approval mode of
    approval, ``commands`` the prompt templates.
    """

    session_id: str
    file: str | None
    cwd: str
    model: str
    provider: str
    approve: str
    version: str
    tools: list[str]
    commands: list[str]
    mcp_servers: list[ServerSummary]


class ModelUse(Wire, frozen=True):
    """What a prompt used of one model. ``window`` and ``max_output`` are its sizes in tokens, None if unknown."""

    usage: Usage
    cost: float | None
    window: int | None = None
    max_output: int | None = None


class PromptResult(Event, frozen=True, kw_only=True, tag="result"):
    """How one prompt ended. ``text`` is the last answer, ``exit_code`` what ``newel PROMPT`` would end with, ``message`` why that is not
    0. ``turns`` counts requests to the model; ``duration`` is in milliseconds, and ``model_duration`` is the part in which the model was
    asked. ``denied`` are the calls that were not approved.

    With a schema, ``structured_output`` is the answer that fits it; if none did, ``schema_error`` says why.
    """

    text: str
    reason: EndReason
    exit_code: int
    message: str
    turns: int
    duration: int
    model_duration: int
    usage: Usage
    cost: float | None
    stop_reason: StopReason | None
    denied: list[ToolCall]
    models: dict[str, ModelUse]
    structured_output: Any = UNSET
    schema_error: str = ""


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


def describe_session(agent: CodingAgent) -> SessionStarted:
    """The agent's session and what it works with."""
    state, path = agent.state, agent.session.get_file_path()
    return SessionStarted(
        session_id=agent.session.get_id(),
        file=str(path) if path else None,
        cwd=agent.workspace.name,
        model=state.model.id,
        provider=state.model.provider,
        approve=agent.approve,
        version=VERSION,
        tools=[tool.spec.name for tool in state.tools],
        commands=sorted(agent.templates),
        mcp_servers=[ServerSummary(name, state) for name, state in agent.tool_servers()],
    )


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
            denied=_denied(messages),
            models=self._models(answers),
            structured_output=held.value if held and not code else UNSET,
            schema_error=schema_error,
        )

    def _models(self, answers: Sequence[AssistantMessage]) -> dict[str, ModelUse]:
        uses: dict[str, ModelUse] = {}
        model = self._agent.state.model
        for answer in answers:
            before = uses.get(answer.model, ModelUse(Usage(), None))
            use = ModelUse(before.usage + answer.usage, add_costs(before.cost, answer.cost))
            if answer.model == model.id:
                use = msgspec.structs.replace(use, window=self._agent.window(), max_output=model.max_output)
            uses[answer.model] = use
        return uses


def _denied(messages: Sequence[AppMessage]) -> list[ToolCall]:
    denied = {
        message.tool_call_id
        for message in messages
        if isinstance(message, ToolResultMessage) and is_denial(message)
    }
    return [
        call
        for message in messages
        if denied and isinstance(message, AssistantMessage)
        for call in message.tool_calls
        if call.id in denied
    ]


def shortfall(messages: Sequence[AppMessage]) -> str:
    """Why a run that ended well is incomplete; empty if it is complete. ``messages`` are those of the run."""
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    if not answers:
        return ""
    last = answers[-1]
    if last.stop_reason == "length":
        return CUT_OFF.format(model=last.model)
    if last.stop_reason == "error":
        return WITHHELD.format(why=last.error_message or "the server gave no reason.")
    results = [message for message in messages if isinstance(message, ToolResultMessage)]
    if not results and not last.text.strip():
        return NOTHING
    for text, by_rule in ((UNASKED, False), (UNASKED_BY_RULE, True)):
        if unasked := sum(is_unasked(result, by_rule=by_rule) for result in results):
            return text.format(calls=pluralize(unasked, "tool call"), them="it" if unasked == 1 else "them")
    return ""
