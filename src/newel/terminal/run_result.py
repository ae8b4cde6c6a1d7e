"""The first and the last word about a run for programs: the session it belongs to, and the result of each prompt.

JSON mode writes both as they are; ``newel.terminal.stream_json`` converts them to the lines of other agents' scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from newel.agent.events import EndReason, Event
from newel.agent.formatting import pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    StopReason,
    ToolCall,
    ToolResultMessage,
    Usage,
    Wire,
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
NOTHING = "The model returned an empty answer. Try again, or choose another with {how}."
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


def denied_calls(messages: Sequence[AppMessage]) -> list[ToolCall]:
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


def shortfall(messages: Sequence[AppMessage], *, other_model: str = "--model") -> str:
    """Why a run that ended well is incomplete; empty if it is complete. ``messages`` are those of the run, ``other_model`` is what chooses
    another one.
    """
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
        return NOTHING.format(how=other_model)
    for text, by_rule in ((UNASKED, False), (UNASKED_BY_RULE, True)):
        if unasked := sum(is_unasked(result, by_rule=by_rule) for result in results):
            return text.format(calls=pluralize(unasked, "tool call"), them="it" if unasked == 1 else "them")
    return ""
