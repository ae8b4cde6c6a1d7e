"""``bash_output``: reads what a command in the background has printed, waits for its end, or ends it."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from newel.agent.errors import NewelError
from newel.agent.ports import OnOutput, ToolResult
from newel.text.format import format_duration, one_line
from newel.tools.base import Parameters, TypedTool
from newel.workspace.background import BackgroundCommand, BackgroundCommands

NAME: Final = "bash_output"

LONGEST_WAIT: Final = 600.0
"""Seconds."""

REPORTED: Final = "backgroundEnded"
"""The entry of a result's details with the id of a command whose end it reports."""


class UnknownCommand(NewelError):
    """No command in the background has this id."""


class BashOutputParameters(Parameters, frozen=True):
    id: Annotated[
        str, Meta(description="Id of the command, from the result of `bash`. Omit for the last one.")
    ] = ""
    wait: Annotated[
        float,
        Meta(description="Seconds to wait for its end (default 0: only read)", ge=0),
    ] = 0
    stop: Annotated[bool, Meta(description="True ends the command and all its processes")] = False


class BashOutputTool(TypedTool[BashOutputParameters]):
    """Ending a command needs no approval: the agent has started it."""

    name = NAME
    label = "Read Background Output"
    description = (
        "Read what a command in the background has printed since the last call, and whether it still runs."
    )
    read_only = True
    parameters = BashOutputParameters

    def __init__(self, commands: BackgroundCommands) -> None:
        self._commands = commands

    async def serial_key(self, arguments: BashOutputParameters, /) -> str | None:
        return f"background {arguments.id}"

    async def preview(self, arguments: BashOutputParameters, /) -> str:
        verb = "end" if arguments.stop else "read the output of"
        return f"{verb} the background command {arguments.id}".rstrip()

    async def execute(self, arguments: BashOutputParameters, _: OnOutput, /) -> ToolResult:
        command = self._commands.find(arguments.id) if arguments.id else self._commands.last
        if command is None:
            raise UnknownCommand(self._unknown(arguments.id))
        if arguments.stop:
            await command.stop()
        else:
            await command.wait(min(arguments.wait, LONGEST_WAIT))
        output = command.output.take_unread().removesuffix("\n")
        has_ended = command.state != "running"
        head = f"{command.outcome} after {format_duration(round(command.seconds * 1_000))}: {one_line(command.command, 200)}"
        return ToolResult(
            output=f"{head}\nnew output:\n{output}" if output else f"{head}\n(no new output)",
            details={"id": command.id, "state": command.state, "outcome": command.outcome}
            | ({REPORTED: command.id} if has_ended else {}),
            whole=command.whole,
        )

    def _unknown(self, command_id: str) -> str:
        known = ", ".join(_described(command) for command in self._commands.all)
        if not known:
            return "No commands in the background."
        return f"No command in the background has the id {command_id!r}. There are: {known}."


def _described(command: BackgroundCommand) -> str:
    return f"{command.id} ({one_line(command.command, 60)}, {command.outcome})"
