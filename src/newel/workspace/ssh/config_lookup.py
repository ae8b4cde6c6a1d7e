"""What ssh's configuration makes of a host's name. Nothing is connected to."""

from __future__ import annotations

from typing import Final, NamedTuple

import anyio
import msgspec

from newel.workspace.ssh.command_line import SshCommand
from newel.workspace.ssh.connection_errors import explain, no_answer, no_ssh
from newel.workspace.ssh.target import Target

PATIENCE: Final = 45.0
"""Seconds for the programs that a configuration may ask."""


class ResolvedHost(NamedTuple):
    """``target`` has the user, the host and the port; ``keys`` are the files of keys that are tried."""

    target: Target
    keys: tuple[str, ...]


async def look_up(ssh: SshCommand, asked: Target) -> ResolvedHost:
    """Whom and where the target's words mean, so that it has one name. Raises ``HostUnreachable``."""
    command = [*ssh.asks(), *asked.words]
    try:
        with anyio.fail_after(PATIENCE):
            told = await anyio.run_process(command, env=ssh.environ, check=False, cwd="/")
    except TimeoutError as error:
        raise no_answer(asked, "ssh reads its configuration for too long.").error() from error
    except OSError as error:
        raise no_ssh(error).error() from error
    if told.returncode != 0:
        raise explain(told.stderr.decode(errors="replace"), asked).error()
    pairs = [line.partition(" ") for line in told.stdout.decode(errors="replace").splitlines()]
    said = {key: value for key, _, value in reversed(pairs)}
    keys = tuple(value for key, _, value in pairs if key == "identityfile")
    target = msgspec.structs.replace(asked, host=said["hostname"], user=said["user"], port=int(said["port"]))
    return ResolvedHost(target, keys)
