"""What a connection to a host gives beside a folder there: its programs, and its ports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from newel.workspace.port import ProgramEnded
from newel.workspace.ssh.connection import SshConnection
from newel.workspace.ssh.process import run_program_on_host


class HostPrograms:
    """Fulfils ``newel.providers.ollama.cli.Programs``."""

    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection

    @property
    def host(self) -> str:
        return self._connection.host

    @property
    def place(self) -> str:
        return msgspec.structs.replace(self._connection.target, host=self.host).login

    async def run_program(
        self, argv: Sequence[str], /, *, given: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        client = await self._connection.client()
        ended = await run_program_on_host(client, argv, given=given, on_stdout=on_stdout)
        return ProgramEnded(ended.exit_code, ended.stderr.encode())

    async def tunnel(self, port: int) -> str:
        """A socket here that leads to a port there, made anew with each connection. Raises ``WorkspaceError``."""
        return await self._connection.tunnel(port)
