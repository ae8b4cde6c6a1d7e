"""Counts what review jobs have used, from their traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from newel.agent.formatting import pluralize
from newel.agent.messages import Usage
from newel.review_jobs.traces import MAX_FILE_BYTES, trace_files
from newel.session.usage.report import UNKNOWN, RequestUsage, Tally

MAX_LINE: Final = 16 << 20
"""Bytes of the longest line that is decoded."""


class _RawUsage(msgspec.Struct, frozen=True):
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    latency_ms: int | None = None


class _TracedFigures(msgspec.Struct, frozen=True):
    """Of an answer, or of a completed call."""

    raw_usage: _RawUsage | None = None
    name: str = ""
    ok: bool = True
    duration_ms: int = 0


class _TracedLine(msgspec.Struct, frozen=True):
    type: str = ""
    ts: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _TraceHead(msgspec.Struct, frozen=True):
    project: str
    job_id: str
    created_at: str = ""


_head = msgspec.json.Decoder(_TraceHead)
_line = msgspec.json.Decoder(_TracedLine)
_figures = msgspec.json.Decoder(_TracedFigures)


def count_traces(folder: Path, tally: Tally) -> None:
    """Count all traces in a folder. A file that is no trace, or cannot be read, becomes a problem and is left out."""
    for path in trace_files(folder):
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                tally.add_problem(
                    f"{path}: left out, it has more than {MAX_FILE_BYTES >> 20} MiB, which is the limit"
                )
                continue
            with path.open("rb") as stream:
                _count_trace(path, stream, tally)
        except OSError as error:
            tally.add_problem(f"{path}: left out, it cannot be read: {error.strerror}")


def _count_trace(path: Path, stream: BinaryIO, tally: Tally) -> None:
    lines = _lines(stream)
    try:
        head = _head.decode(next(lines, b""))
    except (msgspec.DecodeError, RecursionError):
        tally.add_problem(f"{path}: left out, it is not the trace of a job")
        return
    if tally.query.project not in {None, head.project}:
        return
    counter = _TraceCounter(tally, head)
    broken = 0
    for raw in lines:
        try:
            counter.count(_line.decode(raw))
        except (ValueError, RecursionError):
            broken += 1
    tally.sessions += counter.is_counted
    if broken:
        tally.add_problem(f"{path}: {pluralize(broken, 'line')} left out that cannot be read")


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while raw := stream.readline(MAX_LINE):
        yield raw


class _TraceCounter:
    """Counts one job: it is a run."""

    def __init__(self, tally: Tally, head: _TraceHead) -> None:
        self._tally = tally
        self._project = head.project or UNKNOWN
        self._model = ""
        self.is_counted = False

    def count(self, line: _TracedLine) -> None:
        """Raises ``ValueError`` for figures that are none."""
        if line.type not in {"message", "tool.call.completed"} or not self._tally.wants(line.ts):
            return
        data = _figures.decode(line.data)
        if line.type == "tool.call.completed":
            self._tally.count_call(
                self._project,
                self._model,
                data.name or UNKNOWN,
                line.ts,
                failed=not data.ok,
                duration=data.duration_ms,
            )
        elif data.raw_usage is not None:
            self._count_answer(data.raw_usage, line.ts)

    def _count_answer(self, raw: _RawUsage, at: str) -> None:
        self._model = raw.model or self._model
        usage = Usage(raw.input_tokens, raw.output_tokens, raw.cache_read_tokens, raw.cache_write_tokens)
        if not self.is_counted:
            self.is_counted = True
            self._tally.count_run(self._project, self._model, at)
        self._tally.count_request(
            self._project, self._model, at, RequestUsage(usage, raw.cost, raw.latency_ms)
        )
