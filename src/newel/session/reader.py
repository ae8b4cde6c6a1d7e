"""Fault-tolerant reader of session files."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage
from newel.session.file_format import (
    BLOCK,
    MAX_LINE,
    UNREADABLE,
    BranchLine,
    Line,
    MessageLine,
    NameLine,
    NotStartedLine,
    QueuedLine,
    SessionMetadata,
    UnqueuedLine,
    is_foreign,
    read_line,
)
from newel.session.history import SessionFile, StoredLine
from newel.session.message_tree import MessageTree
from newel.session.paths import metadata_from_name, not_a_session
from newel.storage.loading import no_collection
from newel.text.sanitize import plain_line


class SessionData(msgspec.Struct, frozen=True):
    """A session's metadata and name, and the messages of its active branch."""

    metadata: SessionMetadata
    messages: list[AppMessage]
    name: str | None = None


_MAX_FINDINGS = 100


class Damage:
    """Findings about a damaged file: the first hundred, and the number of all others."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, finding: str) -> None:
        if len(self._found) < _MAX_FINDINGS:
            self._found.append(finding)
        else:
            self._more += 1

    def report(self) -> list[str]:
        return [*self._found, f"{self._more:,} more"] if self._more else list(self._found)


class StoredSession:
    """The content of a session file.

    ``damage`` describes the broken lines, ``queued`` is what was not sent, by its id, ``typed`` how messages were typed, by theirs, where
    that is not their text, ``not_started`` the tool calls that are known not to have started. ``whole`` is the number of bytes of whole
    lines; ``unended`` is true if the last of them lacks only its line end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.metadata = metadata_from_name(path)
        self.history = MessageTree()
        self.name: str | None = None
        self.queued: dict[str, QueuedLine] = {}
        self.typed: dict[str, str] = {}
        self.not_started: list[str] = []
        self.whole = 0
        self.unended = False
        self._damage = Damage()
        self._has_metadata = False
        self._is_foreign = False

    @property
    def is_session(self) -> bool:
        """False for an empty file and another program's. A session without a header has messages."""
        return not self._is_foreign and (self._has_metadata or len(self.history) > 0)

    @property
    def damage(self) -> list[str]:
        return self._damage.report()

    def data(self) -> SessionData:
        return SessionData(self.metadata, self.history.active(), self.name)

    def read(self, stream: BinaryIO) -> None:
        """Read all lines that are intact, and report the others."""
        with no_collection():
            self._read(stream)

    def _read(self, stream: BinaryIO) -> None:
        file = SessionFile(self._path, stream.fileno())
        number = 0
        while raw := stream.readline(MAX_LINE):
            number += 1
            if number == 1 and is_foreign(raw):
                self._is_foreign = True
                return
            size = len(raw)
            end = raw[-1:]
            while end != b"\n" and (more := stream.readline(BLOCK)):
                size += len(more)
                end = more[-1:]
            try:
                if size > len(raw):
                    raise ValueError(f"longer than {MAX_LINE:,} bytes")
                line, condition = read_line(raw, number=number, timestamp=self.metadata.timestamp)
                if condition == "broken":
                    self._report(number, "invalid characters were replaced")
                stored = StoredLine(file, self.whole, size) if condition == "exact" else None
                self._apply(number, line, stored)
            except UNREADABLE as error:
                if end != b"\n":
                    self._report(number, f"cut off after {size:,} bytes")
                    break
                self._report(number, f"cannot be read ({plain_line(str(error))})")
            self.whole += size
            self.unended = end != b"\n"
        if number and not self._has_metadata:
            self._report(1, "metadata is missing; id and time are taken from the file's name")

    def _apply(self, number: int, line: Line | None, stored: StoredLine | None) -> None:
        match line:
            case MessageLine():
                self.queued.pop(line.message.id, None)
                if line.typed:
                    self.typed[line.message.id] = line.typed
                self._add(number, line.message, stored)
            case SessionMetadata():
                if not self._has_metadata:
                    self.metadata, self._has_metadata = line, True
            case BranchLine():
                try:
                    self.history.move(line.from_id)
                except KeyError:
                    self._report(number, "ignored: it branches from a message that does not exist")
            case NameLine():
                self.name = plain_line(line.name) or None
            case QueuedLine():
                if line.id not in self.history:
                    self.queued[line.id] = line
            case NotStartedLine():
                self.not_started = line.calls
            case UnqueuedLine():
                for queued_id in line.ids:
                    self.queued.pop(queued_id, None)
            case None:
                pass

    def _add(self, number: int, message: AppMessage, stored: StoredLine | None) -> None:
        read = message
        existing = self.history.get(message.id)
        if existing is not None:
            if existing == message:
                self._report(number, "skipped: it repeats an earlier message")
                return
            self._report(number, "another message has its id; it gets a new one")
            message = msgspec.structs.replace(message, id=self.history.unused_id(message.id))
        pieces = self.history.repair(message)
        if pieces[0] is not message:
            self._report(number, "the tool call or result before it is missing")
        for piece in pieces:
            self.history.add(piece, stored if piece is read else None)

    def _report(self, number: int, what: str) -> None:
        self._damage.add(f"line {number:,}: {what}")


def read_session(path: Path) -> StoredSession:
    """Read a session file without a lock and without changing it. Raises ``SessionError``."""
    stored = StoredSession(path)
    try:
        with path.open("rb", buffering=BLOCK) as stream:
            stored.read(stream)
    except OSError as error:
        raise SessionError(f"The session file {path} cannot be read: {error.strerror}.") from error
    if not stored.is_session:
        raise not_a_session(path)
    return stored
