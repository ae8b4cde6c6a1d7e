"""The one tool of ``jexida``: a proposed command, which the user confirms or edits, run on the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

from newel.agent.errors import InvalidArguments
from newel.agent.messages import ToolCall
from newel.agent.ports import OnOutput, Planned, Tool, ToolResult, ToolSpec, Verdict
from newel.agent.tool_executor import EXCLUSIVE
from newel.terminal.jexida.ports import CommandHost
from newel.terminal.ui.approval import again, is_unclear
from newel.terminal.ui.line_reader import without_paste
from newel.workspace.port import CommandResult

TOOL: Final = "bash"
"""The tool's name in sessions, the same as elsewhere."""

MAX_RESULT: Final = 16_000
"""Characters of a command's output for the model: its head and its tail."""

ERROR_LINES: Final = 10
"""Lines of error output that are repeated where they could be overlooked."""

QUESTION: Final = "Run it? y yes · n no (Enter) · e edit it · or say what to do instead: "
OFFERED: Final = frozenset({"y", "yes", "n", "no", "", "e", "edit"})
EDIT: Final = "Edit, then Enter runs it (empty: do not run): "

NOT_EXECUTED: Final = "Not executed: the user declined this command."
NOT_EXECUTED_WITH_WORD: Final = "Not executed: the user declined this command and said: {word}"
NOBODY_TO_ASK: Final = (
    "Not executed: every command needs the user's approval, and this run cannot ask for it. "
    "Say what the user should run."
)


class Proposal:
    """``command`` is the model's, until the user edits it."""

    def __init__(self, command: str, reason: str) -> None:
        self.command = command
        self.reason = reason


class ShellTool:
    """Runs a command on the host."""

    label = "Shell command"
    read_only = False
    spec = ToolSpec(
        name=TOOL,
        description="Run a shell command on the host.",
        parameters={
            "type": "object",
            "properties": {"command": {"type": "string"}, "reason": {"type": "string"}},
            "required": ["command"],
        },
    )

    def __init__(self, host: CommandHost, on_end: Callable[[CommandResult], object]) -> None:
        self._host = host
        self._on_end = on_end

    def parse(self, arguments: dict[str, Any], /) -> Proposal:
        command, reason = arguments.get("command"), arguments.get("reason", "")
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            raise InvalidArguments("There is no command. Give one as a string.")
        return Proposal(command, str(reason))

    async def serial_key(self, _: Proposal, /) -> str:
        return EXCLUSIVE

    async def plan(self, proposal: Proposal, /) -> Planned:
        async def describe() -> str:
            return proposal.command

        return Planned(describe, partial(self._execute, proposal))

    async def _execute(self, proposal: Proposal, on_output: OnOutput) -> ToolResult:
        done = await self._host.run(proposal.command, on_output=on_output)
        self._on_end(done)
        return ToolResult(
            output=result_text(proposal.command, done),
            details={
                "command": proposal.command,
                "exitCode": done.exit_code,
                "duration": done.duration,
                "errors": errors_apart(done),
            },
        )


def result_text(command: str, done: CommandResult) -> str:
    """The result of a command for the model."""
    output = f"{done.stdout}\n{done.stderr}"
    if len(output) > MAX_RESULT:
        left_out = len(output) - MAX_RESULT
        half = MAX_RESULT // 2
        output = f"{output[:half]}\n[{left_out:,} characters left out]\n{output[-half:]}"
    return f"Command: {command}\nExit code: {done.exit_code}\nOutput:\n{output}"


def errors_apart(done: CommandResult) -> str:
    """The last lines of a failed command's error output, if other output surrounds them; for display."""
    if not done.exit_code or not done.stdout.strip():
        return ""
    return "\n".join(done.stderr.strip()[-MAX_RESULT:].split("\n")[-ERROR_LINES:])


class ConfirmCommand(Protocol):
    """Asks a question, with ``default`` as the line to edit; returns None if nobody can answer. See ``AskLine``."""

    def __call__(
        self, question: str, default: str = "", /, *, interrupting: bool = False
    ) -> Awaitable[str | None]: ...


class Confirmation:
    """The ``Policy``: no command runs unless the user agrees. After a plain no, ``stop`` ends the run. ``ask`` is None if
    nobody can answer: then no command runs.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self.ask: ConfirmCommand | None = None
        self._stop = stop

    async def decide(self, _call: ToolCall, _tool: Tool, proposal: Proposal, /) -> Verdict:
        if self.ask is None:
            self._stop()
            return Verdict(allow=False, reason=NOBODY_TO_ASK)
        question = QUESTION
        while is_unclear(answer := await self.ask(question, interrupting=True), OFFERED):
            question = f"{again(answer)}\n{QUESTION}"
        typed = without_paste(answer or "").strip()
        match typed.lower():
            case "y" | "yes":
                return Verdict(allow=True)
            case "e" | "edit":
                return await self._edit_command(proposal, self.ask)
            case "" | "n" | "no":
                return self._decline()
            case _:
                word = typed.removeprefix("n ").removeprefix("no ").strip()
                return Verdict(allow=False, reason=NOT_EXECUTED_WITH_WORD.format(word=word))

    async def _edit_command(self, proposal: Proposal, ask: ConfirmCommand) -> Verdict:
        line = (await ask(EDIT, proposal.command) or "").strip()
        if not line or "\0" in line:
            return self._decline()
        proposal.command = line
        return Verdict(allow=True)

    def _decline(self) -> Verdict:
        self._stop()
        return Verdict(allow=False, reason=NOT_EXECUTED)
