"""Commands in the background, in a conversation: Ctrl+B, ``/bashes``, and a line when one has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from newel.agent.errors import UsageError
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandContext
from newel.terminal.renderers.transcript import Section
from newel.text.format import format_duration, one_line
from newel.text.sanitize import sanitize
from newel.workspace.background import BackgroundCommand, BackgroundCommands

NONE_HERE: Final = "No commands in the background."

NOT_UNDER_REVIEW: Final = "Under --approve review, commands cannot run in the background: the folder that they would work in is renewed for each prompt."


SHOWN: Final = 100_000
"""Characters of an output."""

END: Final = "end"


def has_ended(command: BackgroundCommand) -> str:
    """``b3f2 has ended: exit code 1, 12 s · npm test``"""
    outcome = f"{one_line(command.outcome, 60)}, {_duration(command)}"
    return f"{command.id} has ended: {outcome} · {one_line(command.command, 40)}"


def watch(agent: CodingAgent, note: Callable[[str], None], refresh: Callable[[], None]) -> None:
    """Say when a command in the background has ended."""
    if agent.background is None:
        return

    def on_change(command: BackgroundCommand) -> None:
        if command.state != "running":
            note(has_ended(command))
        refresh()

    agent.background.on_change = on_change


def count_running(agent: CodingAgent) -> str:
    """``2 in background``; empty for none."""
    running = len(agent.background.running) if agent.background is not None else 0
    return f"{running} in background" if running else ""


async def bashes(context: CommandContext, text: str) -> None:
    """``/bashes``, ``/bashes ID`` or ``/bashes end ID``"""
    commands = context.agent.background
    if commands is None:
        context.say(NOT_UNDER_REVIEW if context.agent.approve == "review" else NONE_HERE)
        return
    verb, _, name = text.strip().rpartition(" ")
    if verb not in {"", END}:
        raise UsageError(f"/bashes cannot do this: {one_line(verb, 40)}. It takes ID or `end ID`.")
    if verb:
        await _find(commands, name).stop()
    elif name:
        await _show(context, _find(commands, name))
    else:
        await _choose(context, commands)


async def _choose(context: CommandContext, commands: BackgroundCommands) -> None:
    selected = 0
    while listed := commands.all:
        ending: list[int] = []
        rows = _rows(listed)
        selected = min(selected, len(rows) - 1)
        picked = await context.ui.pick("Commands in the background", rows, selected, on_end=ending.append)
        if picked is None and not ending:
            return
        if picked is None:
            selected = ending[0]
            await listed[selected].stop()
        else:
            selected = picked
            await _show(context, listed[picked])
            return
    context.say(NONE_HERE)


async def _show(context: CommandContext, command: BackgroundCommand) -> None:
    output = command.output.text
    where = f"{command.whole}\n" if command.whole else ""
    shown = output if len(output) <= SHOWN else f"…{output[-SHOWN:]}"
    head = f"{command.id} · {one_line(command.outcome, 60)} · {_duration(command)}"
    sections = [Section("user", command.command), Section("note", f"{where}{shown or 'No output yet.'}")]
    await context.ui.page(head, sections, at_end=True)


def _find(commands: BackgroundCommands, name: str) -> BackgroundCommand:
    command = commands.find(name)
    if command is None:
        raise UsageError(
            f"No command in the background has the id {one_line(name, 40)}. `/bashes` lists them."
        )
    return command


def _rows(commands: Sequence[BackgroundCommand]) -> list[str]:
    return [
        "  ".join(
            [
                command.id,
                one_line(command.outcome, 40).ljust(12),
                _duration(command).rjust(7),
                one_line(command.command, 40).ljust(40),
                one_line(sanitize(command.output.last_line()), 60),
            ]
        ).rstrip()
        for command in commands
    ]


def _duration(command: BackgroundCommand) -> str:
    return format_duration(round(command.seconds * 1_000))
