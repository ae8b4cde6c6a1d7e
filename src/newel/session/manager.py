"""The session of an agent: saves each message, and loads saved sessions.

    with SessionManager(directory=home / "sessions", cwd="/src/shop", continue_=True) as session:
        if not session.is_started():
            session.start_session({"model": "qwen2.5-coder"})
        session.append_message(message)

``file_format`` defines the lines of a file, ``reader`` reads and ``appender`` writes them, ``message_tree`` holds the branches,
``history`` reads old messages again, ``paths`` finds files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage, UserMessage, interrupted_result, new_id, now
from newel.session import paths
from newel.session.appender import Appender
from newel.session.file_format import (
    BranchLine,
    Line,
    MessageLine,
    NameLine,
    NotStartedLine,
    QueuedLine,
    SessionMetadata,
    UnqueuedLine,
    encode_line,
    public_config,
)
from newel.session.history import History
from newel.session.message_tree import BranchPoint, MessageTree, TreeEntry
from newel.storage.files import make_private, project_folder
from newel.text.sanitize import plain_line

if TYPE_CHECKING:
    from newel.session.reader import SessionData

NOT_STARTED: Final = "Not run: Newel ended before this call started."


class SessionManager:
    """One session, open for writing.

    ``directory`` holds the sessions of all projects, ``cwd`` is the project's folder. By default the session is new, and its
    file appears with its first message. ``continue_`` opens the project's latest session, or else a new one; ``session`` opens
    one by its id, a prefix of its id, or its path; ``own_id`` opens the project's session with exactly that id, or else creates
    it. ``ephemeral`` keeps a new session in memory.

    Open tool calls of a loaded session get an ``interrupted_result``, or one that says that they never started; without ``settle``
    they stay open, for a run that resumes them. ``damage`` describes the broken lines of its file.

    All methods block for microseconds (for a flush to the disk with a user's message), and raise ``SessionError`` if the file
    cannot be found, read, locked or written.
    """

    def __init__(
        self,
        *,
        directory: Path,
        cwd: str,
        continue_: bool = False,
        session: str | None = None,
        own_id: str | None = None,
        ephemeral: bool = False,
        settle: bool = True,
    ) -> None:
        if ephemeral and (continue_ or session is not None):
            raise SessionError("An ephemeral session is always new; it cannot be continued from a file.")
        self._directory = directory
        self._cwd = cwd
        self._ephemeral = ephemeral
        self._settle = settle
        self._start_session(own_id)
        path = paths.find_session(directory, session) if session is not None else None
        if path is None and continue_:
            path = paths.find_latest(directory, cwd)
        if own_id is not None and not ephemeral:
            path = paths.find_exact(directory, cwd, own_id)
        if path is not None:
            self._open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """The folder of the sessions of all projects."""
        return self._directory

    # -- what there is ----------------------------------------------------------------------------

    def is_started(self) -> bool:
        """True after ``start_session``, and for a session that was loaded."""
        return self._started

    def has_data(self) -> bool:
        """Whether the session has messages."""
        return len(self._history) > 0

    def get_data(self) -> SessionData | None:
        """Metadata, name and active messages; None without messages."""
        from newel.session.reader import SessionData

        return SessionData(self._metadata, self.get_messages(), self._name) if self.has_data() else None

    def get_messages(self) -> list[AppMessage]:
        """The messages of the active branch, as a new list."""
        return self._history.active()

    def get_parts(self) -> tuple[History, list[AppMessage]]:
        """The messages of the active branch: those that its last compaction has summarized, which are read when they are asked for, and
        those that a model may see.
        """
        return self._history.parts()

    def messages_up_to(self, message_id: str, *, before: bool = False) -> list[AppMessage]:
        """The messages up to this one and the results of its tool calls, or those ``before`` it. Raises ``SessionError`` if the session
        has no such message.
        """
        try:
            if before:
                return self._history.up_to(message_id)[:-1]
            return self._history.up_to(self._history.branch_point(message_id))
        except KeyError:
            raise _no_message(message_id) from None

    def get_tree(self) -> list[TreeEntry]:
        """The messages of all branches, in order of time."""
        return list(self._history.entries())

    def get_branch_points(self) -> list[BranchPoint]:
        """Where the conversation branches, or could go on with what was said before."""
        return self._history.branch_points()

    def get_file_path(self) -> Path | None:
        """The session's file, which may not exist yet; None for an ephemeral session."""
        return None if self._ephemeral else self._path

    def get_id(self) -> str:
        """The session's id: 32 hexadecimal digits, or as an imported file has it."""
        return self._metadata.id

    def is_latest(self) -> bool:
        """Whether it is the latest session of its project, which ``continue_`` opens."""
        return paths.find_latest(self._directory, self._cwd) == self._path

    def get_name(self) -> str | None:
        """The name that the user gave it, None without one."""
        return self._name

    def typed_as(self, message: UserMessage) -> str:
        """The message as the user wrote it, with ``/template`` and ``@files``."""
        return self._typed.get(message.id, message.text)

    def queued(self) -> list[QueuedLine]:
        """What was queued and neither sent nor given up, the oldest first."""
        return list(self._queued.values())

    # -- changes ----------------------------------------------------------------------------------

    def start_session(self, config: dict[str, Any]) -> None:
        """Start a session with this configuration, without its secrets. If the current one has messages, it is closed."""
        if self.has_data():
            self.close()
            self._start_session()
        self._metadata = msgspec.structs.replace(self._metadata, config=public_config(config))
        self._started = True

    def set_project(self, cwd: str) -> None:
        """Set the project of a session that has no messages yet."""
        if not self.has_data():
            self._cwd = cwd
            self._metadata = msgspec.structs.replace(self._metadata, cwd=cwd)
            self._path = project_folder(self._directory, cwd) / self._path.name

    def append_message(self, message: AppMessage, *, typed: str = "") -> None:
        """Append a message to the active branch, unless the session has one with its id. ``typed`` is for ``typed_as``."""
        if message.id not in self._history:
            self._write(*([self._moved] if self._moved else []), MessageLine(message, typed))
            if typed:
                self._typed[message.id] = typed
            self._moved = None
            self._history.add(message)
            self._queued.pop(message.id, None)
            if isinstance(message, UserMessage) and self._appender is not None:
                self._appender.sync()  # unlike all others, the user's messages cannot be generated again

    def extend(self, messages: Sequence[AppMessage]) -> None:
        """Append copied messages in one write, flush them to the disk, and give open tool calls a result."""
        new = [message for message in messages if message.id not in self._history]
        if new:
            self._write(*([self._moved] if self._moved else []), *map(MessageLine, new))
            self._moved = None
            for message in new:
                self._history.add(message)
            if self._appender is not None:
                self._appender.sync()
        self._answer_open_calls()

    def queue(self, *lines: QueuedLine, instead_of: Collection[str] = ()) -> None:
        """Keep what is to be sent, on disk, until a message with its id is appended; in the same write, give up others. The session
        must be started.
        """
        given_up = [each for each in instead_of if each in self._queued]
        if lines or given_up:
            self._write(*lines, *([UnqueuedLine(given_up)] if given_up else []))
            for each in given_up:
                del self._queued[each]
            self._queued |= {line.id: line for line in lines}
            if lines and self._appender is not None:
                self._appender.sync()

    def keep_not_started(self, calls: Sequence[str]) -> None:
        """Note the open tool calls that have not started, while the user is asked. If the process is killed, they have not run."""
        self._write(NotStartedLine(list(calls)))
        self._not_started = list(calls)

    def keep_start(self, call: str) -> None:
        """A tool call is about to start. That is on the disk before: after a power cut it must not count as not started."""
        if call in self._not_started:
            self.keep_not_started([each for each in self._not_started if each != call])
            if self._appender is not None:
                self._appender.sync()

    def set_name(self, name: str) -> None:
        """Name the session; an empty name removes the name."""
        line = plain_line(name)
        # Without a file it is written when that is made.
        if self.has_data() or self._appender is not None:
            self._write(NameLine(line))
        self._name = line or None

    def branch(self, from_message_id: str | None) -> None:
        """Continue after an earlier message and the results of its tool calls, or from the start for None. Later messages stay in the
        tree. The branch is written with the next message, or by ``write_branch``.
        """
        try:
            start = None if from_message_id is None else self._history.branch_point(from_message_id)
        except KeyError:
            raise _no_message(from_message_id) from None
        if self.has_data():
            with self._history.moved(start):
                self._history.parts()  # they can be read
            self._moved = BranchLine(start)
            self._answer_open_calls()

    def write_branch(self) -> None:
        """Write the branch at once, so that it survives if no message follows."""
        if self._moved is not None:
            self._write(self._moved)
            self._moved = None
            if self._appender is not None:
                self._appender.sync()

    def switch_branch(self, message_id: str, *, before: bool = False) -> None:
        """Continue at the end of the branch with this message, or ``before`` it. Unlike ``branch``, it is written at once. Raises
        ``SessionError`` if the session has no such message.
        """
        try:
            find = self._history.parent_of if before else self._history.last_after
            self.branch(find(message_id))
        except KeyError:
            raise _no_message(message_id) from None
        self.write_branch()

    def close(self) -> None:
        """Flush everything to the disk and unlock the file. Nothing can be appended afterwards."""
        self._closed = True
        appender, self._appender = self._appender, None
        if appender is None:
            return
        if self._is_created and not self.has_data() and not self._queued:
            # Nothing was sent: it would be an empty conversation, which `--continue` would open.
            appender.delete()
            appender.release()
        else:
            appender.close()

    # -- files ------------------------------------------------------------------------------------

    def _start_session(self, session_id: str | None = None) -> None:
        self._metadata = SessionMetadata(session_id or new_id(), now(), self._cwd)
        self._path = project_folder(self._directory, self._cwd) / paths.file_name(self._metadata)
        self._history = MessageTree()
        self._moved: BranchLine | None = None
        self._name: str | None = None
        self._queued: dict[str, QueuedLine] = {}
        self._typed: dict[str, str] = {}
        self._not_started: list[str] = []
        self._is_created = False
        self.damage: list[str] = []
        self._appender: Appender | None = None
        self._started = self._closed = False

    def _open(self, path: Path) -> None:
        appender = Appender(path)
        with contextlib.ExitStack() as undo:
            undo.callback(appender.release)
            stored = appender.read()
            self._path, self._appender, self._started = path, appender, True
            self._metadata, self._history = stored.metadata, stored.history
            self._name, self._queued, self._typed = stored.name, stored.queued, stored.typed
            self._not_started, self.damage = stored.not_started, stored.damage
            if self._settle:
                self._answer_open_calls()
            undo.pop_all()

    def _write(self, *lines: Line) -> None:
        if self._closed:
            raise SessionError("This session is closed; nothing can be added to it.")
        data = b"".join(map(encode_line, lines))
        if self._ephemeral:
            return
        if self._appender is None:
            self._appender, self._is_created = self._create(data), True
        else:
            self._appender.append(data)

    def _create(self, first: bytes) -> Appender:
        try:
            make_private(self._path.parent)
        except OSError as error:
            raise SessionError(
                f"The folder {self._path.parent} cannot be created: {error.strerror}. "
                "Set NEWEL_HOME to a writable folder, or use `newel --ephemeral`."
            ) from error
        appender = Appender(self._path, create=True)
        name = encode_line(NameLine(self._name)) if self._name else b""
        try:
            appender.append(encode_line(self._metadata) + first + name)
        except SessionError:
            self._path.unlink(missing_ok=True)  # an empty file is not a session; the next append tries again
            appender.release()
            raise
        return appender

    def _answer_open_calls(self) -> None:
        for call in self._history.open_calls():
            result = interrupted_result(call)
            if call.id in self._not_started:
                result = msgspec.structs.replace(result, output=NOT_STARTED)
            self.append_message(result)


def _no_message(message_id: str | None) -> SessionError:
    return SessionError(f"There is no message {message_id!r} in this session.")
