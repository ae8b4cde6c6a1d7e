"""The format of traces: a job's journal as a file.

    {"trace":1,"job_id":…,"project":…,"created_at":…,"params":{…}}          the header
    {"cursor":1,"type":"job.started","ts":…,"data":{…}}                     an entry of the journal

The entries are the events that clients poll, and as ``message`` the conversation with the model. Anything that looks like
a key is masked.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.agent.errors import NewelError
from newel.config.settings import mask_secret
from newel.jobs.engine import Job
from newel.review_jobs.job_state import JobState
from newel.review_jobs.journal import JobParams
from newel.session.masking import KEY, SHORTEST_SECRET
from newel.text.json import to_json

VERSION: Final = 1
SUFFIX: Final = ".jsonl"
GIVEN_UP: Final = "engine.gave_up"
"""The type of the line for an end that the engine recorded outside the journal; its cursor is the one before."""
MAX_FILE_BYTES: Final = 256 << 20
"""The largest file that is read."""
MAX_DAMAGE: Final = 100
"""Damaged lines that are reported."""

_STRINGS: Final = rb'(?P<path>"(?:file_path|project)":)?(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+")(?P<name>:)?'
"""The strings of compact JSON. A replay needs field names and paths, so these are not masked."""
_ESCAPES: Final = r"(\\(?:[bfnrt]|u[0-9A-Fa-f]{4}))"
"""Escaped white space and control characters in JSON that a string contains, as in the results of tools."""


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
    for each in trace.events:
        _reduce(state, each)
    return state


def trace_files(folder: Path) -> list[Path]:
    """The traces of a folder, the last written first."""
    found: list[tuple[int, Path]] = []
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process made room
            about = path.lstat()
            if stat.S_ISREG(about.st_mode):
                found.append((about.st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _reduce(state: JobState, each: TraceEvent) -> None:
    if each.type == GIVEN_UP:
        state.abandon(each.ts, str(each.data.get("reason", "")))
    else:
        state.reduce(each.cursor, each.type, each.ts, each.data)


def _parse_events(lines: Iterable[bytes]) -> tuple[tuple[TraceEvent, ...], tuple[str, ...]]:
    events: list[TraceEvent] = []
    damage: list[str] = []
    state = JobState(created_at="")
    for number, line in enumerate(lines, 2):  # the header is line 1
        try:
            each = _event.decode(line)
            _check_cursor(each, state.seq)
            _reduce(state, each)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if len(damage) < MAX_DAMAGE:
                damage.append(f"line {number}: {_describe(error, line)}")
        else:
            events.append(each)
    return tuple(events), tuple(damage)


def _check_cursor(each: TraceEvent, before: int) -> None:
    """Raises ``ValueError`` for an entry that is repeated or out of order."""
    if each.cursor <= before and each.type != GIVEN_UP:
        raise ValueError(f"entry {each.cursor} follows entry {before}")


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


def header_line(job: Job, project: str, secrets: Sequence[str]) -> bytes:
    params = msgspec.json.decode(job.params, type=JobParams)
    header = Header(job_id=job.id, project=project, created_at=job.created, params=params)
    return without_keys(to_json(header), secrets) + b"\n"


def event_line(cursor: int, entry: bytes, secrets: Sequence[str]) -> bytes:
    """``entry`` is compact JSON from the journal."""
    return b'{"cursor":%d,' % cursor + without_keys(entry, secrets)[1:] + b"\n"


def given_up_line(cursor: int, job: Job) -> bytes:
    return (
        to_json(TraceEvent(cursor, GIVEN_UP, job.updated, {"state": job.state, "reason": job.reason})) + b"\n"
    )


def without_keys(text: bytes, secrets: Sequence[str]) -> bytes:
    """Compact JSON with ``secrets``, and anything that looks like a key, masked in its strings."""

    def mask(found: re.Match[bytes]) -> bytes:
        if found["path"] or found["name"]:
            return found[0]
        string: str = msgspec.json.decode(found["text"])
        inert = string
        for secret in secrets:
            if len(secret) >= SHORTEST_SECRET:
                inert = inert.replace(secret, mask_secret(secret))
        # A key starts a word. Split at escapes: in "\\nsk-…" the n is no part of the word.
        pieces = re.split(_ESCAPES, inert)
        inert = "".join(re.sub(KEY, lambda key: mask_secret(key[0]), piece) for piece in pieces)
        return found[0] if inert == string else to_json(inert)

    return re.sub(_STRINGS, mask, text)
