"""The full screen for a person: prose as it grows, tools as lines, and below what is going on now.

What is finished is printed once, into the terminal's own scroll-back, and never touched again. Only the
last block of an answer, the calls that run and one line of state are live.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TextIO, assert_never

from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    Delta,
    ErrorEvent,
    Interrupted,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    Retry,
    StateUpdate,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from newel.agent.messages import AppMessage, AssistantMessage, CustomMessage, ToolResultMessage, UserMessage
from newel.agent.transform import COMPACTION
from newel.terminal.renderers import styles
from newel.terminal.renderers.console import milliseconds_between
from newel.terminal.renderers.markdown_blocks import MarkdownBlocks
from newel.terminal.renderers.screen import LiveScreen, Screen
from newel.terminal.renderers.styles import Styles
from newel.terminal.renderers.tool_calls import CallOutcome, ToolCallTracker
from newel.text.format import (
    ENDINGS,
    describe_retry,
    format_elapsed,
    one_line,
    short_number,
    spinner,
    usage_line,
)
from newel.text.sanitize import SanitizedStream, sanitize

if TYPE_CHECKING:
    from rich.console import RenderableType

LIVE_TEXT = 4_000
"""Characters of an unfinished block that are painted while it grows."""
OUTPUT_LINES = 3
"""Lines of a running command's output that are shown."""

Kind = Literal["nothing", "user", "text", "calls", "note", "end"]


class RichRenderer:
    """Draws on ``screen``. ``hint`` says how to stop; ``window`` tells the size of the model's context in
    tokens; ``clock`` counts seconds.
    """

    animated = True

    def __init__(
        self,
        screen: Screen,
        painter: Styles,
        *,
        hint: str = "Esc stops",
        window: Callable[[], int | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.screen = screen
        self.painter = painter
        self.hint = hint
        self.window = window
        self.clock = clock
        self._above: list[str] = []
        self._last: Kind = "nothing"
        self._calls = ToolCallTracker()
        self._began = ""
        self._context = 0
        self._doing = ""
        self._since = 0.0
        self._frame = 0
        self._running: dict[str, _Running] = {}
        self._answer = _StreamedAnswer()
        self._retried: str = ""
        self._previewed: tuple[str, int, list[str]] = ("", 0, [])

    # -- the screen ---------------------------------------------------------------------------------

    def handle(self, event: AgentEvent) -> None:
        if outcome := self._calls.see(event):
            self._finish_call(outcome)
        self._take(event)
        if not isinstance(event, MessageUpdate | ToolExecutionUpdate) or self._above:
            self._draw()

    def note(self, text: str, code: str = "", /) -> None:
        if code == "diff":
            self._print("text", styles.with_diff(text))
        elif code == "whole":
            self._print("note", styles.whole_lines(text))
        else:
            self._print("note", styles.Text(sanitize(text)))
        self._draw()

    def echo(self, text: str) -> None:
        """Show what a person sent that is no message to the model."""
        self._print("user", styles.said_by_user(text))
        self._draw()

    def tick(self) -> None:
        self._frame += 1
        if self._doing:
            self._draw()

    def paused(self) -> AbstractContextManager[None]:
        return self.screen.paused()

    def close(self) -> None:
        self._doing = ""
        self._draw()

    def _draw(self) -> None:
        above = "".join(f"{text}\n" for text in self._above)
        self._above.clear()
        self.screen.draw(above, self._live() if self._doing else [])

    def _print(self, kind: Kind, *lines: RenderableType) -> None:
        """Print for good; different kinds of things stand apart by an empty line."""
        width, _ = self.screen.size()
        self._print_painted(kind, *(self.painter.paint(line, width) for line in lines))

    def _print_painted(self, kind: Kind, *lines: str) -> None:
        if self._last != "nothing" and (kind != self._last or kind == "text"):
            self._above.append("")
        self._last = kind
        self._above += lines

    def _live(self) -> list[str]:
        columns, rows = self.screen.size()
        width = columns - 1
        room = max(rows // 3, 3)
        lines: list[str] = []
        growing = self._answer.text.preview(LIVE_TEXT)
        if growing.strip():
            lines += self._preview(growing, width)[-room:]
        elif self._answer.thinking:
            thought = self.painter.paint(styles.Text(self._answer.thinking.strip(), style=styles.DIM), width)
            lines += thought.split("\n")[-OUTPUT_LINES:]
        for call in self._running.values():
            lines += [self.painter.paint(line, width) for line in call.lines(width)]
        lines = lines[-(rows - 4) :] if rows > 5 else []
        if lines or self._last not in {"nothing", "calls"}:
            lines.insert(0, "")
        return [*lines, self.painter.paint(self._status(width), width)]

    def _preview(self, text: str, width: int) -> list[str]:
        """The unfinished block, painted again only when it has grown."""
        if self._previewed[:2] != (text, width):
            lines = self.painter.markdown(text, width, crop=True).split("\n")
            self._previewed = (text, width, lines)
        return self._previewed[2]

    def _status(self, width: int) -> styles.Text:
        line = styles.Text(no_wrap=True, overflow="ellipsis").append(
            f"{spinner(self._frame)} ", style=styles.ACCENT
        )
        rest = f"{format_elapsed(self.clock() - self._since)} · {self.hint}"
        return line.append(styles.fit(self._doing, max(width - 2 - len(rest), 8)) + rest, style=styles.DIM)

    # -- events -------------------------------------------------------------------------------------

    def _take(self, event: AgentEvent) -> None:
        match event:
            case AgentStart():
                self._began = event.timestamp
                self._do("starting")
            case MessageStart():
                if isinstance(event.message, AssistantMessage):
                    self._answer, self._retried = _StreamedAnswer(), ""
                    self._do(f"waiting for {one_line(event.message.model, 40) or 'the model'}")
            case MessageUpdate():
                self._grow(event.assistant_message_event)
            case MessageEnd():
                self._complete(event.message)
            case ToolExecutionStart():
                self._running[event.tool_call_id] = _Running(event.tool_name, event.args)
                self._do(one_line(event.tool_name, 40))
            case ToolExecutionUpdate():
                if call := self._running.get(event.tool_call_id):
                    call.add(event.delta)
            case Retry():
                self._retry(event)
            case ErrorEvent() if event.is_notice:
                self.note(event.message)
            case ErrorEvent():
                self._print(
                    "note", styles.Text().append("Error: ", style=styles.BAD).append(sanitize(event.message))
                )
            case AgentEnd():
                self._end(event)
            case ToolExecutionEnd():
                if not self._running:
                    self._do("going on")
            case TurnStart() | TurnEnd() | QueueUpdate() | StateUpdate() | Interrupted():
                pass
            case _:
                assert_never(event)

    def _do(self, what: str) -> None:
        if what != self._doing:
            self._doing, self._since = what, self.clock()

    def _grow(self, delta: Delta) -> None:
        answer = self._answer
        match delta:
            case TextDelta():
                self._do("writing")
                self._print_blocks(answer.text.feed(answer.stream.feed(delta.delta)))
            case ThinkingDelta():
                self._do("thinking")
                answer.think(delta.delta)
            case ToolCallDelta():
                if delta.name:
                    answer.call, answer.call_size = one_line(delta.name, 40), 0
                answer.call_size += len(delta.delta)
                self._doing = f"writing a call to {answer.call} ({short_number(answer.call_size)} characters)"
            case _:
                assert_never(delta)

    def _print_blocks(self, blocks: list[str]) -> None:
        width, _ = self.screen.size()
        for block in blocks:
            self._print_painted("text", self.painter.markdown(block, width))
            self._answer.printed = True

    def _complete(self, message: AppMessage) -> None:
        match message:
            case AssistantMessage():
                answer = self._answer
                self._print_blocks(answer.text.feed(answer.stream.finish()) + answer.text.finish())
                self._answer = _StreamedAnswer()
                self._context = message.usage.total or self._context
                self._do("going on")
            case UserMessage():
                self._print("user", styles.said_by_user(message.text))
                for attachment in message.attachments:
                    self._print(
                        "user", styles.Text(f"  + {one_line(attachment.file_name)}", style=styles.DIM)
                    )
            case CustomMessage():
                if message.name == COMPACTION:
                    words = "The conversation was summarised to free context."
                    self._print("note", styles.Text(words, style=styles.DIM))
            case ToolResultMessage():
                pass
            case _:
                assert_never(message)

    def _finish_call(self, outcome: CallOutcome) -> None:
        width, _ = self.screen.size()
        self._running.pop(outcome.call_id, None)
        lines = styles.call_lines(outcome, width)
        if outcome.failed:
            for line in outcome.tail:
                lines += styles.failure_lines(line, width)
        else:
            lines += styles.diff_block(outcome.diff, min(width, styles.MAX_WIDTH))
        self._print("calls", *lines)

    def _retry(self, event: Retry) -> None:
        """A failure like the one before is only counted, in the line of state: an overload can last for minutes."""
        if self._answer.printed or event.reason != self._retried:
            self._print(
                "note", styles.Text(describe_retry(event, void=self._answer.printed), style=styles.DIM)
            )
        self._answer, self._retried = _StreamedAnswer(), event.reason
        again = f"({event.attempt} of {event.max_attempts})"
        self._do(f"waiting {short_number(event.delay)} s to try again {again}")

    def _end(self, event: AgentEnd) -> None:
        self._doing = ""
        self._running.clear()
        if event.reason not in {"done", "error"}:
            self._print("note", styles.Text(sanitize(event.message) or ENDINGS.get(event.reason, "")))
        summary = usage_line(
            event.usage,
            event.cost,
            context=self._context,
            window=self.window(),
            milliseconds=milliseconds_between(self._began, event.timestamp),
        )
        self._print("end", styles.Text(summary, style=styles.DIM))


def on_terminal(out: TextIO, *, window: Callable[[], int | None] = lambda: None) -> RichRenderer:
    """The renderer for a run whose terminal nobody types at."""
    return RichRenderer(LiveScreen(out), Styles(), hint="Ctrl+C stops", window=window)


class _StreamedAnswer:
    """A response while it is being written."""

    def __init__(self) -> None:
        self.stream = SanitizedStream()
        self.text = MarkdownBlocks()
        self.thinking = ""
        self.call = ""
        self.call_size = 0
        self.printed = False
        self._thoughts = SanitizedStream()

    def think(self, piece: str) -> None:
        self.thinking = (self.thinking + self._thoughts.feed(piece))[-LIVE_TEXT // 4 :]


class _Running:
    """A call that runs, and the last of what it has printed."""

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
        said = [line for line in self._lines if line.strip()][-OUTPUT_LINES:]
        return [
            *styles.running_lines(self.name, self.args, width),
            *(styles.output_line(line, width) for line in said),
        ]
