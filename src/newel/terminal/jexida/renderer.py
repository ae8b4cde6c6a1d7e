"""What happens, as panels: the prompt, the answer, the plan, what a command prints, how things stand."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import assert_never

from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
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
from newel.agent.messages import (
    INTERRUPTED,
    AppMessage,
    AssistantMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.terminal.jexida.panel_style import PanelStyle, Tone
from newel.terminal.jexida.shell_tool import errors_apart
from newel.terminal.jexida.status import StatusLine
from newel.terminal.jexida.streaming_panel import StreamingAnswer, StreamingOutput
from newel.terminal.renderers.screen import Screen
from newel.text.format import (
    ENDINGS,
    PROMPT,
    describe_retry,
    format_duration,
    format_elapsed,
    one_line,
    spinner,
)
from newel.text.sanitize import escape_invisible, escape_line, sanitize
from newel.workspace.port import Completed


class PanelRenderer:
    """Draws on ``screen``. Nothing that is printed is taken back; below it, what still grows and a line of state are live
    where the screen is ``animated``. ``host`` is its name for people.
    """

    def __init__(
        self,
        screen: Screen,
        dress: PanelStyle,
        *,
        host: Callable[[], str],
        animated: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.animated = animated
        self._screen = screen
        self._dress = dress
        self._host = host
        self._clock = clock
        self._above: list[str] = []
        self._printed = False
        self._answer: StreamingAnswer | None = None
        self._output: StreamingOutput | None = None
        self._running = ""
        self._doing = ""
        self._since = 0.0
        self._frame = 0

    # -- the screen ---------------------------------------------------------------------------------

    def handle(self, event: AgentEvent) -> None:
        self._take(event)
        if self._above or not isinstance(event, MessageUpdate | ToolExecutionUpdate):
            self._draw()

    def note(self, text: str, code: str = "", /) -> None:
        tone: Tone = "bad" if text.startswith("Error") else "plain"
        self._say(escape_invisible(text) if code == "diff" else text, tone)
        self._draw()

    def echo(self, text: str) -> None:
        self._say(f"{PROMPT} {text}", "strong")
        self._draw()

    def status(self, status: StatusLine) -> None:
        self._panel("STATUS", status.lines())
        self._draw()

    def begin_anew(self) -> None:
        """The screen is empty."""
        self._printed = False

    def tick(self) -> None:
        self._frame += 1
        if self._doing:
            self._draw()

    def paused(self) -> AbstractContextManager[None]:
        return self._screen.paused()

    def close(self) -> None:
        self._end_answer()
        self._doing = ""
        self._draw()

    def do(self, what: str) -> None:
        """What goes on from now on, in inert words; nothing does if there are none."""
        if what != self._doing:
            self._doing, self._since = what, self._clock()

    # -- a person's own command ---------------------------------------------------------------------

    def begin(self, command: str) -> None:
        """A REMOTE COMMAND runs from now on; ``add`` and ``finish`` are about it."""
        self._begin("REMOTE COMMAND", command)
        self._draw()

    def add(self, piece: str) -> None:
        """Something that it printed."""
        self._grow_output(piece)
        self._draw()

    def finish(self, done: Completed | None) -> None:
        """It ended, or with None: was not seen to its end."""
        if done is None:
            self._finish("did not run to its end", "warn")
        else:
            self._ended(done.exit_code, done.duration, errors_apart(done))
        self.do("")
        self._draw()

    # -- events -------------------------------------------------------------------------------------

    def _take(self, event: AgentEvent) -> None:
        match event:
            case MessageStart():
                if isinstance(event.message, AssistantMessage):
                    self.do(f"waiting for {one_line(event.message.model, 40) or 'the model'}")
            case MessageUpdate():
                self._grow(event.assistant_message_event)
            case MessageEnd():
                self._complete(event.message)
            case ToolExecutionStart():
                self._running = event.tool_call_id
                self._begin("COMMAND OUTPUT", "")
            case ToolExecutionUpdate():
                self._grow_output(event.delta)
            case ToolExecutionEnd():
                self._end_call(event)
            case Retry():
                self._end_answer()
                self._say(describe_retry(event, void=self._answer is not None), "dim")
                self.do("waiting to try again")
            case ErrorEvent() if event.is_notice:
                self._say(event.message, "dim")
            case ErrorEvent():
                self._end_answer()
                self._say(f"Error: {event.message}", "bad")
            case AgentEnd():
                self._end_answer()
                self.do("")
                if event.reason not in {"done", "stopped", "error"}:
                    self._say(event.message or ENDINGS.get(event.reason, ""), "warn")
            case AgentStart() | TurnStart() | TurnEnd() | QueueUpdate() | StateUpdate() | Interrupted():
                pass
            case _:
                assert_never(event)

    def _grow(self, delta: TextDelta | ThinkingDelta | ToolCallDelta) -> None:
        match delta:
            case TextDelta():
                if self._answer is None:
                    self._answer = StreamingAnswer(self._dress)
                    self._open("AGENT RESPONSE")
                self.do("writing")
                self._above += self._answer.feed(delta.delta, self._width())
            case ThinkingDelta():
                self.do("thinking")
            case ToolCallDelta():
                pass
            case _:
                assert_never(delta)

    def _complete(self, message: AppMessage) -> None:
        match message:
            case UserMessage():
                self._panel("PROMPT", [(sanitize(message.text).strip(), "plain")])
            case AssistantMessage():
                self._complete_answer(message)
                for call in message.tool_calls:
                    self._plan(call)
            case ToolResultMessage() if message.tool_call_id == self._running:
                self._running = ""
            case ToolResultMessage():
                self._say(message.output, "warn")
            case _:
                pass

    def _complete_answer(self, message: AssistantMessage) -> None:
        shown = self._answer.said if self._answer else ""
        if self._answer and not message.text.startswith(shown):
            self._end_answer("unfinished")  # the whole reply means something else than it seemed to
        rest = message.text.removeprefix(shown)
        if rest and (self._answer or rest.strip()):
            self._grow(TextDelta(rest))
        self._end_answer("" if message.stop_reason != "length" else "cut off at the model's limit")
        if not message.content and message.stop_reason == "stop":
            self._say("The model said nothing. Ask again, or ask in other words.", "warn")

    def _plan(self, call: ToolCall) -> None:
        command, reason = (str(call.arguments.get(name, "")) for name in ("command", "reason"))
        lines: list[tuple[str, Tone]] = [(_prompted(escape_invisible(command)), "strong")]
        if reason.strip():
            lines.append(("\n" + escape_invisible(reason).strip(), "plain"))
        self._panel("PLAN", lines, f"on {escape_line(self._host())}")

    def _end_call(self, event: ToolExecutionEnd) -> None:
        code = event.details.get("exitCode")
        if isinstance(code, int):
            self._ended(code, event.duration, str(event.details.get("errors", "")))
        else:
            self._finish("did not run to its end", "warn")
            if not event.result.startswith(INTERRUPTED):  # who stopped it knows
                self._say(f"Error: {event.result}", "bad")

    # -- what a command prints ----------------------------------------------------------------------

    def _begin(self, title: str, command: str) -> None:
        self._open(title)
        self._output = StreamingOutput()
        if command:
            self._above += self._dress.lines(_prompted(escape_invisible(command)), self._width(), "strong")
        self.do(f"running on {one_line(self._host(), 60)}")

    def _grow_output(self, piece: str) -> None:
        if self._output is not None and (text := self._output.feed(piece)) is not None:
            self._above += self._dress.lines(text, self._width())

    def _ended(self, code: int, milliseconds: int, errors: str) -> None:
        self._finish(f"exit code {code} · {format_duration(milliseconds)}", "bad" if code else "good", errors)

    def _finish(self, note: str, tone: Tone, errors: str = "") -> None:
        output, self._output = self._output, None
        if output is None:
            return
        width = self._width()
        if rest := output.finish():
            self._above += self._dress.lines(rest, width)
        if errors and not output.ends_with(errors):
            self._above += self._dress.lines("stderr:", width, "dim")
            self._above += self._dress.lines(sanitize(errors), width, "bad")
        elif not output.has_printed:
            self._above += self._dress.lines("(no output)", width, "dim")
        self._above += self._dress.bottom(note, width, tone)

    # -- lines --------------------------------------------------------------------------------------

    def _open(self, title: str) -> None:
        if self._printed:
            self._above.append("")
        self._printed = True
        self._above += self._dress.top(title, self._width())

    def _panel(self, title: str, lines: list[tuple[str, Tone]], note: str = "") -> None:
        self._open(title)
        for text, tone in lines:
            self._above += self._dress.lines(text, self._width(), tone)
        self._above += self._dress.bottom(note, self._width())

    def _say(self, text: str, tone: Tone) -> None:
        """Words between panels, or in the one that a command's output stands in."""
        words, width = sanitize(text).rstrip("\n"), self._width()
        if self._output is not None:
            self._above += self._dress.lines(words, width, tone)
            return
        if self._printed:
            self._above.append("")
        self._printed = True
        self._above += self._dress.bare(words, width, tone)

    def _end_answer(self, note: str = "") -> None:
        if self._answer is not None:
            self._above += [*self._answer.finish(self._width()), *self._dress.bottom(note, self._width())]
            self._answer = None

    def _width(self) -> int:
        return self._screen.size()[0]

    def _draw(self) -> None:
        above = "".join(f"{line}\n" for line in self._above)
        self._above.clear()
        self._screen.draw(above, self._live() if self._doing and self.animated else [])

    def _live(self) -> list[str]:
        """What still grows, and what goes on."""
        columns, rows = self._screen.size()
        lines: list[str] = []
        if self._answer is not None:
            lines = self._answer.growing(columns - 1)
        elif self._output is not None and (text := self._output.growing()):
            lines = self._dress.lines(text, columns - 1)
        elapsed = format_elapsed(self._clock() - self._since)
        words = f"{spinner(self._frame)} {self._doing}{elapsed} · Esc stops"
        room = max(rows // 2 - 2, 1)
        inside = self._answer is not None or self._output is not None
        spaced = lines[-room:] if inside else [""]
        return [*spaced, *self._dress.bare(words[: columns - 1], columns, "dim")[:1]]


def _prompted(command: str) -> str:
    return "$ " + command.replace("\n", "\n  ")
