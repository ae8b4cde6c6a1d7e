"""Plain text, for logs, pipes and simple terminals: no colours, no cursor movement, nothing to load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, assert_never

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
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from newel.agent.messages import AppMessage, AssistantMessage, CustomMessage, ToolResultMessage, UserMessage
from newel.agent.transform import COMPACTION
from newel.terminal.renderers.base import TextSink
from newel.terminal.renderers.tool_calls import CallOutcome, ToolCallTracker
from newel.terminal.shown_command import shown_command
from newel.text.format import ENDINGS, command_of, describe_call, describe_retry, format_duration, usage_line
from newel.text.sanitize import SanitizedStream, escape_invisible, sanitize

ERRORS = frozenset({"workspace_error", "session_damage"})
"""What notes are about that are errors."""

WIDTH = 160
"""Columns of a shell command; a terminal may break its rows once more."""


class ConsoleRenderer:
    """Writes the answer as it comes, one line for each tool call, and a closing line.

    ``echo`` repeats what the user said, for a reader who has not just typed it. ``apart`` sets an empty
    line between one run and the next, where nobody types a line there. ``window`` tells the size of the
    model's context in tokens. ``keeps_answer`` leaves out the text that a run ends with, which is for somebody else;
    ``errors`` is where errors go, if elsewhere.
    """

    animated = False

    def __init__(
        self,
        out: TextSink,
        *,
        echo: bool = False,
        apart: bool = True,
        keeps_answer: bool = False,
        errors: TextSink | None = None,
        window: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.out = out
        self.echo = echo
        self.apart = apart
        self.keeps_answer = keeps_answer
        self.errors = errors
        self.window = window
        self._calls = ToolCallTracker()
        self._stream = SanitizedStream()
        self._at_line_start = True
        self._said = False
        self._open_call: str | None = None
        self._context = 0
        self._began = ""
        self._kept = ""

    def note(self, text: str, code: str = "", /) -> None:
        if code in ERRORS:
            self._error(sanitize(text))
        else:
            self._line(escape_invisible(text) if code == "diff" else sanitize(text))
        self.out.flush()

    def tick(self) -> None:
        """Nothing moves here."""

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        self._end_line()
        self.out.flush()

    def handle(self, event: AgentEvent) -> None:
        if outcome := self._calls.see(event):
            self._tell(outcome)
        match event:
            case MessageUpdate():
                if isinstance(event.assistant_message_event, TextDelta) and not self.keeps_answer:
                    self._write_text(self._stream.feed(event.assistant_message_event.delta))
            case ToolExecutionStart():
                self._open(event)
            case MessageEnd():
                self._finish(event.message)
            case Retry():
                self._retry(event)
            case ErrorEvent() if event.is_notice:
                self.note(event.message)
            case ErrorEvent():
                self._error(f"Error: {sanitize(event.message)}")
            case AgentStart():
                if self._began and self.apart:
                    self._empty_line()
                self._began = event.timestamp
            case AgentEnd():
                self._close_run(event)
            case (
                TurnStart()
                | MessageStart()
                | ToolExecutionUpdate()
                | ToolExecutionEnd()
                | TurnEnd()
                | QueueUpdate()
                | StateUpdate()
                | Interrupted()
            ):
                pass
            case _:
                assert_never(event)
        self.out.flush()

    # -- the parts --------------------------------------------------------------------------------

    def _finish(self, message: AppMessage) -> None:
        match message:
            case AssistantMessage():
                self._context = message.usage.total or self._context
                if self.keeps_answer:
                    self._tell_kept()
                    self._kept = sanitize(message.text)
                    if message.tool_calls:
                        self._tell_kept()
                    return
                self._write_text(self._stream.finish())
                self._end_line()
                self._said = False
            case UserMessage():
                if self.echo:
                    self._line(f"> {sanitize(message.text)}")
            case CustomMessage():
                if message.name == COMPACTION:
                    self._line("The conversation was summarised to free context.")
            case ToolResultMessage():
                pass
            case _:
                assert_never(message)

    def _open(self, event: ToolExecutionStart) -> None:
        """Say what runs, on a line that its result completes. Of calls side by side only one can."""
        if self._open_call is None:
            self._end_line()
            self._write(call_text(event.tool_name, event.args))
            self._open_call = event.tool_call_id

    def _tell(self, outcome: CallOutcome) -> None:
        if self._open_call != outcome.call_id:
            self._end_line()
            self._write(call_text(outcome.name, outcome.args))
        time = "" if outcome.milliseconds is None else format_duration(outcome.milliseconds)
        result = " · ".join(part for part in (outcome.summary, time) if part)
        self._write(f" {'✗' if outcome.failed else '✓'} {result}\n")
        self._open_call = None
        for line in outcome.tail:
            self._write(f"    {line}\n")

    def _retry(self, event: Retry) -> None:
        self._stream.finish()
        self._line(describe_retry(event, void=self._said))
        self._said = False

    def _tell_kept(self) -> None:
        """What was kept was no answer: more came after it."""
        text, self._kept = self._kept, ""
        self._line(text.strip("\n"))

    def _error(self, text: str) -> None:
        self._end_line()
        stream = self.errors or self.out
        if text:
            stream.write(f"{text}\n")
            stream.flush()

    def _close_run(self, event: AgentEnd) -> None:
        if event.reason != "done":
            self._tell_kept()
            words = "" if event.reason == "error" else sanitize(event.message)
            self._error(words or ENDINGS.get(event.reason, ""))
        self._kept = ""
        self._empty_line()
        self._line(
            usage_line(
                event.usage,
                event.cost,
                context=self._context,
                window=self.window(),
                milliseconds=milliseconds_between(self._began, event.timestamp),
            )
        )

    # -- writing ----------------------------------------------------------------------------------

    def _write_text(self, text: str) -> None:
        if not self._said:
            text = text.lstrip("\n")
            self._said = bool(text)
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
    """A call in a line; a shell command in as many as it needs, up to a bound."""
    if not (command := command_of(name, args)):
        return describe_call(name, args)
    import textwrap

    wrapper = textwrap.TextWrapper(WIDTH, replace_whitespace=False, break_on_hyphens=False)
    rows = shown_command(command, lambda line: wrapper.wrap(line) or [""])
    return f"{name} " + f"\n{' ' * len(name)} ".join(rows)


def milliseconds_between(began: str, ended: str) -> float | None:
    """The time between two timestamps of events; None where the first is not known."""
    if not began:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds() * 1000
