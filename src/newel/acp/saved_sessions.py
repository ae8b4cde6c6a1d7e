"""The saved sessions of all projects, for ``session/list``, ``load``, ``fork`` and ``delete``."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from newel.acp import protocol as p
from newel.acp.json_rpc import INVALID_PARAMS, NOT_FOUND, JsonRpcError
from newel.agent.errors import SessionError
from newel.agent.messages import new_id
from newel.session import paths
from newel.session.appender import Appender
from newel.session.listing import list_sessions
from newel.session.manager import SessionManager
from newel.session.reader import read_session


def list_page(home: Path, params: p.ListSessionsParams, size: int) -> p.ListSessionsResult:
    """One page of the sessions, the latest first. The cursor is the number of those before it. Blocks."""
    cursor = params.cursor or "0"
    if not cursor.isdecimal() or len(cursor) > 9:
        raise JsonRpcError(INVALID_PARAMS, f"The cursor {cursor!r} is not one of Newel's.")
    start = int(cursor)
    folder = None if params.cwd is None else str(Path(params.cwd).resolve())
    entries = list_sessions(home / "sessions", folder, limit=start + size + 1)[start:]
    sessions = [
        p.SavedSession(
            session_id=entry.id,
            cwd=entry.cwd,
            title=entry.name or entry.first_text or None,
            updated_at=datetime.fromtimestamp(entry.modified, UTC).isoformat(timespec="seconds"),
        )
        for entry in entries[:size]
        if entry.cwd.startswith("/")
    ]
    return p.ListSessionsResult(
        sessions=sessions, next_cursor=str(start + size) if len(entries) > size else None
    )


def check_saved(home: Path, params: p.OpenSessionParams) -> Path:
    """The file of a session, which has to be of the folder that the client names. Raises ``JsonRpcError``."""
    path = _find(home, params.session_id)
    metadata = paths.read_metadata(path)
    if metadata is not None and not metadata.is_of(str(Path(params.cwd).resolve())):
        raise JsonRpcError(
            INVALID_PARAMS,
            f"The session {params.session_id} belongs to {metadata.cwd}, not to {params.cwd}. Open it there.",
        )
    return path


def fork_session(home: Path, params: p.OpenSessionParams) -> str:
    """Copy the messages of a session into a new one, and return its id. The first one stays as it is."""
    messages = read_session(check_saved(home, params)).history.active()
    forked = new_id()
    with SessionManager(
        directory=home / "sessions", cwd=str(Path(params.cwd).resolve()), own_id=forked
    ) as session:
        session.start_session({"forkedFrom": params.session_id})
        session.extend(messages)
    return forked


def delete_session(home: Path, session_id: str) -> None:
    """Remove the files of a session and of its subagents. Raises ``SessionInUse``, and then removes none, if another Newel has one open."""
    path = _find(home, session_id)
    with ExitStack() as held:
        sessions: list[Appender] = []
        for file in (*paths.subagent_files(path), path):  # itself last: by it the others are found again
            sessions.append(Appender(file))
            held.callback(sessions[-1].release)
        for session in sessions:
            session.delete()


def _find(home: Path, session_id: str) -> Path:
    try:
        path = paths.find_session(home / "sessions", session_id)
    except SessionError as error:
        raise JsonRpcError(NOT_FOUND, str(error)) from error
    if paths.metadata_from_name(path).id != session_id:
        raise JsonRpcError(NOT_FOUND, f"There is no session with the id {session_id!r}.")
    return path
