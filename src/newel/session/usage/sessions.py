"""Counts what the sessions on this machine have used.

Of each line only the figures are decoded, so hundreds of megabytes take seconds, and one line at a time is in memory.

A conversation that began as a copy of another has that one's messages, which are older than its own session and count there. Subagents
have sessions of their own, so the results of their calls do not count them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from newel.agent.formatting import pluralize
from newel.agent.messages import NOTICE_IDS, AppMessage, Usage, Wire
from newel.agent.transform import COMPACTION
from newel.session.file_format import (
    MAX_LINE,
    UNREADABLE,
    MessageLine,
    SessionMetadata,
    is_foreign,
    read_line,
)
from newel.session.paths import metadata_from_name, session_files
from newel.session.usage.report import UNKNOWN, RequestUsage, Tally
from newel.storage.loading import no_collection
from newel.text.sanitize import plain_line

BLOCK: Final = 1024 * 1024
RUNS_AN_AGENT: Final = "task"
"""The tool whose time is that of an agent, which has a session of its own."""


class _Figures(Wire, frozen=True):
    """The fields of all kinds of messages that are counted."""

    role: str = ""
    id: str = ""
    timestamp: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    stop_reason: str = "stop"
    duration: int | None = None
    tool_name: str = ""
    is_error: bool = False
    details: msgspec.Raw = msgspec.Raw(b"{}")
    name: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _FiguresLine(Wire, frozen=True):
    type: str = ""
    message: _Figures | None = None
    id: str = ""
    timestamp: str = ""
    cwd: str = ""
    config: dict[str, Any] = {}


class _CommandFigures(Wire, frozen=True):
    exit_code: int | None = None


class _SummaryFigures(Wire, frozen=True):
    """Of the model that wrote a summary."""

    usage: Usage | None = None
    cost: float | None = None
    model: str = ""
    duration: int | None = None


_decoder = msgspec.json.Decoder(_FiguresLine)
_command = msgspec.json.Decoder(_CommandFigures)
_summary = msgspec.json.Decoder(_SummaryFigures)


def count_sessions(directory: Path, tally: Tally) -> None:
    """Count all sessions in ``directory``. A file that is no session, or cannot be read, becomes a problem and is left out."""
    query = tally.query
    with no_collection():
        for path, state in session_files(directory, query.project):
            if query.since and datetime.fromtimestamp(state.st_mtime).date().isoformat() < query.since:  # noqa: DTZ006 — a local day
                continue  # files are only appended to
            if state.st_size:  # a process that is killed before its first write leaves an empty file
                _count_file(path, tally)


def _count_file(path: Path, tally: Tally) -> None:
    try:
        with path.open("rb", buffering=BLOCK) as stream:
            _SessionCounter(path, tally).read(stream)
    except OSError as error:
        tally.add_problem(f"{path}: left out, it cannot be read: {error.strerror}")


class _SessionCounter:
    """Counts one session."""

    def __init__(self, path: Path, tally: Tally) -> None:
        self._path = path
        self._tally = tally
        self._metadata = metadata_from_name(path)
        self._project = tally.query.project or UNKNOWN
        self._model = ""
        self._is_session = False
        self._is_prompted = False
        self._is_counted = False

    def read(self, stream: BinaryIO) -> None:
        broken: list[int] = []
        for number, raw in enumerate(_lines(stream), 1):
            if number == 1 and is_foreign(raw):
                break
            try:
                line = _decode(raw, number)
            except UNREADABLE:
                if raw.endswith(b"\n"):  # else another process is writing it
                    broken.append(number)
                continue
            if not self._apply(line):
                return
        if not self._is_session:
            self._tally.add_problem(f"{self._path}: left out, it is not a session")
        elif broken:
            lines = ", ".join(f"{each:,}" for each in broken[:5]) + (" …" if len(broken) > 5 else "")
            self._tally.add_problem(
                f"{self._path}: {pluralize(len(broken), 'line')} left out that cannot be read: {lines}"
            )

    def _apply(self, line: _FiguresLine) -> bool:
        """Count a line; False if the whole session is not asked for."""
        if line.type == "metadata" and not self._is_session:
            self._is_session = True
            self._metadata = SessionMetadata(line.id, line.timestamp, line.cwd, line.config)
            self._project = line.cwd or self._project
            model = line.config.get("model")
            self._model = model if isinstance(model, str) else ""
            return (project := self._tally.query.project) is None or self._metadata.is_of(project)
        message = line.message
        if line.type != "message" or message is None:
            return True
        self._is_session = True
        if not message.timestamp:
            message = msgspec.structs.replace(message, timestamp=self._metadata.timestamp)
        if message.role == "user":  # the page makes it before the session
            self._is_prompted |= not self._metadata.parent and not message.id.startswith(NOTICE_IDS)
        elif message.timestamp >= self._metadata.timestamp and self._tally.wants(message.timestamp):
            self._count(message)
        elif message.role == "assistant":
            self._is_prompted = False
        return True

    def _count(self, message: _Figures) -> None:
        match message.role:
            case "assistant":
                self._model = message.model or self._model
                self._count_answer(message)
            case "toolResult":
                runs_agent = message.tool_name == RUNS_AN_AGENT and self._tally.query.by != "tool"
                self._tally.count_call(
                    self._project,
                    self._model,
                    plain_line(message.tool_name) or UNKNOWN,
                    message.timestamp,
                    failed=message.is_error or _has_exit_code(message.details),
                    duration=0 if runs_agent else message.duration or 0,
                )
            case "custom" if message.name == COMPACTION:
                self._count_summary(message)
            case _:
                return
        self._tally.sessions += not self._is_counted
        self._is_counted = True

    def _count_answer(self, message: _Figures) -> None:
        at = (self._project, self._model, message.timestamp)
        if self._is_prompted:
            self._is_prompted = False
            self._tally.count_run(*at)
        self._tally.count_request(*at, RequestUsage(message.usage, message.cost, message.duration))
        if not message.usage.total and message.stop_reason not in {"error", "aborted"}:
            self._tally.count_without_usage(*at)

    def _count_summary(self, message: _Figures) -> None:
        try:
            about = _summary.decode(message.data)
        except UNREADABLE:
            return
        if about.usage is not None:
            model = about.model or self._model
            used = RequestUsage(about.usage, about.cost, about.duration)
            self._tally.count_request(self._project, model, message.timestamp, used)


def _decode(raw: bytes, number: int) -> _FiguresLine:
    """Raises the errors of ``UNREADABLE``."""
    try:
        return _decoder.decode(raw)
    except UNREADABLE:
        line, _ = read_line(raw, number=number, timestamp="")  # as the reader of sessions accepts it
        if isinstance(line, MessageLine):
            return _FiguresLine(type="message", message=_figures(line.message))
        return msgspec.convert(msgspec.to_builtins(line), _FiguresLine) if line else _FiguresLine("other")


def _has_exit_code(details: msgspec.Raw) -> bool:
    """Whether a command ended with a code other than 0; no other tool has one."""
    try:
        return bool(_command.decode(details).exit_code)
    except UNREADABLE:
        return False


def _figures(message: AppMessage) -> _Figures:
    return msgspec.json.decode(msgspec.json.encode(message), type=_Figures)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines; of one that is too long only its end."""
    while raw := stream.readline(MAX_LINE):
        while not raw.endswith(b"\n") and (more := stream.readline(BLOCK)):
            raw = more
        yield raw
