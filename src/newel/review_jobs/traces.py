"""Exports of review jobs: a job's journal becomes a file that outlives the job.

The journal is the source while the job exists: ``load_trace`` reads it there. The file is written when a job is submitted,
whenever it stops running, when its review ends, and before the job is deleted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from newel.jobs.engine import FINAL, Engine, EngineError, Job, JournalEntry
from newel.jobs.sqlite import open_reader
from newel.review_jobs.job_state import ENDINGS
from newel.review_jobs.journal import KIND, decode
from newel.review_jobs.trace_file import (
    SUFFIX,
    Trace,
    event_line,
    given_up_line,
    header_line,
    parse_trace,
    read_header,
    read_trace,
    trace_files,
)
from newel.storage.files import PRIVATE_FILE, make_private, project_folder

MAX_TRACES: Final = 1_000
MAX_BYTES: Final = 256 << 20
"""Of all traces together. A new trace replaces the oldest ones beyond either limit."""
_PAGE: Final = 1_000
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW

ReadAfter = Callable[[int], Awaitable[Sequence[JournalEntry]]]
"""Reads the next entries of a journal after a sequence number."""


class Traces:
    """Writes the traces of one project's jobs to ``folder``, readable by their owner only. Projects share the folder.

    A trace that cannot be written fails no job: see ``complaint``.
    """

    def __init__(self, engine: Engine, folder: Path, project: str, secrets: Sequence[str]) -> None:
        self._engine = engine
        self._folder = folder
        self._project = project
        self._secrets = secrets
        self._lock = anyio.Lock()
        self._problem = ""
        self._is_reported = False

    def complaint(self) -> str:
        """Why the last trace could not be written; "" if it could, or if that has been reported."""
        problem = "" if self._is_reported else self._problem
        self._is_reported = self._is_reported or bool(problem)
        return problem

    async def export(self, job_id: str) -> None:
        """Write the trace of a job, in place of an earlier one."""
        async with self._lock:
            try:
                if (job := await self._engine.get(job_id)) is not None:
                    lines = await _export(
                        partial(self._engine.read, job_id), job, self._project, self._secrets
                    )
                    await anyio.to_thread.run_sync(self._write, self._folder / f"{job_id}{SUFFIX}", lines)
            except OSError as error:
                self._problem = (
                    f"The trace of job {job_id} cannot be written to {self._folder}: {error.strerror or error}. "
                    "The job continues without it; the next export tries again."
                )
            except EngineError:
                pass  # callers that need the journal report it
            else:
                self._problem, self._is_reported = "", False

    def _write(self, path: Path, lines: Sequence[bytes]) -> None:
        make_private(self._folder)
        if not path.exists():
            _make_room(self._folder)
        temporary = path.with_suffix(".tmp")
        with os.fdopen(os.open(temporary, _CREATE, PRIVATE_FILE), "wb") as file:
            file.writelines(lines)
        temporary.replace(path)


async def load_trace(path: Path, home: Path, secrets: Sequence[str]) -> Trace:
    """The trace in a file, with all that the job's journal in ``home`` has, if it still exists. Raises ``BadTrace``."""
    header = read_header(path)
    with contextlib.suppress(EngineError):  # no journal, or one that this version cannot read
        async with open_reader(project_folder(home / "jobs", header.project)) as reader:

            async def read(after: int) -> Sequence[JournalEntry]:
                return (await reader.read(header.job_id, after, _PAGE))[0]

            job = await reader.get(header.job_id)
            if job is not None and job.kind == KIND:
                return parse_trace(await _export(read, job, header.project, secrets), path)
    return read_trace(path)


async def _export(read: ReadAfter, job: Job, project: str, secrets: Sequence[str]) -> list[bytes]:
    """The lines of a trace."""
    lines = [header_line(job, project, secrets)]
    cursor = 0
    has_ended = False
    while page := await read(cursor):
        lines += await anyio.to_thread.run_sync(_event_lines, page, secrets)
        cursor = page[-1].seq
        has_ended = has_ended or any(decode(entry.data).type in ENDINGS for entry in page)
    if job.state in FINAL and not has_ended:
        lines.append(given_up_line(cursor, job))
    return lines


def _event_lines(page: Sequence[JournalEntry], secrets: Sequence[str]) -> list[bytes]:
    return [event_line(entry.seq, entry.data, secrets) for entry in page]


def _make_room(folder: Path) -> None:
    """Remove the oldest traces until there is room for one more."""
    size = 0
    for number, path in enumerate(trace_files(folder), 1):
        with contextlib.suppress(FileNotFoundError):  # another process made room
            size += path.stat().st_size
            if number >= MAX_TRACES or size > MAX_BYTES:
                path.unlink()
