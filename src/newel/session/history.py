"""Messages of a session that are read from its file when they are asked for.

Only what follows the last compaction is sent to a model. The messages before it stay in the file, and ``Entry`` has what totals
and lists need of each. So a long history costs as little memory as a short one, whatever its script.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar, cast, overload

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage, CustomMessage, ToolResultMessage
from newel.agent.transform import COMPACTION
from newel.session.file_format import UNREADABLE, MessageLine, read_line
from newel.session.totals import NOTHING_USED, SessionTotals, add_message

M = TypeVar("M", bound=AppMessage)


class SessionFile:
    """Reads messages of a session file again. The file may be deleted or replaced meanwhile: this one stays open."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)

    def read(self, line: StoredLine, message_id: str) -> AppMessage:
        """Raises ``SessionError`` if the message is no longer there."""
        try:
            raw = os.pread(self._descriptor, line.size, line.start)
            found, _ = read_line(raw, number=0, timestamp="")
        except OSError as error:
            raise SessionError(f"The session file {self._path} cannot be read: {error.strerror}.") from error
        except UNREADABLE:
            found = None
        if not isinstance(found, MessageLine) or found.message.id != message_id:
            raise SessionError(
                f"The session file {self._path} was changed by another program while it was open: "
                f"the message {message_id!r} cannot be read from it any more. The latest messages are still in memory."
            )
        return found.message


class StoredLine(msgspec.Struct, frozen=True, gc=False):
    """The line of a file that decodes to exactly a message."""

    file: SessionFile
    start: int
    size: int


class Entry(msgspec.Struct, gc=False):
    """A message, and what is known of it without its text: ``name`` is that of a tool or of a custom message, ``details`` are the names of
    a result's details. ``parent`` is the number of the message before it, ``totals`` includes all before it.
    """

    id: str
    kind: type[AppMessage]
    name: str
    is_error: bool
    details: tuple[str, ...]
    parent: int
    totals: SessionTotals
    _source: AppMessage | StoredLine
    _line: StoredLine | None

    @property
    def message(self) -> AppMessage:
        """Raises ``SessionError`` if it has to be read, and cannot be."""
        source = self._source
        return source.file.read(source, self.id) if isinstance(source, StoredLine) else source

    def release(self) -> None:
        """Leave the message to the file, if it is there."""
        if self._line is not None:
            self._source = self._line

    @property
    def is_compaction(self) -> bool:
        return self.kind is CustomMessage and self.name == COMPACTION


def describe(
    message: AppMessage,
    *,
    parent: int = -1,
    earlier: SessionTotals = NOTHING_USED,
    line: StoredLine | None = None,
) -> Entry:
    """The entry of a message; ``earlier`` are the totals of those before it."""
    name, is_error, details = "", False, ()
    if isinstance(message, ToolResultMessage):
        name, is_error, details = message.tool_name, message.is_error, tuple(message.details)
    elif isinstance(message, CustomMessage):
        name = message.name
    return Entry(
        message.id,
        type(message),
        sys.intern(name),
        is_error,
        details,
        parent,
        add_message(earlier, message),
        message,
        line,
    )


class History(Sequence[AppMessage]):
    """Consecutive messages, each read when it is asked for."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries = entries

    @property
    def totals(self) -> SessionTotals:
        """The usage up to the last of them."""
        return self.entries[-1].totals if self.entries else NOTHING_USED

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, at: int, /) -> AppMessage: ...
    @overload
    def __getitem__(self, at: slice, /) -> History: ...
    def __getitem__(self, at: int | slice, /) -> AppMessage | History:
        return History(self.entries[at]) if isinstance(at, slice) else self.entries[at].message

    def __iter__(self) -> Iterator[AppMessage]:
        return (entry.message for entry in self.entries)

    def has(self, kind: type[AppMessage]) -> bool:
        """Whether there is a message of a kind."""
        return any(entry.kind is kind for entry in self.entries)

    def of(self, kind: type[M]) -> list[M]:
        """The messages of a kind; no others are read."""
        return [cast("M", entry.message) for entry in self.entries if entry.kind is kind]

    def results(self, tool: str) -> History:
        """The results of a tool."""
        return History(
            [entry for entry in self.entries if entry.kind is ToolResultMessage and entry.name == tool]
        )

    def outlines(self) -> list[AppMessage]:
        """The messages without the texts of results, which are most of a conversation."""
        return [
            msgspec.structs.replace(message, output="", images=[])
            if isinstance(message, ToolResultMessage)
            else message
            for message in self
        ]

    def followed_by(self, messages: Iterable[AppMessage]) -> History:
        """These, and messages that are in memory."""
        entries, earlier = list(self.entries), self.totals
        for message in messages:
            entries.append(describe(message, earlier=earlier))
            earlier = entries[-1].totals
        return History(entries)
