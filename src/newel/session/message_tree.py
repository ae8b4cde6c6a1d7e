"""The messages of a session as a tree with one active branch."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    Wire,
    interrupted_result,
    open_calls,
)

ROOT = -1


class TreeEntry(Wire, frozen=True):
    """A message and its parent; ``parent_id`` is None at the start of a conversation."""

    message: AppMessage
    parent_id: str | None
    active: bool


class MessageTree:
    """Messages in order of time, each with its parent."""

    def __init__(self) -> None:
        self._messages: list[AppMessage] = []
        self._parents: list[int] = []
        self._places: dict[str, int] = {}
        self._leaf = ROOT
        self._active: list[AppMessage] | None = []
        self._waiting: list[ToolCall] | None = []
        """What ``open_calls`` returns, None if it is unknown. Each message of a file that is read asks for it."""

    def __len__(self) -> int:
        return len(self._messages)

    def get(self, message_id: str) -> AppMessage | None:
        place = self._places.get(message_id)
        return None if place is None else self._messages[place]

    def add(self, message: AppMessage) -> None:
        """Append a message with a new id to the active branch."""
        self._parents.append(self._leaf)
        self._leaf = self._places[message.id] = len(self._messages)
        self._messages.append(message)
        if self._active is not None:
            self._active.append(message)
        if isinstance(message, AssistantMessage):
            self._waiting = message.tool_calls
        elif isinstance(message, ToolResultMessage):
            if self._waiting:
                self._waiting = [call for call in self._waiting if call.id != message.tool_call_id]
        elif isinstance(message, UserMessage):
            self._waiting = []

    def repair(self, message: AppMessage) -> list[AppMessage]:
        """The messages to add for this one if earlier ones may be lost, so that every model accepts the history: a call without
        a result gets one, and a result without a call becomes a custom message, which no model sees. Deterministic.
        """
        waiting = self._waiting if self._waiting is not None else self.open_calls()
        if isinstance(message, ToolResultMessage):
            for call in waiting:
                if call.id == message.tool_call_id:
                    return [message]
            data = {"toolName": message.tool_name, "output": message.output}
            return [CustomMessage("result_without_call", data, message.id, message.timestamp)]
        if not waiting or isinstance(message, CustomMessage):
            return [message]
        results: list[AppMessage] = []
        for place, call in enumerate(waiting):
            result_id = self.unused_id(f"{message.id}-result-{place}")
            results.append(
                msgspec.structs.replace(interrupted_result(call), id=result_id, timestamp=message.timestamp)
            )
        return [*results, message]

    def unused_id(self, message_id: str) -> str:
        """The id, or a new one derived from it if a message has it."""
        number = 2
        unused = message_id
        while unused in self._places:
            unused = f"{message_id}-{number}"
            number += 1
        return unused

    def move(self, message_id: str | None) -> None:
        """Make the next message continue this one, or start a conversation for None. Raises ``KeyError``."""
        self._leaf = ROOT if message_id is None else self._places[message_id]
        self._active = self._waiting = None

    def active(self) -> list[AppMessage]:
        """The messages of the active branch, as a new list."""
        return list(self._branch())

    def open_calls(self) -> list[ToolCall]:
        """The tool calls at the end of the active branch that have no result."""
        if self._waiting is None:
            self._waiting = open_calls(self._branch())
        return list(self._waiting)

    def branch_point(self, message_id: str) -> str:
        """The message to branch from if the user picks this one: itself, or the last result of its tool calls. Raises
        ``KeyError``.
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

    def up_to(self, message_id: str) -> list[AppMessage]:
        """The messages from the start of the conversation to this one. Raises ``KeyError``."""
        return [self._messages[place] for place in self._path(self._places[message_id])]

    def entries(self) -> Iterator[TreeEntry]:
        """All messages of all branches, in order of time."""
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
