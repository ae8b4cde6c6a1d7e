"""If these fail, a command of the user's own on a host gets keys of the host's user, or is garbled by a login shell."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from newel.workspace.ssh.in_terminal import run_in_terminal_on_host
from newel.workspace.ssh.process import Client
from tests.requirements import require_program
from tests.unit.workspace.ssh.hosts import LIMITS

pytestmark = pytest.mark.anyio


class Window:
    """A terminal in front of which nobody sits."""

    def __init__(self) -> None:
        self.shown = b""

    async def read(self) -> bytes:
        await anyio.sleep_forever()
        return b""

    def write(self, data: bytes, /) -> None:
        self.shown += data

    def fit(self, descriptor: int, /, *, settings: bool = False) -> None:
        del settings
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 11, 77, 0, 0))


async def said_on(folder: Path, command: str, *, login: str = "sh", **environ: str) -> str:
    """What a command says where ``ssh`` is a program that gives its last argument to a login shell on this terminal."""
    ssh = folder / "ssh"
    ssh.write_text(f'#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec {login} -c "$1"\n')
    ssh.chmod(0o755)
    whole: Mapping[str, str] = {**os.environ, **environ}
    client = Client(argv=[str(ssh), "host"], environ=whole, host="here")
    done = await run_in_terminal_on_host(client, command, root=str(folder), limits=LIMITS, terminal=Window())
    return f"{done.stdout}{done.exit_code}"


async def test_keys_of_the_hosts_user_do_not_reach_a_command(tmp_path: Path) -> None:
    said = await said_on(
        tmp_path, "echo ${HOST_API_KEY-gone} ${ENV-gone} $PLAIN", HOST_API_KEY="k", ENV="x", PLAIN="kept"
    )
    assert said == "gone gone kept\n0"


@pytest.mark.parametrize("login", ["sh", "bash", "zsh", "fish", "tcsh"])
async def test_any_login_shell_passes_a_command_on_as_it_is(tmp_path: Path, login: str) -> None:
    command = (
        "printf '%s\\n' 'it'\\''s !! \\101 \\\\ % $HOME \N{EURO SIGN}' \"$(stty size)\" \"$PWD\"\nexit 5"
    )
    said = await said_on(tmp_path, command, login=require_program(login))
    assert said == f"it's !! \\101 \\\\ % $HOME \N{EURO SIGN}\n11 77\n{tmp_path}\n5"


async def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c "$1"\n')
    ssh.chmod(0o755)
    client, window = Client(argv=[str(ssh)], environ=os.environ, host="here"), Window()
    done = await run_in_terminal_on_host(client, "echo ran", root="/no/such", limits=LIMITS, terminal=window)
    assert done.exit_code == 126
    assert "/no/such" in done.stdout
    assert "ran" not in done.stdout
