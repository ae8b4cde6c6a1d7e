"""Traces: a job's journal as a file that outlives the job.

    {"trace":1,"job_id":…,"project":…,"created_at":…,"params":{…}}          the header
    {"cursor":1,"type":"job.started","ts":…,"data":{…}}                     an entry of the journal

The entries are the events that clients poll, and as ``message`` the conversation with the model. Anything that looks like
a key is masked.

The journal is the source while the job exists: ``load_trace`` reads it there. The file is written when a job is submitted,
whenever it stops running, when its review ends, and before the job is deleted.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.config.settings import mask_secret
from newel.jobs.engine import FINAL, Engine, EngineError, Job, JournalEntry
from newel.jobs.sqlite import open_reader
from newel.review_jobs.journal import ENDINGS, KIND, JobParams, JobState, decode, params_of
from newel.session.masking import KEY, spellings
from newel.storage.files import PRIVATE_FILE, make_private, project_folder
from newel.text.json import to_json

VERSION: Final = 1
SUFFIX: Final = ".jsonl"
GIVEN_UP: Final = "engine.gave_up"
"""The type of the line for an end that the engine recorded outside the journal; its cursor is the one before."""
MAX_FILE_BYTES: Final = 256 << 20
"""The largest file that is read."""
MAX_DAMAGE: Final = 100
"""Damaged lines that are reported."""

MAX_TRACES: Final = 1_000
MAX_BYTES: Final = 256 << 20
"""Of all traces together. A new trace replaces the oldest ones beyond either limit."""
_PAGE: Final = 1_000
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW

_STRINGS: Final = rb'(?P<path>"(?:file_path|project)":)?(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+")(?P<name>:)?'
"""The strings of compact JSON. A replay needs field names and paths, so these are not masked."""


class BadTrace(NewelError):
    """A file is not a trace, or not of this version."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """``trace`` is the version of the format, ``project`` the folder that the job worked on."""

    trace: int = VERSION
    job_id: str
    project: str
    created_at: str
    params: JobParams


class TraceEvent(msgspec.Struct, frozen=True):
    """One entry; ``cursor`` is its number in the journal, ``ts`` ISO 8601 in UTC."""

    cursor: int
    type: str
    ts: str
    data: dict[str, Any]


class Trace(msgspec.Struct, frozen=True):
    """``damage`` names the lines that were skipped, and why."""

    header: Header
    events: tuple[TraceEvent, ...]
    damage: tuple[str, ...] = ()


_header = msgspec.json.Decoder(Header)
_event = msgspec.json.Decoder(TraceEvent)


# -- reading ------------------------------------------------------------------------------------------


def read_trace(path: Path) -> Trace:
    """The trace in a file, without damaged lines. Raises ``BadTrace``."""
    return parse_trace(_lines(path), path)


def parse_trace(lines: Iterable[bytes], path: Path) -> Trace:
    """A trace, without damaged lines. ``path`` is for messages. Raises ``BadTrace``."""
    remaining = iter(lines)
    return Trace(_parse_header(next(remaining, b""), path), *_parse_events(remaining))


def read_header(path: Path) -> Header:
    """The header of the trace in a file. Raises ``BadTrace``."""
    return _parse_header(next(_lines(path), b""), path)


def _parse_header(line: bytes, path: Path) -> Header:
    try:
        header = _header.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadTrace(f"{path} is not the trace of a job: its first line is not a trace header.") from error
    if header.trace != VERSION:
        raise BadTrace(f"{path} is a trace of version {header.trace}; this Newel reads version {VERSION}.")
    return header


def replay(trace: Trace) -> JobState:
    """The state of the job at the end of the trace, reduced as from the journal itself."""
    state = JobState(created_at=trace.header.created_at)
    for traced in trace.events:
        _reduce(state, traced)
    return state


def trace_files(folder: Path) -> list[Path]:
    """The traces of a folder, the last written first."""
    files: list[tuple[int, Path]] = []
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process made room
            about = path.lstat()
            if stat.S_ISREG(about.st_mode):
                files.append((about.st_mtime_ns, path))
    return [path for _, path in sorted(files, reverse=True)]


def _reduce(state: JobState, traced: TraceEvent) -> None:
    if traced.type == GIVEN_UP:
        state.abandon(traced.ts, str(traced.data.get("reason", "")))
    else:
        state.reduce(traced.cursor, traced.type, traced.ts, traced.data)


def _parse_events(lines: Iterable[bytes]) -> tuple[tuple[TraceEvent, ...], tuple[str, ...]]:
    events: list[TraceEvent] = []
    damage: list[str] = []
    state = JobState(created_at="")
    for number, line in enumerate(lines, 2):  # the header is line 1
        try:
            traced = _event.decode(line)
            _check_cursor(traced, state.seq)
            _reduce(state, traced)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if len(damage) < MAX_DAMAGE:
                damage.append(f"line {number}: {_describe(error, line)}")
        else:
            events.append(traced)
    return tuple(events), tuple(damage)


def _check_cursor(traced: TraceEvent, before: int) -> None:
    """Raises ``ValueError`` for an entry that is repeated or out of order."""
    if traced.cursor <= before and traced.type != GIVEN_UP:
        raise ValueError(f"entry {traced.cursor} follows entry {before}")


def _describe(error: Exception, line: bytes) -> str:
    if not line.endswith(b"\n"):
        return "it is cut off"
    match error:
        case KeyError():
            return f"{error} is missing"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(error)


def _lines(path: Path) -> Iterator[bytes]:
    """Raises ``BadTrace``."""
    try:
        if not path.is_file():
            raise BadTrace(f"There is no trace {path}.")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadTrace(f"{path} has more than {MAX_FILE_BYTES >> 20} MiB, which is the limit.")
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise BadTrace(f"The trace {path} cannot be read: {error.strerror}.") from error


# -- writing ------------------------------------------------------------------------------------------


def without_keys(text: bytes, secrets: Sequence[str]) -> bytes:
    """Compact JSON with ``secrets``, and anything that looks like a key, masked in its strings."""
    spelled = spellings(secrets)

    def mask(match: re.Match[bytes]) -> bytes:
        if match["path"] or match["name"]:
            return match[0]
        string: str = msgspec.json.decode(match["text"])
        inert = string
        for spelling, secret in spelled.items():
            inert = inert.replace(spelling, mask_secret(secret))
        inert = re.sub(KEY, lambda key: mask_secret(key[0]), inert)
        return match[0] if inert == string else to_json(inert)

    return re.sub(_STRINGS, mask, text)


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
            except EngineError:  # callers that need the journal report it
                pass
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
    header = Header(job_id=job.id, project=project, created_at=job.created, params=params_of(job))
    lines = [without_keys(to_json(header), secrets) + b"\n"]
    cursor = 0
    has_ended = False
    while page := await read(cursor):
        lines += await anyio.to_thread.run_sync(_event_lines, page, secrets)
        cursor = page[-1].seq
        has_ended = has_ended or any(decode(entry.data).type in ENDINGS for entry in page)
    if job.state in FINAL and not has_ended:
        gave_up = TraceEvent(cursor, GIVEN_UP, job.updated, {"state": job.state, "reason": job.reason})
        lines.append(to_json(gave_up) + b"\n")
    return lines


def _event_lines(page: Sequence[JournalEntry], secrets: Sequence[str]) -> list[bytes]:
    """An entry is compact JSON, whose opening brace gives way to the cursor."""
    return [b'{"cursor":%d,' % each.seq + without_keys(each.data, secrets)[1:] + b"\n" for each in page]


def _make_room(folder: Path) -> None:
    """Remove the oldest traces until there is room for one more."""
    size = 0
    for number, path in enumerate(trace_files(folder), 1):
        with contextlib.suppress(FileNotFoundError):  # another process made room
            size += path.stat().st_size
            if number >= MAX_TRACES or size > MAX_BYTES:
                path.unlink()
