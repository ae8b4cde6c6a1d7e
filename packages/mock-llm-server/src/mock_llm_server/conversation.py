"""A request as its sender wrote it, and the scenario step that answers it. Nothing here remembers anything:
the place in a scenario is read from the messages alone.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import field

from mock_llm_server.scenarios import Match, Scenario, Script, Step


class Part(msgspec.Struct):
    text: str | None = None
    """None for images and the like."""


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
    """What the server reads of a chat completion request; all other fields are accepted and ignored."""

    messages: list[Message]
    model: str = "mock-model"
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class Conversation(msgspec.Struct, frozen=True):
    """What scenarios are matched against."""

    user: str
    """The last user message; empty if there is none."""
    turn: int
    """The number of user messages."""
    system: str
    model: str
    tool_results: list[str]
    """The tool messages after the last user message."""


class Place(msgspec.Struct, frozen=True):
    """The step that answers a conversation. ``scenario`` is None for the default response."""

    scenario: Scenario | None
    step: Step
    index: int = 0
    """Of the step in its scenario, from 0."""
    values: dict[str, str] = field(default_factory=dict[str, str])
    """What templates may insert."""


def conversation(request: ChatRequest) -> Conversation:
    users = [i for i, message in enumerate(request.messages) if message.role == "user"]
    last = users[-1] if users else -1
    return Conversation(
        user=request.messages[last].text if users else "",
        turn=len(users),
        system="\n".join(m.text for m in request.messages if m.role in {"system", "developer"}),
        model=request.model,
        tool_results=[m.text for m in request.messages[last + 1 :] if m.role == "tool"],
    )


def find(script: Script, talk: Conversation) -> Place:
    """The step for this conversation: of the first scenario that matches, or the default response."""
    values = {"user": talk.user, "system": talk.system, "model": talk.model}
    if talk.tool_results:
        values["tool_result"] = talk.tool_results[-1]
    for scenario in script.scenarios:
        captured = _captures(scenario, talk)
        if captured is None:
            continue
        index = step_index(scenario.steps, len(talk.tool_results), loop=scenario.loop)
        if index < len(scenario.steps):
            return Place(scenario, scenario.steps[index], index, values | captured)
        break
    return Place(None, Step(response=script.default_response), values=values)


def step_index(steps: list[Step], results: int, *, loop: bool = False) -> int:
    """The step after so many tool results; the number of steps if all have been taken.

    A step that made several calls is left behind with all of their results, not with the first.
    """
    index = 0
    while results > 0 and (loop or index < len(steps)):
        response = steps[index % len(steps)].response
        results -= max(1, len(response.tool_calls) if response else 0)
        index += 1
    return index % len(steps) if loop else index


def _captures(scenario: Scenario, talk: Conversation) -> dict[str, str] | None:
    """The groups that the trigger captured; None if the scenario does not match."""
    if scenario.trigger is not None and scenario.trigger not in talk.user:
        return None
    if not _holds(scenario.match, talk):
        return None
    if scenario.trigger_regex is None:
        return {}
    match = re.search(scenario.trigger_regex, talk.user)
    if match is None:
        return None
    groups = {str(number): text or "" for number, text in enumerate(match.groups(), 1)}
    return groups | {name: text or "" for name, text in match.groupdict().items()}


def _holds(match: Match, talk: Conversation) -> bool:
    return (
        match.model in {None, talk.model}
        and (match.system is None or match.system in talk.system)
        and match.turn in {None, talk.turn}
    )


def history_problem(messages: list[Message]) -> tuple[str, str] | None:
    """What a strict endpoint refuses in a history: the field at fault and why; None if it is valid.

    Each tool call needs exactly one result, right after the message that made it.
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
