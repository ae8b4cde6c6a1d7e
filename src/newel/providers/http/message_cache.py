"""The JSON of a growing conversation, in which each message is encoded once, and that of the tools.

A conversation grows at its end, so the bytes of all but its newest messages are those of the previous request: the encoding
is kept, and servers find the same prefix in their caches. After any other change of the history everything is encoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from newel.agent.messages import Message, ToolResultMessage
from newel.agent.ports import ToolSpec
from newel.text.json import to_json

EncodeMessages = Callable[[Sequence[Message]], list[dict[str, Any]]]
"""Converts messages to an API's format. The results of one message's calls always arrive together."""


class MessageCache:
    """Keeps the encoded messages of one conversation at a time."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._encoded = bytearray()
        self._key: Hashable = None

    def encode(self, messages: list[Message], encode: EncodeMessages, key: Hashable = None) -> bytes:
        """Return the encoded messages, joined by commas. ``key`` is what the encoding depends on besides the messages."""
        count = len(self._messages)
        if (
            key != self._key
            or self._messages != messages[:count]
            or (count < len(messages) and _splits_results(self._messages, messages[count]))
        ):
            self._messages, self._encoded, count = [], bytearray(), 0
            self._key = key
        new = messages[count:]
        for message in encode(new):
            if self._encoded:
                self._encoded += b","
            self._encoded += to_json(message)
        self._messages += new
        return bytes(self._encoded)


def _splits_results(encoded: Sequence[Message], following: Message) -> bool:
    """Whether the encoded messages end between results of one message, which some APIs want together."""
    return (
        bool(encoded)
        and isinstance(encoded[-1], ToolResultMessage)
        and isinstance(following, ToolResultMessage)
    )


class ToolsCache:
    """Keeps the encoded tools of the last request: the next one usually has the same."""

    def __init__(self) -> None:
        self._tools: list[ToolSpec] = []
        self._encoded = b"[]"
        self._key: Hashable = None

    def encode(
        self, tools: list[ToolSpec], encode: Callable[[ToolSpec], dict[str, Any]], key: Hashable = None
    ) -> bytes:
        """Return the JSON array of the tools. ``key`` is what the encoding depends on besides them."""
        if (tools, key) != (self._tools, self._key):
            self._tools, self._key = list(tools), key
            self._encoded = to_json([encode(tool) for tool in tools])
        return self._encoded
