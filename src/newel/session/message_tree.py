"""The messages of a session as a tree, in memory: one branch is active, the others are kept."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from newel.agent.messages import (
    AppMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    Wire,
    interrupted_result,
    open_calls,
)

ROOT = -1


class TreeEntry(Wire, frozen=True):
    """A message and the one that it continues; ``parent_id`` is None where a conversation begins."""

    message: AppMessage
    parent_id: str | None
    active: bool


class MessageTree:
    """Messages in the order they were written, each with the message that it continues."""

    def __init__(self) -> None:
        self._messages: list[AppMessage] = []
        self._parents: list[int] = []
        self._places: dict[str, int] = {}
        self._leaf = ROOT
        self._active: list[AppMessage] | None = []

    def __len__(self) -> int:
        return len(self._messages)

    def get(self, message_id: str) -> AppMessage | None:
        place = self._places.get(message_id)
        return None if place is None else self._messages[place]

    def add(self, message: AppMessage) -> None:
        """Continue the active branch. The message's id must be new."""
        self._parents.append(self._leaf)
        self._leaf = self._places[message.id] = len(self._messages)
        self._messages.append(message)
        if self._active is not None:
            self._active.append(message)

    def fitting(self, message: AppMessage) -> list[AppMessage]:
        """What to add for this message where others may have been lost, so that the history is valid for
        every model: a call without a result gets one before the conversation goes on, and a result without
        a call becomes a custom message, which no model sees. The same at each reading.
        """
        waiting = self.open_calls()
        if isinstance(message, ToolResultMessage):
            if any(call.id == message.tool_call_id for call in waiting):
                return [message]
            data = {"toolName": message.tool_name, "output": message.output}
            return [CustomMessage("result_without_call", data, message.id, message.timestamp)]
        if isinstance(message, CustomMessage):
            return [message]
        results: list[AppMessage] = []
        for place, call in enumerate(waiting):
            own = self.unused_id(f"{message.id}-result-{place}")
            results.append(
                msgspec.structs.replace(interrupted_result(call), id=own, timestamp=message.timestamp)
            )
        return [*results, message]

    def unused_id(self, message_id: str) -> str:
        """The id, or if a message has it already, one made from it that none has."""
        number = 2
        unused = message_id
        while unused in self._places:
            unused = f"{message_id}-{number}"
            number += 1
        return unused

    def move(self, message_id: str | None) -> None:
        """What is added next continues this message; None: begins anew. Raises ``KeyError``."""
        self._leaf = ROOT if message_id is None else self._places[message_id]
        self._active = None

    def active(self) -> list[AppMessage]:
        """The messages from the beginning to the one that would be continued. The caller's own list."""
        return list(self._branch())

    def open_calls(self) -> list[ToolCall]:
        """The tool calls at the end of the active branch that have no result."""
        return open_calls(self._branch())

    def settled(self, message_id: str) -> str:
        """The message to branch from if a person picked this one: itself, or the last of the results that
        its tool calls got, because a call without its result is half a sentence. Raises ``KeyError``.
        """
        place = self._places[message_id]
        waiting = {call.id for call in open_calls([self._messages[at] for at in self._path(place)])}
        for at in range(place + 1, len(self._messages)):
            message = self._messages[at]
            if not waiting:
                break
            if (
                self._parents[at] == place
                and isinstance(message, ToolResultMessage)
                and message.tool_call_id in waiting
            ):
                waiting.discard(message.tool_call_id)
                place = at
        return self._messages[place].id

    def entries(self) -> Iterator[TreeEntry]:
        """All messages of all branches, in the order they were written."""
        active = set(self._path())
        for place, (message, parent) in enumerate(zip(self._messages, self._parents, strict=True)):
            parent_id = None if parent == ROOT else self._messages[parent].id
            yield TreeEntry(message, parent_id, place in active)

    def _branch(self) -> list[AppMessage]:
        if self._active is None:
            self._active = [self._messages[place] for place in self._path()]
        return self._active

    def _path(self, leaf: int | None = None) -> list[int]:
        place = self._leaf if leaf is None else leaf
        path: list[int] = []
        while place != ROOT:
            path.append(place)
            place = self._parents[place]
        path.reverse()
        return path
