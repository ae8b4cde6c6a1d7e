"""Tool calls, followed through the events until each has an outcome to show."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from newel.agent.events import AgentEvent, MessageEnd, ToolExecutionEnd, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.agent.messages import INTERRUPTED, AssistantMessage, ToolCall, ToolResultMessage
from newel.text.format import format_size, one_line
from newel.text.sanitize import sanitize

TAIL = 8
"""Lines shown of a failed call's output."""

_LABEL = r"stdout:|stderr:|exit code: \d+|Output until then:"

Details = dict[str, Any]


class CallOutcome(msgspec.Struct, frozen=True):
    """How a call ended. ``summary`` and ``tail``, the last lines of a failed call, are inert. ``milliseconds`` is None for a
    call that never ran.
    """

    call_id: str
    name: str
    args: dict[str, Any]
    failed: bool
    summary: str
    tail: list[str]
    milliseconds: int | None
    diff: str


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
        return CallOutcome(
            call_id=call_id,
            name=name,
            args=call.arguments if call else {},
            failed=failed,
            summary=summarise_result(name, output, end.details, is_error=end.is_error, ran=ran),
            tail=last_lines(output) if failed else [],
            milliseconds=end.duration if ran else None,
            diff=_text(end.details, "diff"),
        )


def summarise_result(name: str, output: str, details: Details, *, is_error: bool, ran: bool = True) -> str:
    """A result in a few words: ``212 lines``, ``exit code 1``."""
    if not ran:
        return "not run"
    if details.get("timedOut"):
        return "timed out"
    if output.startswith(INTERRUPTED):
        return "stopped"
    if exit_code := details.get("exitCode"):
        return f"exit code {exit_code}"
    if is_error:
        return "failed"
    match name:
        case "read":
            lines = details.get("linesRead")
            return pluralize(lines, "line") if isinstance(lines, int) else ""
        case "edit":
            from newel.terminal.diff_view import changed_lines

            return changed_lines(_text(details, "diff"))
        case "write":
            written = details.get("size")
            new = "new, " if details.get("isNew") else ""
            return new + (format_size(written) if isinstance(written, int) else "written")
        case "bash":
            lines = last_lines(output, 1)
            return one_line(lines[-1], 40) if lines else ""
        case _:
            return ""


def last_lines(output: str, number: int = TAIL) -> list[str]:
    """The last lines of a result that are not empty or labels, inert."""
    lines = sanitize(output.removeprefix(INTERRUPTED)[-4_000:]).split("\n")
    printed = [line.rstrip() for line in lines if line.strip() and not re.fullmatch(_LABEL, line)]
    return [line if len(line) <= 400 else line[:399] + "…" for line in printed[-number:]]


def _text(details: Details, name: str) -> str:
    value = details.get(name)
    return value if isinstance(value, str) else ""
