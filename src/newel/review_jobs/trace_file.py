"""The trace of a job: its journal as a file, kept to be read after the job is forgotten.

    {"trace":1,"job_id":…,"project":…,"created_at":…,"params":{…}}          what the job was asked for
    {"cursor":1,"type":"job.started","ts":…,"data":{…}}                     its journal, an entry a line

The entries are those that clients poll and, as ``message``, all that was said between the job and the model. What looks
like a key is masked. A trace is derived: the journal is the truth, and brings it up to date.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.agent.errors import NewelError
from newel.config.settings import masked
from newel.jobs.engine import Job
from newel.review_jobs.job_state import JobState
from newel.review_jobs.journal import JobParams
from newel.session.masking import KEY, SHORTEST_SECRET
from newel.text.json import to_json

VERSION: Final = 1
SUFFIX: Final = ".jsonl"
GIVEN_UP: Final = "engine.gave_up"
"""The type of the line that tells of an engine's verdict, which stands in no journal; its cursor is the one before."""
MAX_FILE: Final = 256 << 20
"""Bytes of a file that is read."""
MAX_DAMAGE: Final = 100
"""Lines of which it is said what is wrong with them."""

_STRINGS: Final = rb'(?P<path>"(?:file_path|project)":)?(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+")(?P<name>:)?'
"""The strings of compact JSON. Names of fields and paths stay as they are: a replay finds things by them."""
_ESCAPES: Final = r"(\\(?:[bfnrt]|u[0-9A-Fa-f]{4}))"
"""What stands for a white space or a control character where a string holds JSON itself, as the answers of tools do."""


class BadTrace(NewelError):
    """A file is no trace, or none of this version."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was asked for; ``trace`` is the version of the format, ``project`` the folder that the job was about."""

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
    """A trace as it was read; ``damage`` names the lines that were left out, and why."""

    header: Header
    events: tuple[TraceEvent, ...]
    damage: tuple[str, ...] = ()


_header = msgspec.json.Decoder(Header)
_event = msgspec.json.Decoder(TraceEvent)


# -- reading ------------------------------------------------------------------------------------------


def read_trace(path: Path) -> Trace:
    """The trace in a file. Lines that cannot be read are named and left out. Raises ``BadTrace``."""
    return Trace(read_header(path), *_read_events(path))


def read_header(path: Path) -> Header:
    """What a trace begins with. Raises ``BadTrace``."""
    first = next(_lines(path), b"")
    try:
        header = _header.decode(first)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadTrace(
            f"{path} is no trace of a job: its first line is none that a trace begins with."
        ) from error
    if header.trace != VERSION:
        raise BadTrace(f"{path} is a trace of version {header.trace}; this Newel reads version {VERSION}.")
    return header


def replay(trace: Trace) -> JobState:
    """What the job had come to when its trace ended: the fold of its entries, as of the journal itself."""
    state = JobState(created_at=trace.header.created_at)
    for each in trace.events:
        _fold(state, each)
    return state


def trace_files(folder: Path) -> list[Path]:
    """The traces of a folder, the one written last first."""
    found: list[tuple[int, Path]] = []
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process made room
            about = path.lstat()
            if stat.S_ISREG(about.st_mode):
                found.append((about.st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _fold(state: JobState, each: TraceEvent) -> None:
    if each.type == GIVEN_UP:
        state.abandon(each.ts, str(each.data.get("reason", "")))
    else:
        state.reduce(each.cursor, each.type, each.ts, each.data)


def _read_events(path: Path) -> tuple[tuple[TraceEvent, ...], tuple[str, ...]]:
    events: list[TraceEvent] = []
    damage: list[str] = []
    state = JobState(created_at="")
    for number, line in enumerate(_lines(path), 1):
        if number == 1:
            continue
        try:
            each = _event.decode(line)
            _check_cursor(each, state.seq)
            _fold(state, each)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if len(damage) < MAX_DAMAGE:
                damage.append(f"line {number}: {_words(error, line)}")
        else:
            events.append(each)
    return tuple(events), tuple(damage)


def _check_cursor(each: TraceEvent, before: int) -> None:
    """Each entry stands once, and in its place. Raises ``ValueError``."""
    if each.cursor <= before and each.type != GIVEN_UP:
        raise ValueError(f"entry {each.cursor} stands behind entry {before}")


def _words(error: Exception, line: bytes) -> str:
    if not line.endswith(b"\n"):
        return "it is cut off"
    match error:
        case KeyError():
            return f"it lacks {error}"
        case RecursionError():
            return "it is nested too deep"
        case _:
            return str(error)


def _lines(path: Path) -> Iterator[bytes]:
    """Raises ``BadTrace``."""
    try:
        if not path.is_file():
            raise BadTrace(f"There is no trace {path}.")
        if path.stat().st_size > MAX_FILE:
            raise BadTrace(f"{path} has more than {MAX_FILE >> 20} MiB: it is not read.")
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
    """``entry`` is compact JSON as it stands in the journal."""
    return b'{"cursor":%d,' % cursor + without_keys(entry, secrets)[1:] + b"\n"


def given_up_line(cursor: int, job: Job) -> bytes:
    return (
        to_json(TraceEvent(cursor, GIVEN_UP, job.updated, {"state": job.state, "reason": job.reason})) + b"\n"
    )


def without_keys(text: bytes, secrets: Sequence[str]) -> bytes:
    """Compact JSON with what is secret, and what looks like a key, masked in its strings."""

    def mask(found: re.Match[bytes]) -> bytes:
        if found["path"] or found["name"]:
            return found[0]
        string: str = msgspec.json.decode(found["text"])
        inert = string
        for secret in secrets:
            if len(secret) >= SHORTEST_SECRET:
                inert = inert.replace(secret, masked(secret))
        # A key begins where a word does, also behind an escape, whose letter is no part of the word.
        pieces = re.split(_ESCAPES, inert)
        inert = "".join(re.sub(KEY, lambda key: masked(key[0]), piece) for piece in pieces)
        return found[0] if inert == string else to_json(inert)

    return re.sub(_STRINGS, mask, text)
