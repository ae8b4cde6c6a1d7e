"""Lists of sessions. Only the start of each file is decoded, unless it has branches."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import UserMessage
from newel.session.file_format import MAX_LINE, UNREADABLE, MessageLine, NameLine, read_line
from newel.session.paths import read_metadata, session_files
from newel.session.reader import read_session
from newel.text.sanitize import plain_line

_BLOCK = 1024 * 1024
_MESSAGE = b'\n{"type":"message"'
_NAME = b'\n{"type":"name"'
_BRANCH = b'\n{"type":"branch"'
_MAX_NAME_LINE = 4096
_HEAD_LINES = 50
_MAX_PATH = 4096


class SessionEntry(msgspec.Struct, frozen=True):
    """A session in a list. ``modified`` is in seconds since 1970; ``messages`` counts those of the active branch. All texts are
    sanitized single lines; ``first_text`` is empty without messages.
    """

    path: Path
    id: str
    name: str | None
    first_text: str
    messages: int
    modified: float
    cwd: str


def list_sessions(
    directory: Path, cwd: str | None = None, *, limit: int | None = None, query: str = ""
) -> list[SessionEntry]:
    """The sessions of a project, or of all projects for None, latest first, at most ``limit``. Reads without locks; empty and
    unreadable files are skipped, and the sessions of subagents. Those of a ``query`` have all of its words in the name or the first
    message, or it is their ID.
    """
    found = (each for each in _summaries(directory, cwd) if _matches(each, query))
    return list(itertools.islice(found, limit))


def _matches(entry: SessionEntry, query: str) -> bool:
    text = f"{entry.name or ''} {entry.first_text}".casefold()
    return query == entry.id or all(word in text for word in query.casefold().split())


def _summaries(directory: Path, cwd: str | None) -> Iterator[SessionEntry]:
    for path, state in session_files(directory, cwd):
        metadata = read_metadata(path)
        if metadata is None or metadata.parent or not (cwd is None or metadata.is_of(cwd)):
            continue
        with contextlib.suppress(OSError, SessionError), path.open("rb", buffering=0) as stream:
            count, name, branches = _scan(stream)
            messages, first = _active(path) if branches else (count, _first_text(path))
            yield SessionEntry(
                path=path,
                id=plain_line(metadata.id),
                name=name,
                first_text=first,
                messages=messages,
                modified=state.st_mtime,
                cwd=plain_line(metadata.cwd, _MAX_PATH),
            )


def _first_text(path: Path) -> str:
    """The user's first message, if it is near the start of the file."""
    with path.open("rb") as stream:
        for number in range(1, _HEAD_LINES):
            raw = stream.readline(MAX_LINE)
            if not raw:
                break
            with contextlib.suppress(*UNREADABLE):
                line, _ = read_line(raw, number=number, timestamp="")
                if isinstance(line, MessageLine) and isinstance(line.message, UserMessage):
                    return plain_line(line.message.text)
    return ""


def _active(path: Path) -> tuple[int, str]:
    """The number of messages of the active branch, and the user's first message in it."""
    history = read_session(path).history.history()
    first = next((entry.message for entry in history.entries if entry.kind is UserMessage), None)
    return len(history), plain_line(first.text) if isinstance(first, UserMessage) else ""


def _scan(stream: BinaryIO) -> tuple[int, str | None, bool]:
    """Count the message lines, find the last name, and detect branches, by the bytes with which Newel starts such lines. No
    message can forge one, because JSON escapes line breaks.
    """
    messages, name_at, offset, branches = 0, -1, 0, False
    seam = b"\n"
    while block := stream.read(_BLOCK):
        window = seam + block
        messages += window.count(_MESSAGE)
        branches = branches or _BRANCH in window
        if (at := window.rfind(_NAME)) >= 0:
            name_at = offset - len(seam) + at + 1
        offset += len(block)
        seam = window[-(len(_MESSAGE) - 1) :]
    return messages, _name_at(stream, name_at) if name_at >= 0 else None, branches


def _name_at(stream: BinaryIO, place: int) -> str | None:
    raw = os.pread(stream.fileno(), _MAX_NAME_LINE, place).partition(b"\n")[0]
    with contextlib.suppress(*UNREADABLE):
        line, _ = read_line(raw, number=0, timestamp="")
        if isinstance(line, NameLine):
            return plain_line(line.name) or None
    return None
