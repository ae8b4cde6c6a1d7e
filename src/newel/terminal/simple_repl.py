"""The minimal REPL: ``You: `` and ``Agent: ``, and one bracketed line for each tool call.

Ctrl+C stops what runs, and ends the REPL when nothing does. Input may come from a pipe.
"""

from __future__ import annotations

import os
from typing import Any, TextIO

from newel.agent import events as e
from newel.agent.messages import AssistantMessage
from newel.session.coding_agent import CodingAgent
from newel.session.typed_prompt import Prompt, prepare
from newel.terminal.commands import CommandFormatter, CommandTable, SlashCommand, shell_command
from newel.terminal.renderers.base import Renderer, report_start
from newel.terminal.renderers.call_outcome import CallOutcome
from newel.terminal.repl.repl import Repl, converse, exit_summary, run_command
from newel.terminal.review.run_notice import RunNotice
from newel.terminal.ui.approval import Approver
from newel.terminal.ui.plain_ui import PlainUI
from newel.text.format import SUBJECT, as_clause, command_of, elide_middle, one_line
from newel.text.json import to_json
from newel.text.sanitize import SanitizedStream, sanitize

NAMES = {"read": "read_file", "write": "write_file", "edit": "edit_file"}
"""Names of tools in this front end."""


class SimpleRenderer(Renderer):
    """``Agent: …`` for text, ``[Tool: edit_file("src/main.py", ...)]`` for calls; a blank line between."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self.out = out
        self._stream = SanitizedStream()
        self._in_text = False
        self._in_tools = False
        self._open_call: str | None = None

    def handle(self, event: e.AgentEvent, /) -> None:
        super().handle(event)
        self.out.flush()

    def note(self, text: str, code: str = "", /) -> None:  # noqa: ARG002 — the base's signature
        self._paragraph(sanitize(text))

    def close(self) -> None:
        self.out.flush()

    def on_text(self, text: str) -> None:
        self._text(self._stream.feed(text))

    def on_answer(self, message: AssistantMessage) -> None:  # noqa: ARG002 — its text has come in pieces
        self._text(self._stream.finish())
        self._end_line()

    def on_tool_start(self, event: e.ToolExecutionStart) -> None:
        self._start_tool(event.tool_call_id, event.tool_name, event.args)

    def on_call_end(self, outcome: CallOutcome) -> None:
        if outcome.milliseconds is None:  # it never ran, so there was no start
            self._start_tool(outcome.call_id, outcome.name, outcome.args)
        if outcome.call_id == self._open_call:
            self._end_line()

    def on_retry(self, event: e.Retry) -> None:
        self._stream.finish()
        self._paragraph(f"[The request failed: {as_clause(event.reason)}. Trying again; this starts over.]")

    def on_error(self, message: str) -> None:
        self._paragraph(f"Error: {sanitize(message)}")

    def on_run_end(self, event: e.AgentEnd) -> None:
        self._end_line()
        if event.reason not in {"done", "error"}:
            self._paragraph(f"[{one_line(event.message) or 'Stopped.'}]")
        self._in_tools = False

    def _text(self, text: str) -> None:
        if not self._in_text:
            text = text.lstrip()
            if not text:
                return
            self._paragraph("Agent: ", end="")
            self._in_text = True
        self.out.write(text)

    def _start_tool(self, call_id: str, name: str, args: dict[str, Any]) -> None:
        """Write the call on a line that its end completes."""
        self._end_line()
        if not self._in_tools:
            self.out.write("\n")
            self._in_tools = True
        self.out.write(f"[Tool: {signature(name, args)}")
        self._open_call = call_id

    def _end_line(self) -> None:
        if self._in_text or self._open_call is not None:
            self.out.write("\n" if self._in_text else "]\n")
        self._in_text, self._open_call = False, None

    def _paragraph(self, text: str, end: str = "\n") -> None:
        self._end_line()
        self.out.write(f"\n{text}{end}")
        self._in_tools = False
        self.out.flush()


def signature(name: str, args: dict[str, Any]) -> str:
    """``edit_file("src/main.py", ...)``: the first argument, and dots for all others."""
    subject = args.get(SUBJECT.get(name, ""))
    line = elide_middle if command_of(name, args) else one_line
    arguments = [to_json(line(subject)).decode()] if isinstance(subject, str) else []
    if len(args) > len(arguments):
        arguments.append("...")
    return f"{NAMES.get(name) or one_line(name, 60)}({', '.join(arguments)})"


async def run_simple_repl(
    agent: CodingAgent,
    stdin: int,
    out: TextIO,
    *,
    approver: Approver | None = None,
    format_command: CommandFormatter = shell_command,
) -> int:
    """Read lines from the file descriptor ``stdin`` until it ends or Ctrl+C comes between two prompts; returns the exit code
    of ``Repl.run``. On a terminal, the user answers the questions of ``approver``. ``format_command`` writes commands for
    the user.
    """
    notice = RunNotice(agent, format_command)
    ui = PlainUI(SimpleRenderer(out), stdin, out, prompt="You: ")
    if approver is not None and os.isatty(stdin):
        approver.attend(ui.ask)
    try:
        return await SimpleRepl(agent, ui, out, notice).run(agent)
    finally:
        notice.close()
        if approver is not None:
            approver.attend(None)


class SimpleRepl(Repl[CodingAgent]):
    """``/clear`` and ``!command`` are its only commands: all other text is a prompt."""

    def __init__(self, agent: CodingAgent, ui: PlainUI, out: TextIO, notice: RunNotice) -> None:
        super().__init__(ui, COMMANDS, agent)
        self._out = out
        self._notice = notice

    def _greet(self) -> None:
        report_start(self._context, self.ui.renderer)

    async def _run_text(self, prompt: Prompt) -> None:
        if prompt.typed.startswith("!"):
            completed = await run_command(self._context.workspace, prompt.typed[1:], self._write)
            if completed.exit_code:
                self._write(f"[{exit_summary(completed)}]\n")
            return
        message = await prepare(self._context, prompt, self.ui.renderer.note)
        self._is_prompting = True
        await converse(self._context, message, self.ui.renderer, other_model="--model")

    async def _after_job(self, stopped: bool) -> None:  # noqa: ARG002 — a stopped command just ends here
        await super()._after_job(stopped=False)
        if message := await self._notice.text():
            self.ui.renderer.note(message)
        self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


async def _clear(agent: CodingAgent, _: str) -> None:
    agent.new_session()


COMMANDS: CommandTable[CodingAgent] = CommandTable(
    SlashCommand("clear", "", "start a new conversation", _clear)
)
