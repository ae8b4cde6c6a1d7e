"""Fixtures: lists of events, like those of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from newel.agent.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

BEGAN, ENDED = "2026-01-31T09:30:00.000Z", "2026-01-31T09:30:06.200Z"


class Scene:
    """Builds the events of one prompt, step by step."""

    def __init__(self, prompt: str = "do it") -> None:
        user = UserMessage(content=prompt)
        self.events: list[AgentEvent] = [
            AgentStart(timestamp=BEGAN),
            MessageStart(message=user),
            MessageEnd(message=user),
        ]

    def say(self, text: str, *calls: ToolCall, thinking: str = "", pieces: int = 7) -> Scene:
        """A response: its text in deltas of ``pieces`` characters, then its calls."""
        start = AssistantMessage(content=[], model="m")
        self.events += [TurnStart(), MessageStart(message=start)]
        for delta in [thinking[at : at + pieces] for at in range(0, len(thinking), pieces)]:
            self.add(MessageUpdate(message_id=start.id, assistant_message_event=ThinkingDelta(delta)))
        for delta in [text[at : at + pieces] for at in range(0, len(text), pieces)]:
            self.add(MessageUpdate(message_id=start.id, assistant_message_event=TextDelta(delta)))
        content: list[TextContent | ThinkingContent | ToolCall] = [TextContent(text)] if text else []
        content += calls
        return self.add(
            MessageEnd(
                message=AssistantMessage(content=content, id=start.id, usage=Usage(input=3100, output=420))
            )
        )

    def start(self, call: ToolCall, *output: str) -> Scene:
        self.add(ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args=call.arguments))
        for piece in output:
            self.add(ToolExecutionUpdate(tool_call_id=call.id, delta=piece))
        return self

    def finish(
        self, call: ToolCall, result: str, *, is_error: bool = False, took: int = 4, **details: Any
    ) -> Scene:
        self.add(
            ToolExecutionEnd(
                tool_call_id=call.id,
                tool_name=call.name,
                result=result,
                is_error=is_error,
                duration=took,
                details=details,
            )
        )
        return self.result(call, result, is_error=is_error)

    def result(self, call: ToolCall, result: str, *, is_error: bool = False) -> Scene:
        message = ToolResultMessage(
            tool_call_id=call.id, tool_name=call.name, output=result, is_error=is_error
        )
        return self.add(MessageStart(message=message), MessageEnd(message=message))

    def run(self, call: ToolCall, result: str, **details: Any) -> Scene:
        return self.start(call).finish(call, result, **details)

    def end(self, reason: Any = "done", message: str = "") -> list[AgentEvent]:
        self.add(
            TurnEnd(message_id="x"),
            AgentEnd(
                timestamp=ENDED,
                reason=reason,
                message=message,
                usage=Usage(input=3100, output=420),
                cost=0.004,
            ),
        )
        return self.events

    def add(self, *events: AgentEvent) -> Scene:
        self.events += events
        return self


@pytest.fixture
def scene() -> Callable[..., Scene]:
    return Scene
