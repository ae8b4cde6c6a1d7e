"""Deltas of an assistant message as the stream events of Anthropic's API, for ``--include-partial-messages``."""

from __future__ import annotations

from newel.agent.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    TextDelta,
    ThinkingDelta,
)
from newel.agent.messages import AssistantMessage
from newel.terminal.stream_json.lines import Line, message_object, stop_reason, usage_object


class PartialMessages:
    """Follows one message at a time."""

    def __init__(self) -> None:
        self._message: AssistantMessage | None = None
        self._block: tuple[str, int] | None = None
        """The kind of the open block, and the index of its call if it is one."""
        self._index = -1

    def feed(self, event: AgentEvent) -> list[Line]:
        """The stream events that an event amounts to."""
        match event:
            case MessageStart(message=AssistantMessage() as message):
                self._message = message
                return self._begin()
            case MessageUpdate():
                return self._piece(event)
            case Retry() if self._message is not None:  # the message begins again
                return [*self._close(), *self._begin()]
            case MessageEnd(message=AssistantMessage() as message) if self._message is not None:
                self._message = None
                delta = {"stop_reason": stop_reason(message.stop_reason), "stop_sequence": None}
                return [
                    *self._close(),
                    {"type": "message_delta", "delta": delta, "usage": usage_object(message.usage)},
                    {"type": "message_stop"},
                ]
            case _:
                return []

    def _begin(self) -> list[Line]:
        self._index = -1
        assert self._message is not None  # noqa: S101 — both callers have one
        return [
            {"type": "message_start", "message": message_object(self._message, []) | {"stop_reason": None}}
        ]

    def _piece(self, event: MessageUpdate) -> list[Line]:
        piece = event.assistant_message_event
        if isinstance(piece, TextDelta):
            opened = self._open(("text", 0), {"type": "text", "text": ""})
            delta = {"type": "text_delta", "text": piece.delta}
        elif isinstance(piece, ThinkingDelta):
            opened = self._open(("thinking", 0), {"type": "thinking", "thinking": "", "signature": ""})
            delta = {"type": "thinking_delta", "thinking": piece.delta}
        else:
            block: Line = {"type": "tool_use", "id": "", "name": piece.name or "", "input": {}}
            opened = self._open(("tool_use", piece.index), block)
            delta = {"type": "input_json_delta", "partial_json": piece.delta}
        return [*opened, {"type": "content_block_delta", "index": self._index, "delta": delta}]

    def _open(self, kind: tuple[str, int], block: Line) -> list[Line]:
        if self._block == kind:
            return []
        closed = self._close()
        self._block = kind
        self._index += 1
        return [*closed, {"type": "content_block_start", "index": self._index, "content_block": block}]

    def _close(self) -> list[Line]:
        if self._block is None:
            return []
        self._block = None
        return [{"type": "content_block_stop", "index": self._index}]
