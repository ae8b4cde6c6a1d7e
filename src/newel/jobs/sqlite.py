"""The embedded engine: one SQLite file, one process that owns it.

    async with open_engine(home / "jobs" / project) as engine:
        job = await engine.submit("turn", b"{}", queue=tab)

What a method has acknowledged has been flushed to the disk. A lease ends with ``finish`` or with the process, never by
the clock: only the owner of the folder can hold one, and a laptop that slept must not do the same work twice.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from newel.jobs import queries
from newel.jobs.directory_lock import DirectoryLock, unusable
from newel.jobs.engine import EngineError, Job, JobOutcome, JobState, JournalEntry, Lease
from newel.jobs.group_commit import Writer
from newel.jobs.notifier import Notifier
from newel.jobs.reader import Reader
from newel.jobs.schema import FILE, JOURNAL, MIGRATIONS
from newel.storage.files import make_private
from newel.storage.sqlite import connect, make_file

NO_EVENT = sys.maxsize
"""No event has such a number: who listens after it hears of the job's own state alone."""
_QUEUES = "queues"
"""The bell that rings when a job may have become free; the others are named for their jobs."""


@asynccontextmanager
async def open_engine(directory: Path | None) -> AsyncGenerator[SqliteEngine]:
    """The engine of a folder, which is made if need be; of memory alone for None.

    What an earlier owner left running can be claimed again. Raises ``EngineError``: the folder is another process's,
    cannot be written, or holds what this Newel cannot read.
    """
    engine = SqliteEngine(*await anyio.to_thread.run_sync(_open, directory))
    try:
        yield engine
    finally:
        await engine.aclose()


@asynccontextmanager
async def open_reader(directory: Path) -> AsyncGenerator[Reader]:
    """Look into a folder's journal, whoever owns it meanwhile. Raises ``EngineError``; also if there is none."""
    connection = await anyio.to_thread.run_sync(_open_beside, directory / FILE)
    reader = Reader(connection, str(directory / FILE), threading.Lock())
    try:
        yield reader
    finally:
        with anyio.CancelScope(shield=True):
            await reader.aclose()


class SqliteEngine:
    """Fulfils ``newel.jobs.engine.Engine``; see there. Use ``open_engine``.

    A job that was put back for later holds its queue until then, and so does one that is asking; one that is waiting does
    not. Both go back into their queue when they are submitted again under their key. ``attempts`` begins anew then, and after an owner that ended
    in good order. A caller of a method that writes is not cancelled in the midst of it: it learns what became of it.
    """

    def __init__(
        self, path: str, owner: DirectoryLock | None, writing: sqlite3.Connection, reading: sqlite3.Connection
    ) -> None:
        lock = threading.Lock()
        self._owner = owner
        self._connection = writing
        self._write = Writer(writing, path, lock)
        self._reader = Reader(reading, path, lock if reading is writing else threading.Lock())
        self._bells = Notifier()
        self._closed = False

    def leave_note(self, place: str) -> None:
        """Say where this process is to be found, to those who want the folder too. No secrets: it is shown."""
        if self._owner is not None:
            self._owner.leave_note(place)

    async def submit(self, kind: str, params: bytes, *, queue: str, key: str | None = None) -> str:
        change = partial(queries.submit, kind=kind, params=params, queue=queue, key=key)
        return await self._write(change, lambda _: self._bells.ring(_QUEUES))

    async def claim(
        self, free: int, worker: str, *, queues: Sequence[str] | None = None, wait: float = 0.0
    ) -> list[Lease]:
        deadline = anyio.current_time() + wait
        change = partial(queries.claim, free=free, worker=worker, queues=queues)
        while True:
            with self._bells.listen(_QUEUES) as rung:
                leases, due = await self._write(change)
                left = deadline - anyio.current_time()
                if leases or left <= 0:
                    return leases
                with anyio.move_on_after(left if due is None else min(left, max(due, 0.0))):
                    await rung.wait()

    async def append(self, lease: Lease, events: Sequence[bytes], *, expect_seq: int) -> int:
        change = partial(queries.append, lease=lease, events=events, expect_seq=expect_seq)
        return await self._write(change, lambda seq: self._bells.ring(lease.job, seq))

    async def renew(self, leases: Sequence[Lease]) -> set[str]:
        return {lease.job for lease in leases} - await self._reader.current(leases)

    async def finish(self, lease: Lease, outcome: JobOutcome) -> None:
        change = partial(queries.finish, lease=lease, outcome=outcome)
        await self._write(change, lambda _: self._ring(lease.job))

    async def cancel(self, job: str, reason: str) -> bool:
        change = partial(queries.cancel, job=job, reason=reason)
        return await self._write(change, lambda _: self._ring(job))

    async def set_aside(self, jobs: Sequence[str], reason: str) -> None:
        await self._write(partial(queries.set_aside, jobs=jobs, reason=reason))

    async def annotate(
        self, job: str, events: Sequence[bytes], *, expect_seq: int, outcome: JobOutcome | None = None
    ) -> int:
        change = partial(queries.annotate, job=job, events=events, expect_seq=expect_seq, outcome=outcome)
        return await self._write(change, lambda seq: self._bells.ring(job, seq))

    async def purge(self, job: str) -> bool:
        return await self._write(partial(queries.purge, job=job), lambda _: self._bells.ring(job))

    async def read(
        self, job: str, after_seq: int = 0, *, limit: int = 1000, wait: float = 0.0
    ) -> list[JournalEntry]:
        """As the port says. A page holds fewer events than ``limit`` where they are long: only an empty one is the
        last.
        """
        deadline = anyio.current_time() + wait
        while True:
            with self._bells.listen(job, after_seq) as rung:
                events, ended = await self._reader.read(job, after_seq, limit)
                left = deadline - anyio.current_time()
                if events or ended or left <= 0:
                    return events
                with anyio.move_on_after(left):
                    await rung.wait()

    async def get(self, job: str) -> Job | None:
        return await self._reader.get(job)

    async def released(self, job: str, *, wait: float) -> bool:
        deadline = anyio.current_time() + wait
        while True:
            with self._bells.listen(job, NO_EVENT) as rung:
                found = await self._reader.get(job)
                left = deadline - anyio.current_time()
                if found is None or found.state != "running" or left <= 0:
                    return found is None or found.state != "running"
                with anyio.move_on_after(left):
                    await rung.wait()

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        return await self._reader.find(kind=kind, queue=queue, states=states, limit=limit)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(EngineError):  # at worst this end counts as one more attempt
                await self._write(queries.let_go)
            await self._write.aclose()
            await self._reader.aclose()
            await anyio.to_thread.run_sync(self._connection.close)
        if self._owner is not None:
            self._owner.release()
        self._bells.ring_all()

    def _ring(self, job: str) -> None:
        self._bells.ring(job)
        self._bells.ring(_QUEUES)


def _open(
    directory: Path | None,
) -> tuple[str, DirectoryLock | None, sqlite3.Connection, sqlite3.Connection]:
    if directory is None:
        connection = connect(None)
        JOURNAL.migrate(connection, ":memory:")
        return ":memory:", None, connection, connection
    try:
        make_private(directory)
        directory.chmod(0o700)
    except OSError as error:
        raise unusable(directory, error) from error
    path = directory / FILE
    with contextlib.ExitStack() as undo:
        owner = DirectoryLock(directory)
        undo.callback(owner.release)
        try:
            make_file(path)
            writing = connect(path)
            undo.callback(writing.close)
            JOURNAL.migrate(writing, str(path))
            queries.take_over(writing)
            reading = connect(path, read_only=True)
        except sqlite3.Error as error:
            raise JOURNAL.failure(str(path), error) from error
        except OSError as error:
            raise unusable(path, error) from error
        undo.pop_all()
    return str(path), owner, writing, reading


def _open_beside(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise EngineError(f"There is no journal {path}.")
    try:
        connection = connect(path, read_only=True)
        try:
            version = JOURNAL.check(connection, str(path))
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise JOURNAL.failure(str(path), error) from error
    if version < len(MIGRATIONS):
        connection.close()
        raise EngineError(
            f"The journal {path} is of an older Newel. Start Newel there once to bring it up to date."
        )
    return connection
