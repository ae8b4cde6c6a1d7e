"""Sessions, stored in the engine's journal."""

from __future__ import annotations

from typing import Final

import msgspec

from newel.agent.messages import Wire, now
from newel.jobs.engine import Engine
from newel.jobs.state_log import StateLog
from newel.review_jobs.errors import NoSuchSession
from newel.review_jobs.responses import SessionStatus

_STORE: Final = "review_sessions"


class Session(Wire, frozen=True, kw_only=True, tag_field="type", tag="session_kept"):
    """A session, or its new status. Its jobs hold the conversation."""

    id: str
    created_at: str
    status: SessionStatus = "active"


class SessionForgotten(Wire, frozen=True, tag_field="type", tag="session_forgotten"):
    id: str


SessionEntry = Session | SessionForgotten
_decoder = msgspec.json.Decoder(SessionEntry)


class SessionStore:
    """Sessions in the order of their creation. A method returns when its change is durable."""

    _journal: StateLog[SessionEntry]

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    @classmethod
    async def open(cls, engine: Engine) -> SessionStore:
        """Call this before a worker claims jobs of the engine. Raises ``EngineError``."""
        store = cls()
        store._journal = await StateLog[SessionEntry].open(
            engine, _STORE, _decoder.decode, store._apply, what="The reviews"
        )
        return store

    def get(self, session_id: str) -> Session:
        """Raises ``NoSuchSession``."""
        if session_id not in self.sessions:
            raise NoSuchSession(f"Session {session_id} does not exist.")
        return self.sessions[session_id]

    async def create(self, session_id: str) -> Session:
        session = Session(id=session_id, created_at=now())
        await self._journal.append(session)
        return session

    async def archive(self, session_id: str) -> None:
        await self._journal.append(msgspec.structs.replace(self.get(session_id), status="archived"))

    async def activate(self, session_id: str) -> None:
        """Idempotent. Raises ``NoSuchSession``."""
        if (session := self.get(session_id)).status != "active":
            await self._journal.append(msgspec.structs.replace(session, status="active"))

    async def delete(self, session_id: str) -> None:
        await self._journal.append(SessionForgotten(session_id))

    def _apply(self, entry: SessionEntry) -> None:
        if isinstance(entry, Session):
            self.sessions[entry.id] = entry
        else:
            self.sessions.pop(entry.id, None)
