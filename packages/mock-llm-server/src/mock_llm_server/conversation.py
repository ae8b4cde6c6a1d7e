"""The request, and the scenario step that answers it. The messages alone decide: no state is kept between requests."""

from __future__ import annotations

import re

import msgspec
from msgspec import field

from mock_llm_server.scenarios import Match, Scenario, Script, Step


class Part(msgspec.Struct):
    text: str | None = None
    """None if the part is not text, such as an image."""


class Message(msgspec.Struct):
    role: str
    content: str | list[Part] | None = None
    tool_calls: list[ToolCallRef] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class ToolCallRef(msgspec.Struct):
    id: str = ""


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """The fields of a chat completion request that the server uses; it ignores all others."""

    messages: list[Message]
    model: str = "mock-model"
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class Conversation(msgspec.Struct, frozen=True):
    """The input of scenario matching."""

    user: str
    """The last user message; empty if there is none."""
    turn: int
    """The number of user messages."""
    system: str
    model: str
    tool_results: list[str]
    """The tool messages after the last user message."""


class StepMatch(msgspec.Struct, frozen=True):
    """The step that answers a conversation. ``scenario`` is None for the default response, ``index`` counts its steps from 0,
    ``values`` are those that templates can insert.
    """

    scenario: Scenario | None
    step: Step
    index: int = 0
    values: dict[str, str] = field(default_factory=dict[str, str])


def read_conversation(request: ChatRequest) -> Conversation:
    users = [i for i, message in enumerate(request.messages) if message.role == "user"]
    last = users[-1] if users else -1
    return Conversation(
        user=request.messages[last].text if users else "",
        turn=len(users),
        system="\n".join(m.text for m in request.messages if m.role in {"system", "developer"}),
        model=request.model,
        tool_results=[m.text for m in request.messages[last + 1 :] if m.role == "tool"],
    )


def find_step(script: Script, conversation: Conversation) -> StepMatch:
    """Find the step of the first scenario that matches; without one, the default response."""
    values = {"user": conversation.user, "system": conversation.system, "model": conversation.model}
    if conversation.tool_results:
        values["tool_result"] = conversation.tool_results[-1]
    for scenario in script.scenarios:
        captured = _captures(scenario, conversation)
        if captured is None:
            continue
        index = step_index(scenario.steps, len(conversation.tool_results), loop=scenario.loop)
        if index < len(scenario.steps):
            return StepMatch(scenario, scenario.steps[index], index, values | captured)
        break
    return StepMatch(None, Step(response=script.default_response), values=values)


def step_index(steps: list[Step], results: int, *, loop: bool = False) -> int:
    """The index of the step that follows ``results`` tool results; the number of steps if none is left.

    A step with several calls ends with the last of their results.
    """
    index = 0
    while results > 0 and (loop or index < len(steps)):
        response = steps[index % len(steps)].response
        results -= max(1, len(response.tool_calls) if response else 0)
        index += 1
    return index % len(steps) if loop else index


def _captures(scenario: Scenario, conversation: Conversation) -> dict[str, str] | None:
    """The captured groups of the trigger; None if the scenario does not match."""
    if scenario.trigger is not None and scenario.trigger not in conversation.user:
        return None
    if not _matches(scenario.match, conversation):
        return None
    if scenario.trigger_regex is None:
        return {}
    match = re.search(scenario.trigger_regex, conversation.user)
    if match is None:
        return None
    groups = {str(number): text or "" for number, text in enumerate(match.groups(), 1)}
    return groups | {name: text or "" for name, text in match.groupdict().items()}


def _matches(match: Match, conversation: Conversation) -> bool:
    return (
        match.model in {None, conversation.model}
        and (match.system is None or match.system in conversation.system)
        and match.turn in {None, conversation.turn}
    )


Problem = tuple[str, str]
"""The invalid field of a request, and the reason."""


def history_problem(messages: list[Message]) -> Problem | None:
    """Why a strict endpoint would refuse a history; None if it is valid.

    Each tool call needs exactly one result, directly after its message.
    """
    open_calls: dict[str, None] = {}
    for i, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                return (
                    f"messages.[{i}].role",
                    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                )
            del open_calls[message.tool_call_id]
            continue
        if open_calls:
            break
        open_calls = {call.id: None for call in message.tool_calls or []}
    if open_calls:
        missing = ", ".join(open_calls)
        return (
            "messages",
            f"Each call of 'tool_calls' must be followed by a tool message. Missing: {missing}.",
        )
    return None
