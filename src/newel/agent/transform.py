"""From what an application keeps to what a model sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolResultMessage,
    UserMessage,
)

M = TypeVar("M", UserMessage, CustomMessage)

COMPACTION = "compaction"
"""The custom message after which a model sees ``data["summary"]`` in place of everything before the
message with the id ``data["firstKept"]``."""


class Transformer:
    """The default rules: custom messages are left out, attachments become content blocks, responses that
    failed before their first word are skipped, and a compaction hides what it sums up.

    A message that needs no change is passed on as the same object, and a changed one is made only once:
    providers recognise by identity what they have encoded before.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[AppMessage, UserMessage]] = {}
        self._source: list[AppMessage] = []
        self._seen: list[Message] = []

    def __call__(self, messages: Sequence[AppMessage]) -> list[Message]:
        # A history grows at its end: what was seen of its beginning before is not worked out again.
        known = len(self._source)
        if list(messages[:known]) != self._source:
            known, self._source, self._seen = 0, [], []
        new = messages[known:]
        self._source += new
        compaction = _last_compaction(new)
        if compaction is None:
            self._seen += self._plain(new)
        else:
            self._seen = [self._once(compaction, _summary), *self._plain(_kept(messages, compaction))]
        return list(self._seen)

    def _plain(self, messages: Sequence[AppMessage]) -> list[Message]:
        seen: list[Message] = []
        for message in messages:
            match message:
                case ToolResultMessage():
                    seen.append(message)
                case AssistantMessage():
                    if message.content:
                        seen.append(message)
                case UserMessage():
                    seen.append(self._once(message, _with_blocks) if message.attachments else message)
                case CustomMessage():
                    pass
        return seen

    def _once(self, source: M, make: Callable[[M], UserMessage]) -> UserMessage:
        known = self._made.get(source.id)
        if known is None or known[0] is not source:
            known = self._made[source.id] = (source, make(source))
        return known[1]


def _last_compaction(messages: Sequence[AppMessage]) -> CustomMessage | None:
    for message in reversed(messages):
        if isinstance(message, CustomMessage) and message.name == COMPACTION:
            return message
    return None


def _kept(messages: Sequence[AppMessage], compaction: CustomMessage) -> Sequence[AppMessage]:
    first = compaction.data.get("firstKept")
    for index, message in enumerate(messages):
        if message.id == first:
            return messages[index:]
    return messages[list(messages).index(compaction) :]


def _summary(compaction: CustomMessage) -> UserMessage:
    return UserMessage(
        content=f"The conversation so far, summed up:\n\n{compaction.data.get('summary', '')}",
        id=compaction.id,
        timestamp=compaction.timestamp,
    )


def _with_blocks(message: UserMessage) -> UserMessage:
    blocks: list[TextContent | ImageContent] = (
        [TextContent(message.content)] if isinstance(message.content, str) else list(message.content)
    )
    for attachment in message.attachments:
        if attachment.type == "image":
            blocks.append(ImageContent(attachment.content, attachment.mime_type))
        elif attachment.extracted_text:
            blocks.append(TextContent(attachment.extracted_text))
    return msgspec.structs.replace(message, content=blocks, attachments=[])
