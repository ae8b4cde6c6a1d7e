"""``/copy``: takes an answer, or a block of code in it, to the clipboard.

The text goes to the terminal (OSC 52), which has the clipboard of the machine where the user sits, also over SSH, and to a program of the
desktop, because many terminals refuse or cut what programs send them.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Final

import anyio.to_thread

from newel.agent.formatting import pluralize
from newel.agent.messages import AssistantMessage
from newel.terminal.commands import CommandContext
from newel.text.sanitize import sanitize
from newel.workspace.process.own_programs import own_environ, own_path

MOST_BY_TERMINAL: Final = 74_994
"""Bytes; xterm and others take 100,000 characters of base64."""
MOST_BY_PROGRAM: Final = 10_000_000
PATIENCE_S: Final = 5.0

_PROGRAMS: Final = (
    ("", "pbcopy"),
    ("WAYLAND_DISPLAY", "wl-copy"),
    ("DISPLAY", "xclip -selection clipboard"),
    ("DISPLAY", "xsel --clipboard --input"),
    ("WSL_DISTRO_NAME", "clip.exe"),
)
"""Programs that set the clipboard, each with the variable of what it needs."""

_BLOCK: Final = re.compile(
    r"(?ms)^ {0,3}(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
)


async def copy(context: CommandContext, number: str) -> None:
    """``/copy`` takes the last answer, ``/copy 2`` its second block of code."""
    messages = context.agent.history()
    answers = (message.text for message in reversed(messages) if isinstance(message, AssistantMessage))
    answer = next((text for text in answers if text.strip()), "")
    if not answer:
        context.say("There is no answer yet.")
        return
    what, text = "the last answer", answer
    if number:
        blocks = [match["code"] for match in _BLOCK.finditer(answer)]
        if not number.isdecimal() or not 1 <= int(number) <= len(blocks):
            have = pluralize(len(blocks), "code block") if blocks else "no code blocks"
            context.say(f"The last answer has {have}. Usage: /copy [NUMBER]")
            return
        what, text = f"code block {number} of the last answer", blocks[int(number) - 1]
    # A control character could end a paste, and run the rest as a command.
    data = sanitize(text).rstrip("\n").encode(errors="replace")
    ways = [way async for way in _copied_by(data)]
    size = pluralize(data.count(b"\n") + 1, "line")
    if ways:
        context.say(f"Copied {what} ({size}) {' and '.join(ways)}.")
    else:
        context.say(f"The clipboard cannot take {what} ({size}). /export writes the conversation to a file.")


async def _copied_by(data: bytes) -> AsyncIterator[str]:
    program = find_program(os.environ) if len(data) <= MOST_BY_PROGRAM else None
    if program and await anyio.to_thread.run_sync(_give, program, data):
        yield f"with {program[0].rpartition('/')[2]}"
    if len(data) <= MOST_BY_TERMINAL and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        sys.stdout.write(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
        sys.stdout.flush()
        yield "by the terminal, if it allows that (OSC 52)"


def find_program(environ: Mapping[str, str]) -> list[str] | None:
    """The command of a program that sets the clipboard of this desktop."""
    for variable, command in _PROGRAMS:
        name, *options = command.split()
        if (not variable or environ.get(variable)) and (path := shutil.which(name, path=own_path())):
            return [path, *options]
    return None


def _give(command: list[str], data: bytes) -> bool:
    """Run a program with the text as its input. One like xclip stays in the background to serve the clipboard, so its output must not be a
    pipe.
    """
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=own_environ(),
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
