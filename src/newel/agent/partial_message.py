"""A message that is still being written, folded from its deltas."""

from __future__ import annotations

from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, StopReason, TextContent, ThinkingContent, ToolCall


class MessageAccumulator:
    """Collects deltas; ``message`` makes the assistant message so far.

    Tool calls are left out: one that is not whole must never look as if it could run.
    """

    def __init__(self, start: AssistantMessage) -> None:
        self.start = start
        self._parts: list[tuple[type[TextContent | ThinkingContent], list[str]]] = []

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                kind: type[TextContent | ThinkingContent] = TextContent
            case ThinkingDelta():
                kind = ThinkingContent
            case ToolCallDelta():
                return
        if not self._parts or self._parts[-1][0] is not kind:
            self._parts.append((kind, []))
        self._parts[-1][1].append(delta.delta)

    def clear(self) -> None:
        """Forget what came: the request is being made again."""
        self._parts.clear()

    def message(self, stop_reason: StopReason = "stop", error: str | None = None) -> AssistantMessage:
        content: list[TextContent | ThinkingContent | ToolCall] = [
            kind("".join(pieces)) for kind, pieces in self._parts
        ]
        start = self.start
        return AssistantMessage(
            content=content,
            model=start.model,
            provider=start.provider,
            stop_reason=stop_reason,
            error_message=error,
            id=start.id,
            timestamp=start.timestamp,
        )
