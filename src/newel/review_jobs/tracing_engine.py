"""An engine whose review jobs leave traces: what it has made durable is written behind, exactly once and in order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from newel.jobs.engine import FINAL, Engine, EngineError, Job, JobOutcome, JobState, JournalEntry, Lease
from newel.review_jobs.job_state import ENDINGS
from newel.review_jobs.journal import KIND
from newel.review_jobs.trace_file import (
    GIVEN_UP,
    SUFFIX,
    VERSION,
    event_line,
    given_up_line,
    header_line,
    trace_files,
)
from newel.storage.files import PRIVATE_FILE, make_private

MAX_TRACES: Final = 1_000
MAX_BYTES: Final = 256 << 20
"""Of all traces together. When a trace begins, the oldest beyond either number go."""

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
_LOOK: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
_BEGIN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


class _TraceLine(msgspec.Struct):
    """What a look at a file needs of a line; of the header, ``trace``."""

    cursor: int = 0
    type: str = ""
    trace: int = 0


_line = msgspec.json.Decoder(_TraceLine)


class _KnownJob(msgspec.Struct):
    """How far a trace goes, and whether it tells of the job's end."""

    cursor: int = 0
    is_over: bool = False

    def learn(self, cursor: int, kind: str) -> None:
        self.cursor = cursor
        self.is_over = self.is_over or kind in ENDINGS or kind == GIVEN_UP


class Traces:
    """The traces of one project's jobs, in ``folder``, which other projects may share; readable for their owner alone.

    Nothing is raised, as no job must end for it: what could not be written is tried again with the job's next entry.
    """

    def __init__(self, engine: Engine, folder: Path, project: str, secrets: Sequence[str]) -> None:
        self._engine = engine
        self._folder = folder
        self._project = project
        self._secrets = secrets
        self._known: dict[str, _KnownJob] = {}
        self._lock = anyio.Lock()
        self._problem = ""
        self._is_told = False

    def complaint(self) -> str:
        """Why traces cannot be written, in words, once; "" if they can."""
        words = "" if self._is_told else self._problem
        self._is_told = self._is_told or bool(words)
        return words

    def forget(self, job: str) -> None:
        """A job is gone; its trace stays."""
        self._known.pop(job, None)

    def lacks(self, job: Job) -> bool:
        """Whether a job's trace may not tell all of it yet, as far as this process knows."""
        known = self._known.get(job.id)
        return job.kind == KIND and (known is None or (job.state in FINAL and not known.is_over))

    async def follow(self, job: str, found: Job | None = None) -> None:
        """Bring a job's trace up to its journal. ``found`` is the job as it stands, where that is known."""
        with anyio.CancelScope(shield=True):  # else the file and what is known of it could part
            async with self._lock:
                try:
                    await self._bring_up(job, found)
                except OSError as error:
                    self.forget(job)
                    self._problem = (
                        f"The trace of job {job} cannot be written to {self._folder}: {error.strerror or error}. "
                        "The job goes on without it; it is tried again with what happens next."
                    )
                except EngineError:
                    self.forget(job)  # what is wrong there is told by those who need it
                else:
                    self._problem, self._is_told = "", False

    async def _bring_up(self, job_id: str, job: Job | None) -> None:
        path = self._folder / f"{job_id}{SUFFIX}"
        known = self._known.get(job_id)
        if known is None:
            job = job or await self._engine.get(job_id)
            if job is None or job.kind != KIND:
                return
            known = await anyio.to_thread.run_sync(self._open, path, job)
            self._known[job_id] = known
            if len(self._known) > MAX_TRACES:
                del self._known[next(iter(self._known))]
        while page := await self._engine.read(job_id, known.cursor):
            await anyio.to_thread.run_sync(self._write, path, page, known)
        if job is not None and job.state in FINAL and not known.is_over:
            await anyio.to_thread.run_sync(_append, path, given_up_line(known.cursor, job))
            known.learn(known.cursor, GIVEN_UP)

    # -- in a thread --------------------------------------------------------------------------------

    def _open(self, path: Path, job: Job) -> _KnownJob:
        """How far a trace goes. One that is not there, or damaged, begins anew."""
        known = _look(path)
        if known is None:
            make_private(self._folder)
            _make_room(self._folder, path)
            _put(os.open(path, _BEGIN, PRIVATE_FILE), header_line(job, self._project, self._secrets))
            known = _KnownJob()
        return known

    def _write(self, path: Path, page: Sequence[JournalEntry], known: _KnownJob) -> None:
        _append(path, b"".join(event_line(each.seq, each.data, self._secrets) for each in page))
        for each in page:
            known.learn(each.seq, _line.decode(each.data).type)


def _look(path: Path) -> _KnownJob | None:
    """How far a file goes, without a last line that is cut off; None for one that is no whole trace."""
    try:
        file = os.fdopen(os.open(path, _LOOK), "r+b")
    except FileNotFoundError:
        return None
    known = _KnownJob()
    with file:
        end = 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                told = _line.decode(line)
            except (msgspec.DecodeError, RecursionError):
                return None
            if not end and told.trace != VERSION:
                return None
            if end and told.cursor != known.cursor + (told.type != GIVEN_UP):
                return None
            known.learn(told.cursor, told.type)
            end += len(line)
        file.truncate(end)
    return known if end else None


def _append(path: Path, data: bytes) -> None:
    _put(os.open(path, _APPEND), data)


def _put(fd: int, data: bytes) -> None:
    """Write all of it and close."""
    with os.fdopen(fd, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]


def _make_room(folder: Path, new: Path) -> None:
    """Remove the oldest traces until there is room for one more."""
    size = 0
    for number, path in enumerate(trace_files(folder), 1):
        with contextlib.suppress(FileNotFoundError):  # another process made room
            size += path.stat().st_size
            if path != new and (number >= MAX_TRACES or size > MAX_BYTES):
                path.unlink()


class TracedEngine:
    """Fulfils ``newel.jobs.engine.Engine`` by another one, and lets traces follow what becomes of its review jobs."""

    def __init__(self, engine: Engine, traces: Traces) -> None:
        self._engine = engine
        self._traces = traces

    async def submit(self, kind: str, params: bytes, *, queue: str, key: str | None = None) -> str:
        return await self._engine.submit(kind, params, queue=queue, key=key)

    async def claim(
        self, free: int, worker: str, *, queues: Sequence[str] | None = None, wait: float = 0.0
    ) -> list[Lease]:
        return await self._engine.claim(free, worker, queues=queues, wait=wait)

    async def append(self, lease: Lease, events: Sequence[bytes], *, expect_seq: int) -> int:
        seq = await self._engine.append(lease, events, expect_seq=expect_seq)
        if lease.kind == KIND:
            await self._traces.follow(lease.job)
        return seq

    async def renew(self, leases: Sequence[Lease]) -> set[str]:
        return await self._engine.renew(leases)

    async def finish(self, lease: Lease, outcome: JobOutcome) -> None:
        await self._engine.finish(lease, outcome)

    async def cancel(self, job: str, reason: str) -> bool:
        return await self._engine.cancel(job, reason)

    async def set_aside(self, jobs: Sequence[str], reason: str) -> None:
        await self._engine.set_aside(jobs, reason)

    async def annotate(
        self, job: str, events: Sequence[bytes], *, expect_seq: int, outcome: JobOutcome | None = None
    ) -> int:
        seq = await self._engine.annotate(job, events, expect_seq=expect_seq, outcome=outcome)
        await self._traces.follow(job)
        return seq

    async def purge(self, job: str) -> bool:
        await self.get(job)  # the last chance to see how it ended
        self._traces.forget(job)
        return await self._engine.purge(job)

    async def read(
        self, job: str, after_seq: int = 0, *, limit: int = 1000, wait: float = 0.0
    ) -> list[JournalEntry]:
        return await self._engine.read(job, after_seq, limit=limit, wait=wait)

    async def get(self, job: str) -> Job | None:
        found = await self._engine.get(job)
        if found is not None and self._traces.lacks(found):
            await self._traces.follow(job, found)
        return found

    async def released(self, job: str, *, wait: float) -> bool:
        return await self._engine.released(job, wait=wait)

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        return await self._engine.find(kind=kind, queue=queue, states=states, limit=limit)

    async def aclose(self) -> None:
        await self._engine.aclose()
