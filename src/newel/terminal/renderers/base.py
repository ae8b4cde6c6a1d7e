"""Renderers: one dispatch from events to the methods that draw them, and a renderer's subscription to an agent.

    event ── Renderer.handle ──> on_prompt, on_text, on_answer, on_call_end, …   a renderer overrides what it draws

``ConsoleRenderer``, ``SimpleRenderer`` and ``ContractRenderer`` write text; ``RichRenderer`` and ``PanelRenderer`` are
``LiveRenderer``s, which also draw unfinished parts; ``JsonRenderer`` writes the events themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, assert_never

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from newel.agent import events as e
from newel.agent.errors import NewelError
from newel.agent.events import AgentEvent, MessageEnd, ToolExecutionEnd, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.agent.messages import (
    INTERRUPTED,
    AssistantMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    Wire,
)
from newel.agent.transform import COMPACTION
from newel.text.format import (
    SUBJECT,
    describe_routing,
    format_cost,
    format_size,
    one_line,
    short_number,
    usage_line,
)
from newel.text.json import as_dict, as_list, as_str, to_json
from newel.text.sanitize import escape_line, sanitize

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent
    from newel.tools.todo import TodoItem

TICK_S = 0.1
"""Seconds between two ticks of an animated renderer."""

COMPACTED = "The conversation was summarized to free context."


class Renderer:
    """Draws events. It knows nothing else: neither the agent nor the session."""

    animated = False
    """Whether ``tick`` is to be called."""

    def __init__(self) -> None:
        self._tracker = ToolCallTracker()

    def handle(self, event: e.AgentEvent, /) -> None:
        """Draw one event. Raises ``OSError`` if the reader has gone."""
        if outcome := self._tracker.track(event):
            self.on_call_end(outcome)
        self._dispatch(event)

    def note(self, text: str, code: str = "note", /) -> None:
        """Show a message of the program itself. It may hold foreign text and is made inert. ``code`` tells programs its topic.
        ``diff`` is text with unified diffs in it; lines of ``whole`` are never wrapped, so that they can be copied; ``answer`` is one line
        about an answer of the user.
        """
        raise NotImplementedError

    def show_prompt(self, message: UserMessage, /) -> None:
        """Show a prompt of the user that was sent earlier."""
        self.handle(MessageEnd(message=message))

    def tick(self) -> bool:
        """``TICK_S`` seconds have passed. False if there is more to do after other tasks, such as keys, had their turn."""
        return True

    def show_stopping(self) -> None:
        """What runs is being stopped, which can take a moment."""

    def paused(self) -> AbstractContextManager[None]:
        """Inside, the terminal may be used for a question."""
        return nullcontext()

    def close(self) -> None:
        """Leave the screen as the next program expects it. May be called twice."""

    def _dispatch(self, event: e.AgentEvent) -> None:
        match event:
            case e.AgentStart():
                self.on_run_start(event)
            case e.MessageStart(message=AssistantMessage() as message):
                self.on_answer_start(message)
            case e.MessageUpdate():
                self._dispatch_delta(event)
            case e.MessageEnd(message=AssistantMessage() as message):
                self.on_answer(message)
            case e.MessageEnd(message=UserMessage() as message):
                self.on_prompt(message)
            case e.MessageEnd(message=ToolResultMessage() as message):
                self.on_tool_result(message)
            case e.MessageEnd(message=CustomMessage(name=name)):
                if name == COMPACTION:
                    self.on_compaction()
            case e.ToolExecutionStart():
                self.on_tool_start(event)
            case e.ToolExecutionUpdate():
                self.on_tool_output(event)
            case e.ToolExecutionEnd():
                self.on_tool_end(event)
            case e.Retry():
                self.on_retry(event)
            case e.ModelRouted():
                self.on_notice(describe_routing(event))
            case e.ErrorEvent():
                {"error": self.on_error, "warning": self.on_warning, "info": self.on_notice}[event.level](
                    event.message
                )
            case e.AgentEnd():
                self.on_run_end(event)
            case (
                e.MessageStart()
                | e.MessageEnd()
                | e.TurnStart()
                | e.TurnEnd()
                | e.QueueUpdate()
                | e.StateUpdate()
                | e.Interrupted()
            ):
                pass
            case _:
                assert_never(event)

    def _dispatch_delta(self, event: e.MessageUpdate) -> None:
        match event.assistant_message_event:
            case e.TextDelta(delta=text):
                self.on_text(text)
            case e.ThinkingDelta(delta=text):
                self.on_thinking(text)
            case e.ToolCallDelta() as delta:
                self.on_call_delta(delta)

    # -- what a renderer overrides ------------------------------------------------------------------

    def on_run_start(self, event: e.AgentStart) -> None: ...

    def on_prompt(self, message: UserMessage) -> None: ...

    def on_answer_start(self, message: AssistantMessage) -> None:
        """The model was asked; ``message`` is still empty."""

    def on_text(self, text: str) -> None: ...

    def on_thinking(self, text: str) -> None: ...

    def on_call_delta(self, delta: e.ToolCallDelta) -> None: ...

    def on_answer(self, message: AssistantMessage) -> None:
        """The answer is complete; ``on_text`` had its pieces."""

    def on_tool_start(self, event: e.ToolExecutionStart) -> None: ...

    def on_tool_output(self, event: e.ToolExecutionUpdate) -> None: ...

    def on_tool_end(self, event: e.ToolExecutionEnd) -> None: ...

    def on_call_end(self, outcome: CallOutcome) -> None:
        """A tool call has an outcome, also one that was refused and never ran. Comes before ``on_tool_end``."""

    def on_tool_result(self, message: ToolResultMessage) -> None: ...

    def on_compaction(self) -> None: ...

    def on_retry(self, event: e.Retry) -> None: ...

    def on_notice(self, message: str) -> None:
        self.note(message)

    def on_warning(self, message: str) -> None:
        """Nothing failed, but the user should know."""
        self.on_error(message)

    def on_error(self, message: str) -> None: ...

    def on_run_end(self, event: e.AgentEnd) -> None: ...


class RunSummary:
    """Collects what the closing line of a run reports. ``window`` returns the size of the model's context in tokens."""

    def __init__(self, window: Callable[[], int | None]) -> None:
        self.started_at = ""
        self._window = window
        self._context = 0
        self._used = Usage()

    def start(self, event: e.AgentStart) -> None:
        self.started_at = event.timestamp
        self._used = Usage()

    def add(self, message: AssistantMessage) -> None:
        self._context = message.usage.total or self._context
        self._used += message.usage

    def tokens(self) -> str:
        """What the run has used so far."""
        return f"{short_number(self._used.total)} tokens" if self._used.total else ""

    def text(self, event: e.AgentEnd) -> str:
        milliseconds = None
        if self.started_at:
            elapsed = datetime.fromisoformat(event.timestamp) - datetime.fromisoformat(self.started_at)
            milliseconds = elapsed.total_seconds() * 1000
        return usage_line(
            event.usage, event.cost, context=self._context, window=self._window(), milliseconds=milliseconds
        )


class JsonRenderer(Renderer):
    """Writes each event as one line of JSON."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self.out = out

    def handle(self, event: e.Event, /) -> None:
        self.write(event)

    def write(self, message: Wire, /) -> None:
        """Write one line. Raises ``OSError`` if the reader has gone."""
        self.out.write(to_json(message) + b"\n")
        self.out.flush()

    def note(self, text: str, code: str = "note", /) -> None:
        self.handle(e.ErrorEvent(code=code, message=text, level="info"))

    def on_session(self, session: e.Event, /) -> None:
        self.handle(session)

    def on_result(self, result: e.Event, /) -> None:
        self.handle(result)

    def close(self) -> None:
        self.out.flush()


class DisplayFailed(NewelError):
    """A renderer has a defect."""


class RendererSubscription:
    """Passes an agent's events to a renderer until the renderer fails.

    An exception of a subscriber ends a run at once, and results of tools would be lost. So when the
    screen fails, ``stop`` is called to end the run in good order, nothing more is shown, and ``check``
    raises the failure afterwards.
    """

    def __init__(self, renderer: Renderer, stop: Callable[[], object]) -> None:
        self._renderer = renderer
        self._stop = stop
        self._failure: Exception | None = None

    def handle(self, event: e.AgentEvent) -> None:
        self.guard(lambda: self._renderer.handle(event))

    def guard(self, show: Callable[[], object]) -> None:
        """Show something else with the renderer, in the same way."""
        if self._failure is None:
            try:
                show()
            except Exception as error:  # noqa: BLE001 — raised by check, when the run has ended
                self._failure = error
                self._stop()

    def check(self) -> None:
        """Raises ``OSError`` if the reader has gone, ``DisplayFailed`` if the renderer failed in another way."""
        error = self._failure
        if isinstance(error, OSError):
            raise error
        if error is not None:
            raise DisplayFailed(
                f"The display failed, so the run was stopped: {type(error).__name__}: {error}. This is a defect in Newel. "
                "The conversation is saved: `newel --continue` resumes it."
            ) from error


def report_start(agent: CodingAgent, renderer: Renderer) -> None:
    """Show the damage found in the file of the agent's session, and what else the user should know at the start."""
    for notice in agent.start_notices:
        renderer.note(notice, "left_out")
    for finding in agent.session.damage:
        renderer.note(f"The session's file is damaged: {finding}", "session_damage")


async def animate(renderer: Renderer) -> None:
    """Tick until cancelled; returns at once for a renderer that is not animated."""
    while renderer.animated:
        await anyio.sleep(TICK_S)
        while not renderer.tick():
            await checkpoint()


# -- tool calls: followed through the events until each has an outcome to show ----------------------------

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
    those before them.
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
