"""``newel trace``: the steps of review jobs and conversations."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec

from newel.agent.formatting import pluralize
from newel.agent.messages import Usage
from newel.app.secrets import configured_secrets
from newel.cli.options import Parser, add_list_options, nothing_listed, project_of
from newel.config.settings import newel_home
from newel.review_jobs.traces import (
    SUFFIX,
    BadTrace,
    Header,
    Trace,
    TraceEvent,
    load_trace,
    read_header,
    read_trace,
    replay,
    trace_files,
)
from newel.session.paths import find_session, metadata_from_name, read_metadata, session_files
from newel.session.timeline import Timeline, TimelineStep, milliseconds_of
from newel.text.format import call_text, format_duration, usage_line
from newel.text.json import to_json, to_printable_json
from newel.text.sanitize import escape_invisible, escape_line

DONE = 0
SHORT_ID = 8
TITLE = 80
SAID = 160
"""Characters of a step's text that are listed; --json has all."""


class TraceSummary(msgspec.Struct, frozen=True):
    """A trace in a list. ``status`` is its job's when the trace ended."""

    job_id: str
    project: str
    created_at: str
    status: str
    instruction: str
    path: str


def command_trace(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel trace",
        description="Show the steps of a review job or a conversation; without one, list the latest traces of jobs.",
    )
    parser.add_argument(
        "job",
        nargs="?",
        metavar="JOB|SESSION|FILE",
        help="the beginning of the ID of a job or a session, or a file of one",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--html", metavar="FILE", help="write a time line to FILE, as one HTML page that needs nothing else"
    )
    parser.add_argument("--unmasked", action="store_true", help="do not mask secrets in a conversation")
    add_list_options(parser, "traces")
    options = parser.parse_args(arguments)
    home = newel_home(os.environ)
    if options.job is None:
        if options.html:
            parser.error("--html needs a job or a session; `newel trace` and `newel sessions` list them")
        return _list(home / "traces", None if options.all else project_of(parser, options), options)
    if options.html and options.json:
        parser.error("--html and --json cannot be combined")
    session = _find_session(home, options.job)
    if session is not None:
        from newel.cli.trace_session import show_session

        return show_session(
            session, home, html=options.html, as_json=options.json, masked=not options.unmasked
        )
    trace = _load(home / "traces", _find(home / "traces", options.job))
    if options.html:
        from newel.cli.trace_session import write_html

        return write_html(_timeline(trace), options.html, configured_secrets(home, Path.cwd(), os.environ))
    return _show(trace, as_json=options.json)


def _find_session(home: Path, name: str) -> Path | None:
    """The session of that name; None if it is that of a job, or of nothing. Raises ``SessionError`` for several."""
    if "/" in name or name.endswith(SUFFIX):
        path = Path(name).expanduser()
        return path if path.is_file() and read_metadata(path) is not None else None
    if any(path.name.startswith(name) for path in trace_files(home / "traces")):
        return None
    files = session_files(home / "sessions")
    if not any(metadata_from_name(path).id.startswith(name) for path, _ in files):
        return None
    return find_session(home / "sessions", name)


def _load(folder: Path, path: Path) -> Trace:
    """A trace of the user's own from the job's journal while that exists, any other from its file."""
    if path.parent != folder:
        return read_trace(path)
    secrets = configured_secrets(folder.parent, Path.cwd(), os.environ)
    return anyio.run(load_trace, path, folder.parent, secrets)


# -- the list -----------------------------------------------------------------------------------------


def _list(folder: Path, project: str | None, options: argparse.Namespace) -> int:
    started: list[tuple[str, Path]] = []
    for path in trace_files(folder):
        with _report_bad_trace():
            header = read_header(path)
            if project in {None, header.project}:
                started.append((header.created_at, path))
    summaries: list[TraceSummary] = []
    for _, path in sorted(started, reverse=True):  # an earlier job may have written last
        if len(summaries) == options.n:
            break
        with _report_bad_trace():
            summaries.append(_summarize(path, _load(folder, path)))
    if options.json:
        _print_json({"traces": summaries})
        return DONE
    for summary in summaries:
        line = f"{_short(summary.job_id)}  {_time(summary.created_at, '%Y-%m-%d %H:%M')}  {summary.status:<16}  {escape_line(summary.instruction, TITLE)}"
        print(f"{line}\n{'':{SHORT_ID}}  {escape_line(summary.project)}" if project is None else line)
    if not summaries:
        print(nothing_listed("traces", options))
    return DONE


@contextmanager
def _report_bad_trace() -> Generator[None]:
    """An unreadable trace is reported and skipped."""
    try:
        yield
    except BadTrace as error:
        print(escape_invisible(str(error)), file=sys.stderr)


def _summarize(path: Path, trace: Trace) -> TraceSummary:
    header = trace.header
    return TraceSummary(
        job_id=header.job_id,
        project=header.project,
        created_at=header.created_at,
        status=replay(trace).status,
        instruction=header.params.instruction,
        path=str(path),
    )


def _find(folder: Path, name: str) -> Path:
    """The file of a trace, by its path or the beginning of its job's id. Raises ``BadTrace``."""
    if "/" in name or name.endswith(SUFFIX):
        return Path(name)
    matches = [path for path in trace_files(folder) if path.name.startswith(name)]
    if len(matches) != 1:
        if matches:
            raise BadTrace(
                f"There are traces of {len(matches)} jobs whose id begins with {name!r}. `newel trace --all` lists them."
            )
        raise BadTrace(
            f"There is no trace of a job and no session whose id begins with {name!r}. "
            "`newel trace --all` and `newel sessions --all` list them."
        )
    return matches[0]


# -- one trace ----------------------------------------------------------------------------------------


def _show(trace: Trace, *, as_json: bool) -> int:
    state = replay(trace)
    if as_json:
        _print_json(
            {"header": trace.header, "status": state.status, "events": trace.events, "damage": trace.damage}
        )
        return DONE
    for line in _heading(trace.header, state.status):
        print(line)
    for traced in trace.events:
        kind, text, took = _describe(traced)
        print(f"{_time(traced.ts, '%H:%M:%S.%f')[:12]:<12}  {escape_line(kind, 27):<27}  {text}{took}")
    for text in trace.damage:
        print(f"Left out: {escape_line(text, SAID)}", file=sys.stderr)
    return DONE


class _RawFigures(msgspec.Struct, frozen=True):
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    latency_ms: float = 0


def _timeline(trace: Trace) -> Timeline:
    """The steps of a job; a question to the user lasts until its answer."""
    steps: list[TimelineStep] = []
    asked: float | None = None
    for traced in trace.events:
        try:
            end = milliseconds_of(traced.ts)
        except ValueError:
            continue
        if traced.type == "clarification.requested":
            asked = end
        elif traced.type == "clarification.received" and asked is not None:
            steps.append(
                TimelineStep(kind="wait", start=asked, duration=end - asked, text="waiting for an answer")
            )
        if traced.type != "tool.call.requested":
            steps.append(_timeline_step(traced, end))
    header = trace.header
    return Timeline(
        title=header.params.instruction,
        project=header.project,
        steps=sorted(steps, key=lambda step: step.start),
        damage=list(trace.damage),
    )


def _timeline_step(traced: TraceEvent, end: float) -> TimelineStep:
    """Unexpected data makes it a note."""
    kind, text, _ = _describe(traced)
    with suppress(TypeError, ValueError, msgspec.ValidationError):
        if measured := _measured_step(traced, text, end):
            return measured
    is_prompt = traced.type == "message" and kind == "user"
    return TimelineStep(
        kind="prompt" if is_prompt else "note", start=end, text=text if is_prompt else f"{kind} {text}"
    )


def _measured_step(traced: TraceEvent, text: str, end: float) -> TimelineStep | None:
    """An answer of the model or a call of a tool; None for other events."""
    data = traced.data
    raw = data.get("raw_usage")
    if traced.type == "message" and isinstance(raw, dict):
        took = msgspec.convert(raw, _RawFigures, strict=False)
        usage = Usage(took.input_tokens, took.output_tokens, took.cache_read_tokens, took.cache_write_tokens)
        return TimelineStep(
            kind="model",
            start=end - took.latency_ms,
            duration=took.latency_ms,
            text=took.model,
            usage=usage,
            cost=took.cost,
        )
    if traced.type == "tool.call.completed":
        duration = float(data.get("duration_ms") or 0)
        failed = data.get("ok") is False
        return TimelineStep(kind="tool", start=end - duration, duration=duration, text=text, failed=failed)
    return None


def _heading(header: Header, status: str) -> list[str]:
    rerun = f", a rerun of {_short(header.params.rerun_of)}" if header.params.rerun_of else ""
    return [
        f"job {escape_line(header.job_id)}, {status}{rerun}",
        f"of {_time(header.created_at, '%Y-%m-%d %H:%M')} in {escape_line(header.project)}",
        escape_invisible(header.params.instruction),
        "",
    ]


def _describe(traced: TraceEvent) -> tuple[str, str, str]:
    """The name, text and duration of an event. Unexpected data is shown as JSON."""
    try:
        if traced.type == "message":
            return _describe_message(traced.data)
        took = traced.data.get("duration_ms")
        text = _WORDS[traced.type](traced.data)
        return traced.type, escape_line(text, SAID), f"  {format_duration(took)}" if took is not None else ""
    except (KeyError, TypeError, ValueError, AttributeError):
        return traced.type, escape_line(to_json(traced.data).decode(), SAID), ""


def _describe_message(data: dict[str, Any]) -> tuple[str, str, str]:
    """A message between the job and the model."""
    message = data["message"]
    if message["role"] != "assistant":
        text = message.get("output", message.get("content", ""))
        return str(message.get("toolName", message["role"])), escape_line(str(text), SAID), ""
    took = data["raw_usage"]
    usage = Usage(input=took["input_tokens"], output=took["output_tokens"])
    who = f"{took['model']} ({took['provider']})" if took["model"] else ""
    parts = " · ".join(filter(None, [who, usage_line(usage, took["cost"])]))
    return "assistant", escape_line(parts, SAID), f"  {format_duration(took['latency_ms'])}"


def _result(data: dict[str, Any]) -> str:
    if not data["ok"]:
        return f"{data['name']} failed: {str(data['error']).rstrip(' .')}"
    count = data["result_count"]
    return str(data["name"]) if count is None else f"{data['name']}, {pluralize(count, 'result')}"


def _edits(data: dict[str, Any]) -> str:
    files = dict.fromkeys(str(edit["file_path"]) for edit in data["edits"])
    return f"{pluralize(len(data['edits']), 'edit')} of {', '.join(files)}"


def _hunks(data: dict[str, Any]) -> str:
    files = ", ".join(
        f"{file['file_path']} ({pluralize(len(file['hunk_ids']), 'hunk')})" for file in data["files"]
    )
    return f"{files}; incomplete: {data['incomplete']}" if data.get("incomplete") else files


def _describe_applied(data: dict[str, Any]) -> str:
    return "; ".join(
        f"{file['file_path']}: {file['applied_hunks']} applied, {file['rejected_hunks']} rejected"
        for file in data["applied_files"]
    )


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "agent.message": lambda data: data["text"],
    "model.routed": lambda data: f"{data['place']} model {data['model']}: {data['reason']}",
    "job.started": lambda data: (
        f"{data['model']} ({data['provider']}), at most {pluralize(data['max_tool_calls'], 'tool call')}"
    ),
    "checkpoint.created": lambda data: data["checkpoint_id"],
    "tool.call.requested": lambda data: call_text(data["name"], data["arguments"]),
    "tool.call.completed": _result,
    "clarification.requested": lambda data: data["question"],
    "clarification.received": lambda data: "skipped" if data["skipped"] else data["answer"],
    "edits.proposed": _edits,
    "conflict.detected": lambda data: data["message"],
    "rerun.started": lambda data: f"as job {_short(data['new_job_id'])}",
    "diff.generated": _hunks,
    "review.updated": lambda data: f"{data['action']} {data['file_path']}",
    "apply.started": lambda data: f"{pluralize(len(data['accepted_hunk_ids']), 'hunk')} accepted",
    "apply.completed": _describe_applied,
    "checkpoint.rollback.started": lambda data: f"{data['mode']}: {', '.join(data['files'])}",
    "checkpoint.rollback.completed": lambda data: f"{data['mode']}: {', '.join(data['files'])}",
    "checkpoint.rollback.failed": lambda data: data["error"],
    "trace.failed": lambda data: data["message"],
    "job.completed": lambda data: data["summary"],
    "job.failed": lambda data: data["error"],
    "engine.gave_up": lambda data: data["reason"] or data["state"],
}
"""How each event is described; see ``newel.review_jobs.journal.EventType``."""


def _short(job: str) -> str:
    return escape_line(job[:SHORT_ID])


def _time(stamp: str, form: str) -> str:
    """A time of the journal in local time."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return escape_line(stamp, 16)


def _print_json(value: Any) -> None:
    print(to_printable_json(value))
