"""Runs a command of the user's own on a host in the user's terminal: ssh has a terminal of its own here, and opens another one there."""

from __future__ import annotations

import os
import shlex

from newel.workspace.port import CommandResult, CommandTerminal
from newel.workspace.process.in_terminal import run_in_terminal
from newel.workspace.process.launcher import DIRECT
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.process import SHELL, WITHHELD, Client, text_of


async def run_in_terminal_on_host(
    client: Client, command: str, *, root: str, limits: OutputLimits, terminal: CommandTerminal
) -> CommandResult:
    """As ``run_in_terminal``, in a folder of the host. If Newel ends, the host hangs up on the command, as on that of any ssh: one that
    ignores this stays.
    """
    words = f'set -- "$@" -c -- {shlex.quote(command)}'
    parts = (
        WITHHELD,
        f"root={shlex.quote(root)}",
        SHELL,
        words,
        text_of("secrets.sh"),
        text_of("terminal.sh"),
    )
    script = "\n".join(parts)
    program, *arguments = client.argv
    # ssh obeys the first of conflicting options: these come before the one that disables the terminal. No key is its own.
    argv = [program, "-tt", "-e", "none", *arguments, _command_line(script)]
    with client.busy():
        return await run_in_terminal(
            argv, cwd="/", environ=client.environ, limits=limits, launcher=DIRECT, terminal=terminal
        )


def _command_line(script: str) -> str:
    """The command line for ssh, which any login shell passes on to sh as it is. The input is the user's, so the text cannot come from
    there.
    """
    octal = "".join(f"\\{byte:03o}" for byte in os.fsencode(script))
    return f"""exec sh -c 'eval "$(printf "{octal}")"'"""
