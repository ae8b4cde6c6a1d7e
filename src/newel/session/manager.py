"""The session of an agent: what was said is kept as it is said, and found again.

    with SessionManager(directory=home / "sessions", cwd="/src/shop", continue_=True) as session:
        if not session.is_started():
            session.start_session({"model": "qwen2.5-coder"})
        session.append_message(message)

Behind it: ``format`` has the lines of a file, ``store`` reads them, ``history`` holds their tree, ``appender``
and ``lock`` write them, ``locate`` knows where files lie.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage, UserMessage, interrupted_result, new_id, now
from newel.session import paths
from newel.session.appender import Appender
from newel.session.format import (
    BranchLine,
    Line,
    MessageLine,
    NameLine,
    SessionMetadata,
    encode_line,
    public_config,
)
from newel.session.message_tree import MessageTree, TreeEntry
from newel.session.reader import SessionData
from newel.storage.files import make_private, project_folder
from newel.text.sanitize import plain_line


class SessionManager:
    """One session, open for writing.

    ``directory`` holds the sessions of all projects, ``cwd`` is the project's folder. Without
    ``continue_`` and ``session`` the session is new, and its file appears with its first message.
    ``continue_`` opens the project's latest session, or begins a new one if there is none; ``session``
    opens the one with that id, that beginning of an id, or that path. ``own_id`` opens
    the project's one with exactly that id, or begins it. ``ephemeral`` keeps a new session in memory.

    A session that is opened gets a result for each tool call that has none: ``interrupted_result``; without ``settle``
    such calls stay open, for a run that goes on with them. What was broken in its file stands in ``damage``.

    All methods block for microseconds (a user's message for one flush to the disk), and raise
    ``SessionError`` if the file cannot be found, read, locked or written.
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
        self._begin(own_id)
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

    # -- what there is ----------------------------------------------------------------------------

    def is_started(self) -> bool:
        """True once ``start_session`` was called, or an earlier session was opened."""
        return self._started

    def has_data(self) -> bool:
        return len(self._history) > 0

    def get_data(self) -> SessionData | None:
        """Metadata, name and active messages; None as long as nothing was said."""
        return SessionData(self._metadata, self.get_messages(), self._name) if self.has_data() else None

    def get_messages(self) -> list[AppMessage]:
        """The messages of the active branch, in a list of the caller's own."""
        return self._history.active()

    def get_tree(self) -> list[TreeEntry]:
        """The messages of all branches, in the order they were written."""
        return list(self._history.entries())

    def get_file_path(self) -> Path | None:
        """The session's file, which may not be there yet; None for an ephemeral session."""
        return None if self._ephemeral else self._path

    def get_id(self) -> str:
        return self._metadata.id

    def get_name(self) -> str | None:
        return self._name

    # -- changes ----------------------------------------------------------------------------------

    def start_session(self, config: dict[str, Any]) -> None:
        """Begin a session with this configuration; one in which something was said is closed before. What
        looks like a secret in ``config`` is left out.
        """
        if self.has_data():
            self.close()
            self._begin()
        self._metadata = msgspec.structs.replace(self._metadata, config=public_config(config))
        self._started = True

    def set_project(self, cwd: str) -> None:
        """Say whose session this is, where that is known only now: nothing was said in it yet."""
        if not self.has_data():
            self._cwd = cwd
            self._metadata = msgspec.structs.replace(self._metadata, cwd=cwd)
            self._path = project_folder(self._directory, cwd) / self._path.name

    def append_message(self, message: AppMessage) -> None:
        """Keep one more message of the active branch. A message whose id is known is kept only once."""
        if self._history.get(message.id) is None:
            self._write(*([self._moved] if self._moved else []), MessageLine(message))
            self._moved = None
            self._history.add(message)
            if isinstance(message, UserMessage) and self._appender is not None:
                self._appender.sync()  # nobody can make a person's words again

    def set_name(self, name: str) -> None:
        """Name the session, for lists; an empty name takes the name away."""
        line = plain_line(name)
        if self.has_data():
            self._write(NameLine(line))
        self._name = line or None

    def branch(self, from_message_id: str | None) -> list[AppMessage]:
        """Go on from an earlier message, None: from the beginning. What came after stays in the tree.
        A message that called tools brings their results along. The file learns of it with the next message: a person who
        only looked back finds the conversation as it was. Returns the active messages.
        """
        try:
            start = None if from_message_id is None else self._history.settled(from_message_id)
        except KeyError:
            raise SessionError(f"There is no message {from_message_id!r} in this session.") from None
        if self.has_data():
            self._history.move(start)
            self._moved = BranchLine(start)
            self._answer_open_calls()
        return self.get_messages()

    def close(self) -> None:
        """Put everything on the disk and let others write. Nothing can be appended afterwards."""
        self._closed = True
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()

    # -- files ------------------------------------------------------------------------------------

    def _begin(self, session_id: str | None = None) -> None:
        self._metadata = SessionMetadata(session_id or new_id(), now(), self._cwd)
        self._path = project_folder(self._directory, self._cwd) / paths.file_name(self._metadata)
        self._history = MessageTree()
        self._moved: BranchLine | None = None
        self._name: str | None = None
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
            self._name, self.damage = stored.name, stored.damage
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
            self._appender = self._create(data)
        else:
            self._appender.append(data)

    def _create(self, first: bytes) -> Appender:
        try:
            make_private(self._path.parent)
        except OSError as error:
            raise SessionError(
                f"The folder {self._path.parent} cannot be made: {error.strerror}. "
                "Set NEWEL_HOME to a folder that can be written to, or use --ephemeral."
            ) from error
        appender = Appender(self._path, create=True)
        name = encode_line(NameLine(self._name)) if self._name else b""
        try:
            appender.append(encode_line(self._metadata) + first + name)
        except SessionError:
            self._path.unlink(missing_ok=True)  # an empty file is no session; the next append tries again
            appender.release()
            raise
        return appender

    def _answer_open_calls(self) -> None:
        for call in self._history.open_calls():
            self.append_message(interrupted_result(call))
