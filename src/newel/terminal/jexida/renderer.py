"""The screens of ``jexida``: events as panels, drawn line by line so that one can grow while its content arrives."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

from newel.agent import events as e
from newel.agent.messages import INTERRUPTED, AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from newel.terminal.jexida.shell_tool import errors_apart
from newel.terminal.renderers.live import LiveRenderer, MarkdownStream
from newel.terminal.renderers.screen import Screen
from newel.text.format import ENDINGS, PROMPT, describe_retry, format_duration, one_line
from newel.text.sanitize import SanitizedStream, escape_invisible, escape_line, sanitize
from newel.workspace.port import CommandResult

Tone = Literal["plain", "strong", "dim", "good", "bad", "warn"]
"""``good``, ``bad`` and ``warn`` colour an outcome that the words state too."""

LIVE_CHARACTERS: Final = 4_000
"""Characters of an unfinished part that are drawn."""
LONGEST_LINE: Final = 10_000
"""Characters of an unfinished line of output that are kept back."""


class PanelStyle:
    """Plain panels, for pipes and simple terminals: titles in brackets, text unframed.

    Methods return the lines to print. All text is inert; ``width`` is the screen's, in columns.
    """

    def top(self, title: str, width: int) -> list[str]:  # noqa: ARG002 — for panels with a frame
        return [f"[{title}]"]

    def lines(self, text: str, width: int, tone: Tone = "plain") -> list[str]:  # noqa: ARG002 — as above
        """Text inside a panel, with its own line breaks."""
        return text.split("\n")

    def prose(self, markdown: str, width: int) -> list[str]:  # noqa: ARG002 — as above
        """Markdown inside a panel."""
        return markdown.strip("\n").split("\n")

    def bottom(self, note: str, width: int, tone: Tone = "dim") -> list[str]:  # noqa: ARG002 — as above
        """The end of a panel, with a note on its content."""
        return [f"[{note}]"] if note else []

    def bare(self, text: str, width: int, tone: Tone = "plain") -> list[str]:  # noqa: ARG002 — as above
        """Text outside of panels."""
        return text.split("\n")


class PanelRenderer(LiveRenderer):
    """Draws panels in a ``style``; unfinished parts are live where the screen is ``animated``. ``host`` returns its name."""

    def __init__(
        self,
        screen: Screen,
        style: PanelStyle,
        *,
        host: Callable[[], str],
        animated: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(screen, clock=clock)
        self.animated = animated
        self._style = style
        self._host = host
        self._has_printed = False
        self._answer: MarkdownStream | None = None
        self._answer_text = ""
        self._output: _StreamedOutput | None = None
        self._running_call = ""

    def note(self, text: str, code: str = "", /) -> None:
        self._print_text(
            escape_invisible(text) if code == "diff" else text, "bad" if text.startswith("Error") else "plain"
        )
        self._draw()

    def echo(self, text: str) -> None:
        self._print_text(f"{PROMPT} {text}", "strong")
        self._draw()

    def show_status(self, lines: Sequence[tuple[str, Tone]]) -> None:
        self._panel("STATUS", lines)
        self._draw()

    def reset(self) -> None:
        self._has_printed = False

    def close(self) -> None:
        self._end_answer()
        super().close()

    # -- the user's own command ---------------------------------------------------------------------

    def start_command(self, command: str) -> None:
        self._start_output("REMOTE COMMAND", command)
        self._draw()

    def add_output(self, piece: str) -> None:
        self._grow_output(piece)
        self._draw()

    def end_command(self, done: CommandResult | None) -> None:
        """The command has ended; None if its end was not seen."""
        if done is None:
            self._end_output(None)
        else:
            self._end_output(done.exit_code, done.duration, errors_apart(done))
        self.set_activity("")
        self._draw()

    # -- events -------------------------------------------------------------------------------------

    def on_prompt(self, message: UserMessage) -> None:
        self._panel("PROMPT", [(sanitize(message.text).strip(), "plain")])

    def on_text(self, text: str) -> None:
        if self._answer is None:
            self._answer, self._answer_text = MarkdownStream(), ""
            self._open("AGENT RESPONSE")
        self.set_activity("writing")
        self._answer_text += text
        self._print_blocks(self._answer, self._answer.feed(text))

    def on_thinking(self, text: str) -> None:  # noqa: ARG002 — only that it thinks is shown
        self.set_activity("thinking")

    def on_answer(self, message: AssistantMessage) -> None:
        if self._answer and not message.text.startswith(self._answer_text):
            self._end_answer("unfinished")  # the complete reply means something else than it seemed to
        rest = message.text.removeprefix(self._answer_text if self._answer else "")
        if rest and (self._answer or rest.strip()):
            self.on_text(rest)
        self._end_answer("" if message.stop_reason != "length" else "cut off at the model's limit")
        if not message.content and message.stop_reason == "stop":
            self._print_text("The model returned an empty answer. Try again, or rephrase the prompt.", "warn")
        for call in message.tool_calls:
            self._show_plan(call)

    def on_tool_start(self, event: e.ToolExecutionStart) -> None:
        self._running_call = event.tool_call_id
        self._start_output("COMMAND OUTPUT", "")

    def on_tool_output(self, event: e.ToolExecutionUpdate) -> None:
        self._grow_output(event.delta)

    def on_tool_end(self, event: e.ToolExecutionEnd) -> None:
        code = event.details.get("exitCode")
        if isinstance(code, int):
            self._end_output(code, event.duration, str(event.details.get("errors", "")))
        else:
            self._end_output(None)
            if not event.result.startswith(INTERRUPTED):  # the user who stopped it knows
                self._print_text(f"Error: {event.result}", "bad")

    def on_tool_result(self, message: ToolResultMessage) -> None:
        if message.tool_call_id != self._running_call:
            self._print_text(message.output, "warn")
        self._running_call = ""

    def on_retry(self, event: e.Retry) -> None:
        is_void = self._answer is not None
        self._end_answer()
        self._print_text(describe_retry(event, void=is_void), "dim")
        self.set_activity("waiting to try again")

    def on_notice(self, message: str) -> None:
        self._print_text(message, "dim")

    def on_error(self, message: str) -> None:
        self._end_answer()
        self._print_text(f"Error: {message}", "bad")

    def on_run_end(self, event: e.AgentEnd) -> None:
        self._end_answer()
        self.set_activity("")
        if event.reason not in {"done", "stopped", "error"}:
            self._print_text(event.message or ENDINGS.get(event.reason, ""), "warn")

    # -- panels -------------------------------------------------------------------------------------

    def _show_plan(self, call: ToolCall) -> None:
        command, reason = (str(call.arguments.get(name, "")) for name in ("command", "reason"))
        lines: list[tuple[str, Tone]] = [(_command_line(command), "strong")]
        if reason.strip():
            lines.append(("\n" + escape_invisible(reason).strip(), "plain"))
        self._panel("PLAN", lines, f"on {escape_line(self._host())}")

    def _print_blocks(self, answer: MarkdownStream, blocks: list[str]) -> None:
        for block in blocks:
            if answer.is_printed:
                self._above += self._style.lines("", self._width())
            self._above += self._style.prose(block, self._width())
            answer.is_printed = True

    def _end_answer(self, note: str = "") -> None:
        if self._answer is not None:
            self._print_blocks(self._answer, self._answer.finish())
            self._above += self._style.bottom(note, self._width())
            self._answer = None

    def _start_output(self, title: str, command: str) -> None:
        self._open(title)
        self._output = _StreamedOutput()
        if command:
            self._above += self._style.lines(_command_line(command), self._width(), "strong")
        self.set_activity(f"running on {one_line(self._host(), 60)}")

    def _grow_output(self, piece: str) -> None:
        if self._output is not None and (text := self._output.feed(piece)) is not None:
            self._above += self._style.lines(text, self._width())

    def _end_output(self, code: int | None, milliseconds: int = 0, errors: str = "") -> None:
        """Close the panel of a command; ``code`` is None if the command did not end by itself."""
        output, self._output = self._output, None
        if output is None:
            return
        width = self._width()
        if rest := output.finish():
            self._above += self._style.lines(rest, width)
        if errors and not output.ends_with(errors):
            self._above += self._style.lines("stderr:", width, "dim")
            self._above += self._style.lines(sanitize(errors), width, "bad")
        elif not output.has_printed:
            self._above += self._style.lines("(no output)", width, "dim")
        if code is None:
            self._above += self._style.bottom("did not finish", width, "warn")
        else:
            note = f"exit code {code} · {format_duration(milliseconds)}"
            self._above += self._style.bottom(note, width, "bad" if code else "good")

    def _separate(self) -> None:
        if self._has_printed:
            self._above.append("")
        self._has_printed = True

    def _open(self, title: str) -> None:
        self._separate()
        self._above += self._style.top(title, self._width())

    def _panel(self, title: str, lines: Sequence[tuple[str, Tone]], note: str = "") -> None:
        self._open(title)
        for text, tone in lines:
            self._above += self._style.lines(text, self._width(), tone)
        self._above += self._style.bottom(note, self._width())

    def _print_text(self, text: str, tone: Tone) -> None:
        """Print text between panels, or inside the one of a running command."""
        text = sanitize(text).rstrip("\n")
        if self._output is not None:
            self._above += self._style.lines(text, self._width(), tone)
        else:
            self._separate()
            self._above += self._style.bare(text, self._width(), tone)

    def _width(self) -> int:
        return self.screen.size()[0]

    def _live(self) -> list[str]:
        columns, rows = self.screen.size()
        lines: list[str] = []
        if self._answer is not None:
            if (text := self._answer.preview(LIVE_CHARACTERS, rows)).strip():
                lines = self._style.prose(text, columns - 1)
        elif self._output is not None and (text := self._output.unfinished_line()):
            lines = self._style.lines(text, columns - 1)
        is_inside = self._answer is not None or self._output is not None
        state = "".join(self._state())[: columns - 1]
        lines = lines[-max(rows // 2 - 2, 1) :] if is_inside else [""]
        return [*lines, *self._style.bare(state, columns, "dim")[:1]]


class _StreamedOutput:
    """The output of a command, in whole lines."""

    def __init__(self) -> None:
        self.has_printed = False
        self._stream = SanitizedStream()
        self._rest = ""
        self._last = ""

    def feed(self, piece: str) -> str | None:
        """The lines completed by this piece, without the last line's end; None if there are none."""
        text = self._rest + self._stream.feed(piece)
        self.has_printed = self.has_printed or bool(text.strip())
        whole, end, self._rest = text.rpartition("\n")
        if not end and len(self._rest) > LONGEST_LINE:
            whole, end, self._rest = self._rest, "\n", ""
        self._last = (self._last + whole + end)[-LIVE_CHARACTERS:]
        return whole if end else None

    def finish(self) -> str:
        rest, self._rest = self._rest + self._stream.finish(), ""
        self._last += rest
        return rest.rstrip("\n")

    def ends_with(self, text: str) -> bool:
        """Whether the output ends with the text; False for one longer than what is remembered."""
        return len(text) < LIVE_CHARACTERS and self._last.rstrip().endswith(sanitize(text).rstrip())

    def unfinished_line(self) -> str:
        """The end of the unfinished line."""
        return self._rest[-LIVE_CHARACTERS // 8 :]


def _command_line(command: str) -> str:
    return "$ " + escape_invisible(command).replace("\n", "\n  ")
