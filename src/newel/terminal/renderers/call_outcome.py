"""How tool calls end, in a few words: calls are followed through the events until each has an outcome to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from newel.agent.events import AgentEvent, MessageEnd, ToolExecutionEnd, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.agent.messages import INTERRUPTED, AssistantMessage, ToolCall, ToolResultMessage
from newel.text.format import SUBJECT, format_cost, format_size, one_line
from newel.text.json import as_dict, as_list, as_str
from newel.text.sanitize import escape_line, sanitize

if TYPE_CHECKING:
    from newel.tools.todo import TodoItem

TAIL = 8
"""Lines shown of a failed call's output."""

CHANGED_FILES = 5
"""Files that are listed under a command that has changed them."""
OUTPUT = 3
"""Lines shown of the output of a call that did not fail."""
EXAMINED = 4_000
"""Characters at the end of an output in which its last lines are looked for."""
BESIDE = 40
"""Characters of an output of one line that is shown beside its call."""

_LABEL = r"stdout:|stderr:|exit code: \d+|Output until then:"

Details = dict[str, Any]


class CallOutcome(msgspec.Struct, frozen=True):
    """How a call ended. ``summary`` and ``tail``, the last lines of a failed call, are inert. ``milliseconds`` is None for a
    call that never ran. ``output`` are the last lines of a call that did not fail and has no better summary, ``more`` the number of
    those before them, ``is_cut`` whether the result omits others.
    """

    call_id: str
    name: str
    args: dict[str, Any]
    failed: bool
    summary: str
    tail: list[str]
    milliseconds: int | None
    diff: str
    changes: list[str] = []
    """What a command has changed: ``+13 -12 src/app.py``."""
    output: list[str] = []
    more: int = 0
    is_cut: bool = False
    todo: Sequence[TodoItem] = ()
    """The list that a call of ``todo`` has set."""


class ToolCallTracker:
    """Matches outcomes to calls. A refused call has no execution events, only a result."""

    def __init__(self) -> None:
        self._asked: dict[str, ToolCall] = {}
        self._ran: set[str] = set()

    def track(self, event: AgentEvent) -> CallOutcome | None:
        """Return the outcome if this event is the first to carry it."""
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                self._asked = {call.id: call for call in message.tool_calls}
                self._ran.clear()
            case ToolExecutionStart():
                self._asked[event.tool_call_id] = ToolCall(event.tool_call_id, event.tool_name, event.args)
                self._ran.add(event.tool_call_id)
            case ToolExecutionEnd():
                return self._outcome(event.tool_call_id, event.tool_name, event)
            case MessageEnd(message=ToolResultMessage() as message) if message.tool_call_id not in self._ran:
                return self._outcome(message.tool_call_id, message.tool_name, message)
            case _:
                pass
        return None

    def _outcome(self, call_id: str, name: str, end: ToolExecutionEnd | ToolResultMessage) -> CallOutcome:
        ran = isinstance(end, ToolExecutionEnd)
        output = end.result if ran else end.output
        failed = end.is_error or bool(end.details.get("exitCode"))
        call = self._asked.get(call_id)
        has_ended = ran and not failed and not end.details.get("background")
        is_shown = has_ended and (name == "bash" or name not in SUBJECT)
        printed = last_lines(output, EXAMINED) if is_shown else []
        before = output[:-EXAMINED].count("\n") if printed else 0
        return CallOutcome(
            call_id=call_id,
            name=name,
            args=call.arguments if call else {},
            failed=failed,
            summary=summarize_result(name, output, end.details, is_error=end.is_error, ran=ran),
            tail=last_lines(output) if failed else [],
            milliseconds=end.duration if ran else None,
            diff=_text(end.details, "diff"),
            changes=describe_changes(end.details) if ran else [],
            output=printed[-OUTPUT:],
            more=max(before + len(printed) - OUTPUT, 0),
            is_cut=bool(end.details.get("truncated")),
            todo=_todo(name, end.details),
        )


def summarize_result(name: str, output: str, details: Details, *, is_error: bool, ran: bool = True) -> str:
    """A result in a few words: ``212 lines``, ``exit code 1``."""
    if output.startswith(INTERRUPTED):
        return "stopped" if ran else "interrupted, outcome unknown"  # by the user, or with Newel
    if not ran:
        return "not run"
    if details.get("timedOut"):
        return "timed out"
    if exit_code := details.get("exitCode"):
        return f"exit code {exit_code}"
    if command_id := _text(details, "background"):
        return f"in the background as {one_line(command_id, 20)}"
    if is_error:
        return "failed"
    match name:
        case "read":
            lines = details.get("linesRead")
            return pluralize(lines, "line") if isinstance(lines, int) else ""
        case "grep" | "find" | "ls":
            found = details.get("matches", details.get("files", details.get("entries")))
            return _counted(name, found) if isinstance(found, int) else ""
        case "edit":
            from newel.diff.unified import changed_lines

            return changed_lines(_text(details, "diff"))
        case "write":
            written = details.get("size")
            new = "new, " if details.get("isNew") else ""
            return new + (format_size(written) if isinstance(written, int) else "written")
        case "bash":
            lines = last_lines(output, 1)
            return one_line(lines[-1], BESIDE) if lines else ""
        case "todo":
            from newel.tools.todo import progress

            items = _todo(name, details)
            now = [one_line(item.text, 60) for item in items if item.status == "in_progress"]
            return " · ".join([progress(items), *now[:1]])
        case "web_fetch":
            total = details.get("total")
            return f"{total:,} characters" if isinstance(total, int) else ""
        case "skill":
            return one_line(_text(details, "file"), BESIDE)
        case "task":
            calls, spent = details.get("calls"), details.get("cost")
            cost = format_cost(spent) if isinstance(spent, int | float) else ""
            return " · ".join(
                filter(None, (pluralize(calls, "call") if isinstance(calls, int) else "", cost))
            )
        case _:
            return ""


def _todo(name: str, details: Details) -> Sequence[TodoItem]:
    if name != "todo":
        return ()
    from newel.tools.todo import items_of

    return items_of(details)


def _counted(name: str, found: int) -> str:
    """What a searching tool found: ``3 matches``, ``1 file``."""
    if name == "grep":
        return f"{found:,} match{'' if found == 1 else 'es'}"
    return pluralize(found, "file" if name == "find" else "name")


def last_lines(output: str, number: int = TAIL) -> list[str]:
    """The last lines of a result that are not empty or labels, inert."""
    lines = sanitize(output.removeprefix(INTERRUPTED)[-EXAMINED:]).split("\n")
    printed = [line.rstrip() for line in lines if line.strip() and not re.fullmatch(_LABEL, line)]
    return [line if len(line) <= 400 else line[:399] + "…" for line in printed[-number:]]


def describe_changes(details: Details) -> list[str]:
    """The files that a command has changed, a line for each of the first few, with the numbers of its lines."""
    from newel.diff.unified import line_counts

    found = [as_dict(change) for change in as_list(details.get("changes"))]
    lines: list[str] = []
    for change in found[:CHANGED_FILES]:
        counts = line_counts(int(change.get("added") or 0), int(change.get("removed") or 0))
        kind = as_str(change.get("kind"))
        facts = " ".join(filter(None, (counts, "" if kind == "changed" else kind)))
        lines.append(f"{facts or 'changed'} {escape_line(as_str(change.get('path')), 200)}")
    total = details.get("changedFiles")
    more = (total if isinstance(total, int) else len(found)) - len(lines)
    return [*lines, f"… {pluralize(more, 'more file')}"] if more > 0 else lines


def _text(details: Details, name: str) -> str:
    value = details.get(name)
    return value if isinstance(value, str) else ""
