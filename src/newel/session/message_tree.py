"""The messages of a session as a tree with one active branch."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import msgspec

from newel.agent.messages import (
    NOTICE_IDS,
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
from newel.session.history import Entry, History, StoredLine, describe
from newel.session.totals import NOTHING_USED

ROOT = -1


class TreeEntry(msgspec.Struct, frozen=True):
    """A message and its parent; ``parent_id`` is None at the start of a conversation."""

    entry: Entry
    parent_id: str | None
    active: bool

    @property
    def id(self) -> str:
        return self.entry.id

    @property
    def message(self) -> AppMessage:
        return self.entry.message

    def said(self) -> UserMessage | AssistantMessage | None:
        """The message if it is the user's or the model's; no other is read."""
        message = self.message if self.entry.kind in {UserMessage, AssistantMessage} else None
        return message if isinstance(message, UserMessage | AssistantMessage) else None


class BranchPoint(Wire, frozen=True, kw_only=True):
    """Where a conversation branches: the ids of the user's messages that follow the message ``after``, the oldest first. ``after`` is
    empty at the start, and is never what Newel says in between: its notices, the mark of a summary.
    """

    after: str
    messages: list[str]


class MessageTree:
    """Messages in order of time, each with its parent. What a compaction has summarized is not kept in memory if it is in a file."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._places: dict[str, int] = {}
        self._leaf = ROOT
        self._branch: list[Entry] | None = []
        """The active branch, None if it is unknown."""
        self._waiting: list[ToolCall] | None = []
        """What ``open_calls`` returns, None if it is unknown. Each message of a file that is read asks for it."""
        self._released = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._places

    def get(self, message_id: str) -> AppMessage | None:
        place = self._places.get(message_id)
        return None if place is None else self._entries[place].message

    def add(self, message: AppMessage, line: StoredLine | None = None) -> None:
        """Append a message with a new id to the active branch. ``line`` is where it can be read again."""
        earlier = NOTHING_USED if self._leaf == ROOT else self._entries[self._leaf].totals
        entry = describe(message, parent=self._leaf, earlier=earlier, line=line)
        self._leaf = self._places[message.id] = len(self._entries)
        self._entries.append(entry)
        if self._branch is not None:
            self._branch.append(entry)
        if isinstance(message, AssistantMessage):
            self._waiting = message.tool_calls
        elif isinstance(message, ToolResultMessage):
            if self._waiting:
                self._waiting = [call for call in self._waiting if call.id != message.tool_call_id]
        elif isinstance(message, UserMessage):
            self._waiting = []
        elif entry.is_compaction:
            self._release(before=self._places.get(_first_kept(message), self._leaf))

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
        while unused in self:
            unused = f"{message_id}-{number}"
            number += 1
        return unused

    def move(self, message_id: str | None) -> None:
        """Make the next message continue this one, or start a conversation for None. Raises ``KeyError``."""
        self._leaf = ROOT if message_id is None else self._places[message_id]
        self._branch = self._waiting = None

    @contextmanager
    def moved(self, message_id: str | None) -> Generator[None]:
        """As ``move``, and move back if the block fails."""
        leaf = self._leaf
        self.move(message_id)
        try:
            yield
        except BaseException:
            self._leaf = leaf
            self._branch = self._waiting = None
            raise

    def active(self) -> list[AppMessage]:
        """The messages of the active branch, as a new list."""
        return list(self.history())

    def history(self) -> History:
        """The messages of the active branch, each read when it is asked for."""
        return History(tuple(self._active()))

    def parts(self) -> tuple[History, list[AppMessage]]:
        """The active branch: what its last compaction has summarized, and all that a model may see."""
        entries = self._active()
        start = self._first_seen(entries)
        return History(entries[:start]), [entry.message for entry in entries[start:]]

    def open_calls(self) -> list[ToolCall]:
        """The tool calls at the end of the active branch that have no result."""
        if self._waiting is None:
            self._waiting = open_calls(History(self._active()))
        return list(self._waiting)

    def branch_point(self, message_id: str) -> str:
        """The message to branch from if the user picks this one: itself, or the last result of its tool calls. Raises
        ``KeyError``.
        """
        place = self._places[message_id]
        waiting = {call.id for call in open_calls(History(self._path(place)))}
        for at in range(place + 1, len(self._entries)):
            entry = self._entries[at]
            if not waiting:
                break
            if entry.parent != place or entry.kind is not ToolResultMessage:
                continue
            message = entry.message
            if isinstance(message, ToolResultMessage) and message.tool_call_id in waiting:
                waiting.discard(message.tool_call_id)
                place = at
        return self._entries[place].id

    def branch_points(self) -> list[BranchPoint]:
        """Where the user has said more than one thing, or something after the end of the active branch."""
        found: dict[int, list[str]] = {}
        for entry in self._entries:
            if entry.kind is UserMessage and not entry.id.startswith(NOTICE_IDS):
                found.setdefault(self._last_said(entry.parent), []).append(entry.id)
        end = self._last_said(self._leaf)
        return [
            BranchPoint(after="" if place == ROOT else self._entries[place].id, messages=messages)
            for place, messages in found.items()
            if len(messages) > 1 or place == end
        ]

    def _last_said(self, place: int) -> int:
        """The place, or the last one before it that is not Newel's own: a notice goes before one version of a message only."""
        while place != ROOT and _is_newels(self._entries[place]):
            place = self._entries[place].parent
        return place

    def parent_of(self, message_id: str) -> str | None:
        """The message before this one, None at the start. Raises ``KeyError``."""
        place = self._entries[self._places[message_id]].parent
        return None if place == ROOT else self._entries[place].id

    def last_after(self, message_id: str) -> str:
        """The latest message of all that follow this one, on any branch; itself if it has no other. Raises ``KeyError``."""
        last = self._places[message_id]
        following = {last}
        for place in range(last + 1, len(self._entries)):
            if self._entries[place].parent in following:
                following.add(place)
                last = place
        return self._entries[last].id

    def up_to(self, message_id: str) -> list[AppMessage]:
        """The messages from the start of the conversation to this one. Raises ``KeyError``."""
        return list(History(self._path(self._places[message_id])))

    def entries(self) -> Iterator[TreeEntry]:
        """All messages of all branches, in order of time."""
        active = {entry.id for entry in self._active()}
        for entry in self._entries:
            parent_id = None if entry.parent == ROOT else self._entries[entry.parent].id
            yield TreeEntry(entry, parent_id, entry.id in active)

    def _active(self) -> list[Entry]:
        if self._branch is None:
            self._branch = self._path(self._leaf)
        return self._branch

    def _path(self, place: int) -> list[Entry]:
        path: list[Entry] = []
        while place != ROOT:
            entry = self._entries[place]
            path.append(entry)
            place = entry.parent
        path.reverse()
        return path

    def _first_seen(self, branch: list[Entry]) -> int:
        """The index of the first message that the last compaction of a branch keeps; without one, the start."""
        at = next((at for at in range(len(branch) - 1, -1, -1) if branch[at].is_compaction), None)
        if at is None:
            return 0
        first = _first_kept(branch[at].message)
        return next((index for index in range(at - 1, -1, -1) if branch[index].id == first), at)

    def _release(self, *, before: int) -> None:
        """Leave earlier messages to the file."""
        for entry in self._entries[self._released : before]:
            entry.release()
        self._released = max(self._released, before)


def _is_newels(entry: Entry) -> bool:
    return entry.kind is CustomMessage or entry.id.startswith(NOTICE_IDS)


def _first_kept(compaction: AppMessage) -> str:
    """The id of the first message that a model still sees, as the transformer knows it; empty in a damaged compaction."""
    first = compaction.data.get("firstKept") if isinstance(compaction, CustomMessage) else None
    return first if isinstance(first, str) else ""
