"""The sessions, kept: the fold of the journal of one job that no worker carries out and that never ends."""

from __future__ import annotations

from typing import Final

import anyio
import msgspec

from newel.agent.messages import Wire, now
from newel.jobs.engine import Engine, EngineError, Lease
from newel.jobs.review.errors import NoSuchSession
from newel.jobs.review.payloads import SessionStatus

_STORE: Final = "review_sessions"


class Session(Wire, frozen=True, kw_only=True, tag_field="type", tag="session_kept"):
    """A session, or what has become of it. What was said in it stands with its jobs."""

    id: str
    created_at: str
    status: SessionStatus = "active"


class SessionForgotten(Wire, frozen=True, tag_field="type", tag="session_forgotten"):
    id: str


_decoder = msgspec.json.Decoder(Session | SessionForgotten)


class SessionStore:
    """Sessions in the order in which they were begun. Each method returns when the change is durable."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine = engine
        self._lease = lease
        self._seq = 0
        self._lock = anyio.Lock()
        self.sessions: dict[str, Session] = {}

    @classmethod
    async def open(cls, engine: Engine) -> SessionStore:
        """To be called before a worker takes jobs of this engine. Raises ``EngineError``."""
        await engine.submit(_STORE, b"{}", queue=_STORE, key=_STORE)
        leases = await engine.claim(1, "review", queues=[_STORE])
        if not leases:
            raise EngineError("The review of this folder is open in another workbench.")
        store = cls(engine, leases[0])
        while page := await engine.read(store._lease.job, store._seq):
            for entry in page:
                store._fold(_decoder.decode(entry.data))
            store._seq = page[-1].seq
        return store

    def get(self, session_id: str) -> Session:
        """Raises ``NoSuchSession``."""
        if session_id not in self.sessions:
            raise NoSuchSession(f"There is no session {session_id}.")
        return self.sessions[session_id]

    async def create(self, session_id: str) -> Session:
        session = Session(id=session_id, created_at=now())
        await self._append(session)
        return session

    async def archive(self, session_id: str) -> None:
        await self._append(msgspec.structs.replace(self.get(session_id), status="archived"))

    async def activate(self, session_id: str) -> None:
        """Nothing happens to one that is active."""
        if (session := self.get(session_id)).status != "active":
            await self._append(msgspec.structs.replace(session, status="active"))

    async def forget(self, session_id: str) -> None:
        await self._append(SessionForgotten(session_id))

    async def _append(self, entry: Session | SessionForgotten) -> None:
        # A caller that goes away must not leave the journal and its number apart.
        with anyio.CancelScope(shield=True):
            async with self._lock:
                data = [msgspec.json.encode(entry)]
                self._seq = await self._engine.append(self._lease, data, expect_seq=self._seq)
                self._fold(entry)

    def _fold(self, entry: Session | SessionForgotten) -> None:
        if isinstance(entry, Session):
            self.sessions[entry.id] = entry
        else:
            self.sessions.pop(entry.id, None)
