"""The full screen: prose as it grows, tool calls as lines, and below them the current activity."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TextIO

from rich.cells import cell_len

from newel.agent import events as e
from newel.agent.messages import AssistantMessage, UserMessage
from newel.terminal.renderers import diff_styles, styles
from newel.terminal.renderers.base import COMPACTED, RunSummary
from newel.terminal.renderers.call_outcome import CallOutcome
from newel.terminal.renderers.live import LiveRenderer, MarkdownStream
from newel.terminal.renderers.screen import LiveScreen, Screen
from newel.terminal.renderers.styles import Styles
from newel.text.format import (
    ENDINGS,
    TOLD,
    describe_retry,
    format_duration,
    format_elapsed,
    one_line,
    short_number,
)
from newel.text.sanitize import SanitizedStream, sanitize

if TYPE_CHECKING:
    from rich.console import RenderableType

    from newel.config.themes import Theme
    from newel.terminal.renderers.todo_block import TodoBlock
    from newel.tools.todo import TodoItem

LIVE_CHARACTERS = 4_000
"""Characters of an unfinished block that are painted while it grows."""
OUTPUT_LINES = 3
"""Lines of a running command's output that are shown."""
TODO_LINES = 8
FEW_ROWS = 12
"""Rows of a window that has no room for a list above the line of state."""

Kind = Literal["nothing", "user", "text", "calls", "note", "question", "todo", "end"]


class RichRenderer(LiveRenderer):
    """``window`` returns the size of the model's context in tokens."""

    def __init__(
        self,
        screen: Screen,
        painter: Styles,
        *,
        hint: str = "Esc stops",
        window: Callable[[], int | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(screen, hint=hint, clock=clock)
        self.painter = painter
        self._summary = RunSummary(window)
        self._run_since = 0.0
        self._is_progress = False
        self._last: Kind = "nothing"
        self._running: dict[str, _RunningCall] = {}
        self._todo: TodoBlock | None = None
        self._answer = _StreamedAnswer()
        self._retry_reason: str = ""
        self._previewed: tuple[str, int, list[str]] = ("", 0, [])

    # -- printing -----------------------------------------------------------------------------------

    def note(self, text: str, code: str = "", /) -> None:
        if code == "diff":
            self._print("text", diff_styles.with_diff(text))
        elif code == "whole":
            self._print("note", styles.whole_lines(text))
        elif code == "question":
            self._print("question", diff_styles.with_diff(text, secondary="", wraps=True))
        elif code == "aside":
            width, _ = self.screen.size()
            self._print_dim("note", styles.truncate(sanitize(text), width))
        else:
            self._print("note", styles.Text(sanitize(text)))
        self._draw()

    def show_progress(self, activity: str) -> None:
        self._is_progress = bool(activity)
        super().show_progress(activity)

    def echo(self, text: str) -> None:
        self._print("user", styles.user_text(text))
        self._draw()

    def _print(self, kind: Kind, *lines: RenderableType) -> None:
        """Print lines for good; different kinds are separated by an empty line."""
        width, _ = self.screen.size()
        self._print_painted(kind, [self.painter.paint(line, width) for line in lines])

    def _print_painted(self, kind: Kind, lines: Iterable[str]) -> None:
        if self._last != "nothing" and (kind != self._last or kind in {"text", "question"}):
            self._above.append("")
        self._last = kind
        self._above += lines

    def _print_dim(self, kind: Kind, text: str) -> None:
        self._print(kind, styles.Text(text, style=styles.DIM))

    def _live(self) -> list[str]:
        columns, rows = self.screen.size()
        width = columns - 1
        room = max(rows // 2, 3)
        lines: list[str] = []
        growing = self._answer.text.preview(LIVE_CHARACTERS, room)
        if growing.strip():
            lines += self._preview(growing, width)[-room:]
        elif self._answer.thinking:
            thought = self.painter.paint(styles.Text(self._answer.thinking.strip(), style=styles.DIM), width)
            lines += thought.split("\n")[-OUTPUT_LINES:]
        for call in self._running.values():
            lines += [self.painter.paint(line, width) for line in call.lines(width)]
        todo = self._todo.live(width, min(room, TODO_LINES)) if self._todo and rows > FEW_ROWS else []
        lines = lines[-(rows - 4 - len(todo)) :] if rows > 5 else []
        lines += [self.painter.paint(line, width) for line in todo]
        if lines or self._last not in {"nothing", "calls"}:
            lines.insert(0, "")
        return [*lines, self.painter.paint(self._state_line(width), width)]

    def _preview(self, text: str, width: int) -> list[str]:
        """The unfinished block, painted again only when it has grown."""
        if self._previewed[:2] != (text, width):
            lines = list(self.painter.markdown(text, width, crop=True))
            self._previewed = (text, width, lines)
        return self._previewed[2]

    def _state_line(self, width: int) -> styles.Text:
        """The activity with its time and how to stop it; where there is room, also the time and tokens of the whole run."""
        mark, activity, rest = self._state()
        phase_s, run_s = self._clock() - self._activity_since, self._clock() - self._run_since
        run = format_elapsed(run_s).replace(" · ", " · run ") if int(run_s) > int(phase_s) else ""
        elapsed, stop = rest.removesuffix(f" · {self._hint}"), f" · {self._hint}"
        tokens = self._summary.tokens()
        if self._is_progress:  # of no run
            run = tokens = ""
        more = (elapsed + run + (f" · {tokens}" if tokens else ""), elapsed + run, elapsed, "")
        rest = next(
            (f"{one}{stop}" for one in more if cell_len(f"{mark}{activity}{one}{stop}") <= width), stop
        )
        line = styles.Text(no_wrap=True, overflow="ellipsis").append(mark, style=styles.ACCENT)
        return line.append(
            styles.truncate(activity, max(width - 2 - cell_len(rest), 0)) + rest, style=styles.DIM
        )

    # -- events -------------------------------------------------------------------------------------

    def on_run_start(self, event: e.AgentStart) -> None:
        self._summary.start(event)
        self._run_since = self._clock()
        self.set_activity("starting")

    def on_prompt(self, message: UserMessage) -> None:
        if message.is_notice:  # not words of the user
            self.note(" ".join([TOLD, *message.text.split()]), "aside")
            return
        self._print("user", styles.user_text(message.text))
        for attachment in message.attachments:
            self._print_dim("user", f"  + {one_line(attachment.file_name)}")

    def on_answer_start(self, message: AssistantMessage) -> None:
        self._answer, self._retry_reason = _StreamedAnswer(), ""
        super().on_answer_start(message)

    def on_text(self, text: str) -> None:
        self._end_thinking()
        self.set_activity("writing")
        self._print_blocks(self._answer.text.feed(text))

    def on_thinking(self, text: str) -> None:
        self.set_activity("thinking")
        self._answer.think(text, self._clock())

    def _end_thinking(self) -> None:
        """Leave a trace of the model's thoughts, whose text is in the transcript."""
        since, self._answer.thinking_since = self._answer.thinking_since, None
        if since is not None and self._answer.thinking.strip():
            self._print_dim("calls", f"Thought for {format_duration((self._clock() - since) * 1000)}")
            self._answer.thinking = ""

    def on_call_delta(self, delta: e.ToolCallDelta) -> None:
        self._end_thinking()
        answer = self._answer
        if delta.name:
            answer.call, answer.call_size = one_line(delta.name, 40), 0
        answer.call_size += len(delta.delta)
        self._activity = f"writing a call to {answer.call} ({short_number(answer.call_size)} characters)"

    def on_answer(self, message: AssistantMessage) -> None:
        self._end_thinking()
        self._print_blocks(self._answer.text.finish())
        self._answer = _StreamedAnswer()
        self._summary.add(message)
        self.set_activity("working")

    def _print_blocks(self, blocks: list[str]) -> None:
        width, _ = self.screen.size()
        for block in blocks:
            self._print_painted("text", self.painter.markdown(block, width))
            self._answer.text.is_printed = True

    def on_tool_start(self, event: e.ToolExecutionStart) -> None:
        self._running[event.tool_call_id] = _RunningCall(event.tool_name, event.args)
        self.set_activity(one_line(event.tool_name, 40))

    def on_tool_output(self, event: e.ToolExecutionUpdate) -> None:
        if call := self._running.get(event.tool_call_id):
            call.add(event.delta)

    def on_call_end(self, outcome: CallOutcome) -> None:
        width, _ = self.screen.size()
        self._running.pop(outcome.call_id, None)
        if outcome.name == "todo" and not outcome.failed:
            self._show_todo(outcome.todo)
            return
        lines = styles.call_lines(outcome, width)
        if outcome.failed:
            for line in outcome.tail:
                lines += styles.failure_lines(line, width)
        else:
            lines += diff_styles.diff_block(outcome.diff, min(width, styles.MAX_WIDTH))
        lines += [styles.output_line(line, width) for line in outcome.changes]
        self._print("calls", *lines)

    def _show_todo(self, items: Sequence[TodoItem]) -> None:
        from newel.terminal.renderers.todo_block import TodoBlock

        self._todo = self._todo or TodoBlock()
        self._todo.set(items)

    def on_tool_end(self, event: e.ToolExecutionEnd) -> None:  # noqa: ARG002 — the base's signature
        if not self._running:
            self.set_activity("working")

    def on_compaction(self) -> None:
        self._print_dim("note", COMPACTED)

    def on_retry(self, event: e.Retry) -> None:
        """A repeated failure only updates the line of state: an overload can last for minutes."""
        is_void = self._answer.text.is_printed
        if is_void or event.reason != self._retry_reason:
            self._print_dim("note", describe_retry(event, void=is_void))
        self._answer, self._retry_reason = _StreamedAnswer(), event.reason
        self.set_activity(
            f"waiting {short_number(event.delay)} s to try again ({event.attempt} of {event.max_attempts})"
        )

    def on_warning(self, message: str) -> None:
        self._print("note", styles.Text().append("Warning: ", style=styles.ERROR).append(sanitize(message)))

    def on_error(self, message: str) -> None:
        self._print("note", styles.Text().append("Error: ", style=styles.ERROR).append(sanitize(message)))

    def on_run_end(self, event: e.AgentEnd) -> None:
        self._activity = ""
        self._running.clear()
        if self._todo and (lines := self._todo.final(self.screen.size()[0])):
            self._print("todo", *lines)
        if event.reason not in {"done", "error"}:
            self._print("note", styles.Text(sanitize(event.message) or ENDINGS.get(event.reason, "")))
        self._print_dim("end", self._summary.text(event))


def on_terminal(
    out: TextIO, *, theme: Theme | None = None, window: Callable[[], int | None] = lambda: None
) -> RichRenderer:
    """The renderer for a run without a prompt to type at."""
    return RichRenderer(LiveScreen(out), Styles(theme=theme), hint="Ctrl+C stops", window=window)


class _StreamedAnswer:
    """An answer while it is being written."""

    def __init__(self) -> None:
        self.text = MarkdownStream()
        self.thinking = ""
        self.thinking_since: float | None = None
        """Set while the model thinks."""
        self.call = ""
        self.call_size = 0
        self._thoughts = SanitizedStream()

    def think(self, piece: str, now: float) -> None:
        if self.thinking_since is None:
            self.thinking_since = now
        self.thinking = (self.thinking + self._thoughts.feed(piece))[-LIVE_CHARACTERS // 4 :]


class _RunningCall:
    """A running call and the end of its output."""

    def __init__(self, name: str, args: dict[str, Any]) -> None:
        self.name = name
        self.args = args
        self._stream = SanitizedStream()
        self._lines: deque[str] = deque(maxlen=OUTPUT_LINES + 1)
        self._lines.append("")

    def add(self, piece: str) -> None:
        first, *more = self._stream.feed(piece).split("\n")
        self._lines[-1] = (self._lines[-1] + first)[-500:]
        self._lines.extend(line[-500:] for line in more)

    def lines(self, width: int) -> list[styles.Text]:
        last_lines = [line for line in self._lines if line.strip()][-OUTPUT_LINES:]
        return [
            *styles.running_lines(self.name, self.args, width),
            *(styles.output_line(line, width) for line in last_lines),
        ]
