"""Tells the model which commands in the background have ended, in a message before the next prompt.

Which ones it believes to run follows from the conversation, so a branch, and a process after a kill, tell each end once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from newel.agent.messages import AppMessage, ToolResultMessage, UserMessage, new_id
from newel.session.history import History
from newel.text.format import format_duration, one_line
from newel.tools.bash import BACKGROUND
from newel.tools.bash_output import REPORTED
from newel.workspace.background import BackgroundCommand

_ID: Final = r"ended_(?P<ids>[0-9a-z]+(?:\+[0-9a-z]+)*)_[0-9a-f]+"

LAST_OUTPUT: Final = 2_000
"""Characters of a command's last output that its model gets."""


def ended_notice(history: History, find: Callable[[str], BackgroundCommand | None]) -> UserMessage | None:
    """The ends of commands that no message has told; None if there are none. A command that ``find`` does not know ended with an earlier
    Newel.
    """
    lines: list[str] = []
    ended: list[str] = []
    for command_id, text in _believed_running(history).items():
        command = find(command_id)
        if command is not None and command.state == "running":
            continue
        ended.append(command_id)
        lines.append(_lost(command_id, text) if command is None else _ended(command))
    if not ended:
        return None
    return UserMessage(content="\n".join(lines), id=f"ended_{'+'.join(ended)}_{new_id()[:16]}")


def _believed_running(history: History) -> dict[str, str]:
    """The commands that went to the background, by id, without those whose end was told."""
    running: dict[str, str] = {}
    for message in _about_commands(history):
        match message:
            case ToolResultMessage(details={**details}):
                if isinstance(command_id := details.get(BACKGROUND), str) and re.fullmatch(
                    r"[0-9a-z]{1,20}", command_id
                ):
                    running[command_id] = str(details.get("command", ""))
                if isinstance(told := details.get(REPORTED), str):
                    running.pop(told, None)
            case UserMessage(id=message_id) if match := re.fullmatch(_ID, message_id):
                for told in match["ids"].split("+"):
                    running.pop(told, None)
            case _:
                pass
    return running


def _about_commands(history: History) -> Iterator[AppMessage]:
    """The messages that may tell of commands in the background; no others are read."""
    for entry in history.entries:
        if entry.id.startswith("ended_") or BACKGROUND in entry.details or REPORTED in entry.details:
            yield entry.message


def _lost(command_id: str, command: str) -> str:
    return f"The background command {command_id} has ended, because Newel did: {one_line(command, 200)}"


def _ended(command: BackgroundCommand) -> str:
    took = format_duration(round(command.seconds * 1_000))
    head = f"The background command {command.id} has ended ({command.outcome}, {took}): {one_line(command.command, 200)}"
    output = command.output.take_unread().strip("\n")
    if not output:
        return head
    shown = output if len(output) <= LAST_OUTPUT else f"…{output[-LAST_OUTPUT:]}"
    where = f" ({command.whole})" if command.whole else ""
    return f"{head}\nIts last output{where}:\n{shown}"
