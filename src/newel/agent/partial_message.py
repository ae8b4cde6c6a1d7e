"""The assistant message that is being written, accumulated from events."""

from __future__ import annotations

import msgspec

from newel.agent.events import MessageEnd, MessageStart, MessageUpdate, Retry, TextDelta, ThinkingDelta
from newel.agent.messages import AssistantMessage, TextContent, ThinkingContent


class MessageAccumulator:
    """Follows one stream of events: the loop's own, an agent's, or one that is published.

    Tool calls are left out: an incomplete one must never look as if it could run.
    """

    def __init__(self) -> None:
        self._start: AssistantMessage | None = None
        self._parts: list[tuple[type[TextContent | ThinkingContent], list[str]]] = []

    def fold(self, event: object) -> None:
        start = self._start
        match event:
            case MessageStart(message=AssistantMessage() as message):
                self._start, self._parts = message, []
            case MessageUpdate(assistant_message_event=TextDelta(delta)) if start:
                self._add(TextContent, delta)
            case MessageUpdate(assistant_message_event=ThinkingDelta(delta)) if start:
                self._add(ThinkingContent, delta)
            case Retry():
                self._parts = []  # the request is repeated from its beginning
            case MessageEnd() if start and event.message.id == start.id:
                self._start = None
            case _:
                pass

    def _add(self, kind: type[TextContent | ThinkingContent], text: str) -> None:
        if not self._parts or self._parts[-1][0] is not kind:
            self._parts.append((kind, []))
        self._parts[-1][1].append(text)

    def content(self) -> list[TextContent | ThinkingContent]:
        return [kind("".join(pieces)) for kind, pieces in self._parts]

    def message(self) -> AssistantMessage | None:
        """The message so far; None if none is being written."""
        return self._start and msgspec.structs.replace(self._start, content=self.content())
