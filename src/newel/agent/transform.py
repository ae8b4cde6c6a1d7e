"""Transforms the messages of an application into those that a model sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


Describe = Callable[[CustomMessage], str]
"""Writes a custom message for the model; an empty text leaves it out. Pure; must not raise."""


class Transformer:
    """The default rules: custom messages and empty responses are left out, attachments become content blocks, and a compaction
    replaces the messages that it summarizes. ``kinds`` are custom messages, by their names, that the model sees as messages of
    the user.

    A message that needs no change is passed on as the same object, and a changed one is made only once: providers recognize
    by identity what they have encoded before.
    """

    def __init__(self, kinds: Mapping[str, Describe] | None = None) -> None:
        self._kinds = dict(kinds or {})
        self._converted: dict[str, tuple[AppMessage, UserMessage]] = {}
        self._source: list[AppMessage] = []
        self._result: list[Message] = []

    def __call__(self, messages: Sequence[AppMessage]) -> list[Message]:
        # A history grows at its end, so only new messages are transformed.
        done = len(self._source)
        if list(messages[:done]) != self._source:
            done, self._source, self._result = 0, [], []
        new = messages[done:]
        self._source += new
        compaction = _last_compaction(new)
        if compaction is None:
            self._result += self._visible(new)
        else:
            summary = self._convert(compaction, _summary)
            self._result = [summary, *self._visible(_since_compaction(messages, compaction))]
        return list(self._result)

    def _visible(self, messages: Sequence[AppMessage]) -> list[Message]:
        visible: list[Message] = []
        for message in messages:
            match message:
                case UserMessage() if message.attachments:
                    visible.append(self._convert(message, _with_blocks))
                case UserMessage() | ToolResultMessage():
                    visible.append(message)
                case AssistantMessage() if message.content:
                    visible.append(message)
                case CustomMessage() if describe := self._kinds.get(message.name):
                    shown = self._convert(
                        message, lambda custom, describe=describe: _described(custom, describe)
                    )
                    visible += [shown] if shown.content else []
                case AssistantMessage() | CustomMessage():
                    pass
        return visible

    def _convert(self, source: M, convert: Callable[[M], UserMessage]) -> UserMessage:
        cached = self._converted.get(source.id)
        if cached is None or cached[0] is not source:
            cached = self._converted[source.id] = (source, convert(source))
        return cached[1]


def _last_compaction(messages: Sequence[AppMessage]) -> CustomMessage | None:
    for message in reversed(messages):
        if isinstance(message, CustomMessage) and message.name == COMPACTION:
            return message
    return None


def _since_compaction(messages: Sequence[AppMessage], compaction: CustomMessage) -> Sequence[AppMessage]:
    first = compaction.data.get("firstKept")
    for index, message in enumerate(messages):
        if message.id == first:
            return messages[index:]
    return messages[list(messages).index(compaction) :]


def _summary(compaction: CustomMessage) -> UserMessage:
    return UserMessage(
        content=f"Summary of the conversation so far:\n\n{compaction.data.get('summary', '')}",
        id=compaction.id,
        timestamp=compaction.timestamp,
    )


def _described(message: CustomMessage, describe: Describe) -> UserMessage:
    return UserMessage(content=describe(message), id=message.id, timestamp=message.timestamp)


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
