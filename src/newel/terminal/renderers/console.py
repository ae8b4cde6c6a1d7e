"""Plain text, for logs, pipes and simple terminals: no colours, no cursor movement, nothing to load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from newel.agent import events as e
from newel.agent.messages import AssistantMessage, UserMessage
from newel.terminal.renderers.base import COMPACTED, PROMPT_LINES, Renderer, RunSummary
from newel.terminal.renderers.call_outcome import CallOutcome
from newel.terminal.stdout import TextSink
from newel.text.format import (
    ENDINGS,
    TOLD,
    command_of,
    describe_call,
    describe_retry,
    format_duration,
    shown_name,
)
from newel.text.sanitize import SanitizedStream, escape_invisible, sanitize

ERROR_CODES = frozenset({"workspace_error", "session_damage"})
"""Codes of notes that are errors."""

WIDTH = 160
"""Columns of a shell command; a terminal may break its rows once more."""


class ConsoleRenderer(Renderer):
    """Writes the answer as it arrives, one line for each tool call, and a closing line.

    ``echo`` repeats the user's prompt, for a reader who has not just typed it. ``separate_runs`` sets an empty
    line between two runs. ``window`` returns the size of the model's context in tokens. ``omit_answer`` leaves out the
    final answer, which is written elsewhere. ``errors`` is a separate sink for errors, where they begin with the name of the program.
    """

    def __init__(
        self,
        out: TextSink,
        *,
        echo: bool = False,
        separate_runs: bool = True,
        omit_answer: bool = False,
        errors: TextSink | None = None,
        window: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__()
        self.out = out
        self._echo = echo
        self._separate_runs = separate_runs
        self._omit_answer = omit_answer
        self._errors = errors or out
        self._program = "newel: " if errors else ""
        self._summary = RunSummary(window)
        self._stream = SanitizedStream()
        self._at_line_start = True
        self._has_text = False
        self._open_call: str | None = None
        self._held_answer = ""

    def handle(self, event: e.AgentEvent, /) -> None:
        super().handle(event)
        self.out.flush()

    def note(self, text: str, code: str = "", /) -> None:
        if code in ERROR_CODES:
            self._error(sanitize(text))
        else:
            self._line(escape_invisible(text) if code == "diff" else sanitize(text))
        self.out.flush()

    def show_prompt(self, message: UserMessage, /) -> None:
        lines = message.text.rstrip().split("\n")
        if (more := len(lines) - PROMPT_LINES) > 1:
            lines[PROMPT_LINES:] = [f"… {more:,} more lines"]
        self._show_prompt(message, "\n".join(lines))

    def _show_prompt(self, message: UserMessage, text: str) -> None:
        self._line(f"{TOLD if message.is_notice else '>'} {sanitize(text)}")
        self.out.flush()

    def close(self) -> None:
        self._end_line()
        self.out.flush()

    # -- events -----------------------------------------------------------------------------------

    def on_run_start(self, event: e.AgentStart) -> None:
        if self._summary.started_at and self._separate_runs:
            self._empty_line()
        self._summary.start(event)

    def on_prompt(self, message: UserMessage) -> None:
        if self._echo:
            self._show_prompt(message, message.text)

    def on_text(self, text: str) -> None:
        if not self._omit_answer:
            self._write_text(self._stream.feed(text))

    def on_answer(self, message: AssistantMessage) -> None:
        self._summary.add(message)
        if self._omit_answer:
            self._write_held()
            self._held_answer = sanitize(message.text)
            if message.tool_calls:
                self._write_held()
            return
        self._write_text(self._stream.finish())
        self._end_line()
        self._has_text = False

    def on_tool_start(self, event: e.ToolExecutionStart) -> None:
        """Write the call on a line that its result completes. Of parallel calls only one can."""
        if self._open_call is None:
            self._end_line()
            self._write(call_text(event.tool_name, event.args))
            self._open_call = event.tool_call_id

    def on_call_end(self, outcome: CallOutcome) -> None:
        if self._open_call != outcome.call_id:
            self._end_line()
            self._write(call_text(outcome.name, outcome.args))
        time = "" if outcome.milliseconds is None else format_duration(outcome.milliseconds)
        result = " · ".join(part for part in (outcome.summary, time) if part)
        self._write(f" {'✗' if outcome.failed else '✓'} {result}\n")
        self._open_call = None
        for line in outcome.tail:
            self._write(f"    {line}\n")

    def on_compaction(self) -> None:
        self._line(COMPACTED)

    def on_retry(self, event: e.Retry) -> None:
        self._stream.finish()
        self._line(describe_retry(event, void=self._has_text))
        self._has_text = False

    def on_warning(self, message: str) -> None:
        self._error(f"Warning: {sanitize(message)}")

    def on_error(self, message: str) -> None:
        self._error(f"{'' if self._program else 'Error: '}{sanitize(message)}")

    def on_run_end(self, event: e.AgentEnd) -> None:
        if event.reason != "done":
            self._write_held()
        if event.reason not in {"done", "error"}:
            self._error(sanitize(event.message) or ENDINGS.get(event.reason, ""))
        self._held_answer = ""
        self._empty_line()
        self._line(self._summary.text(event))

    # -- writing ----------------------------------------------------------------------------------

    def _write_held(self) -> None:
        """The held text was not the final answer: more came after it."""
        text, self._held_answer = self._held_answer, ""
        self._line(text.strip("\n"))

    def _error(self, text: str) -> None:
        self._end_line()
        if text:
            self._errors.write(f"{self._program}{text}\n")
            self._errors.flush()

    def _write_text(self, text: str) -> None:
        if not self._has_text:
            text = text.lstrip("\n")
            self._has_text = bool(text)
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        self.out.write(text)
        self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")
            self._open_call = None

    def _line(self, text: str) -> None:
        self._end_line()
        if text:
            self._write(text + "\n")

    def _empty_line(self) -> None:
        self._end_line()
        self._write("\n")


def call_text(name: str, args: dict[str, Any]) -> str:
    """A call on one line; a shell command on as many as it needs, up to a bound."""
    if not (command := command_of(name, args)):
        return describe_call(name, args)
    import textwrap

    from newel.terminal.shown_command import shown_command

    wrapper = textwrap.TextWrapper(WIDTH, replace_whitespace=False, break_on_hyphens=False)
    rows = shown_command(command, lambda line: wrapper.wrap(line) or [""])
    name = shown_name(name, args)
    return f"{name} " + f"\n{' ' * len(name)} ".join(rows)
