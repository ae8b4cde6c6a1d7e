"""What a connection to a host gives beside a folder there: its programs, and its ports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from newel.providers.ollama_run import Ended
from newel.workspace.ssh.connection import Connection
from newel.workspace.ssh.runner import run_program_on_host


class HostPrograms:
    """Fulfils ``newel.providers.ollama_run.Programs``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def host(self) -> str:
        return self._connection.host

    @property
    def place(self) -> str:
        return msgspec.structs.replace(self._connection.target, host=self.host).login

    async def run_program(
        self, argv: Sequence[str], /, *, given: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> Ended:
        client = await self._connection.client()
        ended = await run_program_on_host(client, argv, given=given, on_stdout=on_stdout)
        return Ended(ended.exit_code, ended.stderr.encode())

    async def tunnel(self, port: int) -> str:
        """A socket here that leads to a port there, made anew with each connection. Raises ``WorkspaceError``."""
        return await self._connection.tunnel(port)
