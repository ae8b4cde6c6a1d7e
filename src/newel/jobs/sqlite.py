"""The embedded engine: one SQLite file, one process that owns it.

    async with open_engine(home / "jobs" / project) as engine:
        job = await engine.submit("turn", b"{}", queue=tab)

A change is flushed to the disk before its method returns. A lease ends with ``finish`` or with the process, never by time:
only the owner of the folder can hold one, and a laptop that slept must not repeat work.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from newel.jobs import queries
from newel.jobs.directory_lock import DirectoryLock, unusable_directory
from newel.jobs.engine import EngineError, Job, JobOutcome, JobState, JournalEntry, Lease
from newel.jobs.group_commit import Writer
from newel.jobs.notifier import CANCELLED, NO_EVENT, QUEUES, Notifier
from newel.jobs.queries import FILE, JOURNAL, MIGRATIONS
from newel.storage.files import make_private
from newel.storage.sqlite import connect, make_file

T = TypeVar("T")


@asynccontextmanager
async def open_engine(directory: Path | None) -> AsyncGenerator[SqliteEngine]:
    """The engine of a folder, which is created if missing; None keeps everything in memory.

    Jobs that an earlier owner left running can be claimed again. Raises ``EngineError`` if another process owns the folder,
    or it cannot be written, or this version cannot read it.
    """
    engine = SqliteEngine(*await anyio.to_thread.run_sync(_open, directory))
    try:
        yield engine
    finally:
        await engine.aclose()


@asynccontextmanager
async def open_reader(directory: Path) -> AsyncGenerator[Reader]:
    """Reads a folder's journal, even while another process owns it. Raises ``EngineError``, also if there is none."""
    connection = await anyio.to_thread.run_sync(_open_beside, directory / FILE)
    reader = Reader(connection, str(directory / FILE), threading.Lock())
    try:
        yield reader
    finally:
        with anyio.CancelScope(shield=True):
            await reader.aclose()


class Reader:
    """Reads a journal, concurrently with its writer: one query at a time, in a thread. ``lock`` guards the connection."""

    def __init__(self, connection: sqlite3.Connection, path: str, lock: threading.Lock) -> None:
        self._connection = connection
        self._path = path
        self._lock = lock
        self._limiter = anyio.CapacityLimiter(1)

    async def get(self, job: str) -> Job | None:
        return await self.query(partial(queries.get, job=job))

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        return await self.query(partial(queries.find, kind=kind, queue=queue, states=states, limit=limit))

    async def read(self, job: str, after_seq: int, limit: int) -> tuple[list[JournalEntry], bool]:
        """See ``queries.read``."""
        return await self.query(partial(queries.read, job=job, after_seq=after_seq, limit=limit))

    async def query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Raises ``EngineError``."""

        def run() -> T:
            with self._lock:
                return query(self._connection)

        try:
            return await anyio.to_thread.run_sync(run, limiter=self._limiter)
        except sqlite3.ProgrammingError as error:
            raise EngineError(f"The journal {self._path} was closed.") from error
        except sqlite3.Error as error:
            raise JOURNAL.failure(self._path, error) from error

    async def aclose(self) -> None:
        """Close the connection; later queries raise ``EngineError``."""
        await anyio.to_thread.run_sync(self._connection.close, limiter=self._limiter)


class SqliteEngine:
    """Fulfils ``newel.jobs.engine.Engine``; see there. Use ``open_engine``.

    A job with a delayed retry blocks its queue, and so does one that is asking; one that is waiting does not. Submitting a
    waiting or asking job again under its key queues it and resets its ``attempts``; an owner that closes properly resets
    those of the jobs that it leaves. Cancelling a caller does not interrupt its write: the caller always gets the result.
    """

    def __init__(
        self, path: str, owner: DirectoryLock | None, writing: sqlite3.Connection, reading: sqlite3.Connection
    ) -> None:
        lock = threading.Lock()
        self._owner = owner
        self._connection = writing
        self._write = Writer(writing, path, lock)
        self._reader = Reader(reading, path, lock if reading is writing else threading.Lock())
        self.get, self.find = self._reader.get, self._reader.find
        self._notifier = Notifier()
        self._closed = False

    def set_holder_info(self, place: str) -> None:
        """See ``DirectoryLock.set_holder_info``."""
        if self._owner is not None:
            self._owner.set_holder_info(place)

    async def submit(self, kind: str, params: bytes, *, queue: str, key: str | None = None) -> str:
        change = partial(queries.submit, kind=kind, params=params, queue=queue, key=key)
        return await self._write(change, lambda _: self._notifier.notify(QUEUES))

    async def claim(
        self, free: int, worker: str, *, queues: Sequence[str] | None = None, wait: float = 0.0
    ) -> list[Lease]:
        async def claim() -> tuple[list[Lease], bool, float | None]:
            leases, due = await self._write(change)
            return leases, bool(leases), due

        change = partial(queries.claim, free=free, worker=worker, queues=queues)
        return await self._notifier.poll(claim, wait, QUEUES)

    async def append(self, lease: Lease, events: Sequence[bytes], *, expect_seq: int) -> int:
        change = partial(queries.append, lease=lease, events=events, expect_seq=expect_seq)
        return await self._write(change, lambda seq: self._notifier.notify(lease.job, seq))

    async def renew(self, leases: Sequence[Lease], *, wait: float = 0.0) -> set[str]:
        with self._notifier.listen(CANCELLED) as cancelled:
            lost: set[str] = set()
            if leases:
                valid = await self._reader.query(partial(queries.valid_leases, leases=leases))
                lost = {lease.job for lease in leases} - valid
            if not lost:
                with anyio.move_on_after(wait):
                    await cancelled.wait()
            return lost

    async def finish(self, lease: Lease, outcome: JobOutcome) -> None:
        change = partial(queries.finish, lease=lease, outcome=outcome)
        await self._write(change, lambda _: self._notify(lease.job))

    async def cancel(self, job: str, reason: str) -> bool:
        def notify(_: bool) -> None:
            self._notify(job)
            self._notifier.notify(CANCELLED)

        return await self._write(partial(queries.cancel, job=job, reason=reason), notify)

    async def suspend(self, jobs: Sequence[str], reason: str) -> None:
        await self._write(partial(queries.suspend, jobs=jobs, reason=reason))

    async def annotate(
        self, job: str, events: Sequence[bytes], *, expect_seq: int, outcome: JobOutcome | None = None
    ) -> int:
        change = partial(queries.annotate, job=job, events=events, expect_seq=expect_seq, outcome=outcome)
        return await self._write(change, lambda seq: self._notifier.notify(job, seq))

    async def purge(self, job: str) -> bool:
        return await self._write(partial(queries.purge, job=job), lambda _: self._notifier.notify(job))

    async def read(
        self, job: str, after_seq: int = 0, *, limit: int = 1000, wait: float = 0.0
    ) -> list[JournalEntry]:
        """A page of long events is shorter than ``limit``: only an empty page is the last."""

        async def read() -> tuple[list[JournalEntry], bool, None]:
            events, is_ended = await self._reader.read(job, after_seq, limit)
            return events, is_ended or bool(events), None

        return await self._notifier.poll(read, wait, job, after_seq)

    async def wait_for_release(self, job: str, *, wait: float) -> bool:
        async def check() -> tuple[bool, bool, None]:
            job_now = await self._reader.get(job)
            is_released = job_now is None or job_now.state != "running"
            return is_released, is_released, None

        return await self._notifier.poll(check, wait, job, NO_EVENT)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(EngineError):  # at worst the running jobs count one more attempt
                await self._write(queries.release_owner)
            await self._write.aclose()
            await self._reader.aclose()
            await anyio.to_thread.run_sync(self._connection.close)
        if self._owner is not None:
            self._owner.release()
        self._notifier.notify_all()

    def _notify(self, job: str) -> None:
        self._notifier.notify(job)
        self._notifier.notify(QUEUES)


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
        raise unusable_directory(directory, error) from error
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
            raise unusable_directory(path, error) from error
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
            f"The journal {path} has an older format. Start Newel in its project once to migrate it."
        )
    return connection
