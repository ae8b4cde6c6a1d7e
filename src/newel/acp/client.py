"""The client of a session: what Newel asks an editor to do, and what it shows there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from newel.acp import protocol as p
from newel.acp.client_methods import (
    CreateTerminalParams,
    CreateTerminalResult,
    ExitStatus,
    PermissionOption,
    PermissionOutcome,
    PermissionParams,
    PermissionResult,
    ReadFileParams,
    ReadFileResult,
    TerminalOutputResponse,
    TerminalParams,
    WriteFileParams,
)
from newel.acp.json_rpc import METHOD_NOT_FOUND, JsonRpcConnection, JsonRpcError
from newel.agent.errors import NewelError

CREATE_S: Final = 30.0
"""Seconds for the client to open a terminal."""

RELEASE_S: Final = 5.0
"""Seconds for the client to end a terminal."""


class SessionClient:
    """The client, for one session. ``capabilities`` shrink if a method that was offered does not exist."""

    def __init__(
        self, connection: JsonRpcConnection, session_id: str, capabilities: p.ClientCapabilities
    ) -> None:
        self._connection = connection
        self.session_id = session_id
        self.capabilities = capabilities

    def update(self, update: p.Update) -> None:
        self._connection.notify("session/update", p.SessionUpdate(session_id=self.session_id, update=update))

    async def request_permission(
        self, call: p.CallFields, options: list[PermissionOption]
    ) -> PermissionOutcome:
        """Raises ``JsonRpcError`` and ``PeerGone``."""
        params = PermissionParams(session_id=self.session_id, tool_call=call, options=options)
        result = await self._connection.request("session/request_permission", params, PermissionResult)
        return result.outcome

    # -- files ------------------------------------------------------------------------------------

    async def read_text(self, path: str) -> str | None:
        """The text of a file as the user sees it; None if the client cannot tell."""
        if not self.capabilities.reads:
            return None
        params = ReadFileParams(session_id=self.session_id, path=path)
        try:
            result = await self._connection.request("fs/read_text_file", params, ReadFileResult)
        except JsonRpcError:  # it is not open there, or outside of the editor's folders: the disk has it
            return None
        return result.content

    async def write_text(self, path: str, text: str, on_answer: Callable[[], object]) -> bool:
        """Let the client write a file; False if it has no such method. ``on_answer`` is called when it has answered, also if this is
        cancelled before. Raises ``JsonRpcError`` if it refuses.
        """
        params = WriteFileParams(session_id=self.session_id, path=path, content=text)
        try:
            await self._connection.request("fs/write_text_file", params, object, on_answer)
        except JsonRpcError as error:
            if error.number == METHOD_NOT_FOUND:
                return False
            raise
        return True

    # -- terminals --------------------------------------------------------------------------------

    async def _create(self, params: CreateTerminalParams) -> Terminal:
        # a cancelled one would run, and nobody would know its id
        with anyio.fail_after(CREATE_S, shield=True):
            created = await self._connection.request("terminal/create", params, CreateTerminalResult)
            return Terminal(self._connection, self.session_id, created.terminal_id)

    @asynccontextmanager
    async def terminal(
        self, command: str, args: list[str], *, env: Mapping[str, str], cwd: str, limit: int
    ) -> AsyncGenerator[Terminal]:
        """A terminal of the client, released at the end, which also kills its command. Raises ``JsonRpcError``, and
        ``TimeoutError`` if the client does not answer.
        """
        params = CreateTerminalParams(
            session_id=self.session_id,
            command=command,
            args=args,
            env=[p.NameAndValue(name=name, value=value) for name, value in env.items()],
            cwd=cwd,
            output_byte_limit=limit,
        )
        terminal = await self._create(params)
        try:
            yield terminal
        finally:
            with anyio.move_on_after(RELEASE_S, shield=True), suppress(NewelError):
                await terminal.release()


class Terminal:
    """A command that runs in a terminal of the client. All methods raise ``JsonRpcError`` and ``PeerGone``."""

    def __init__(self, connection: JsonRpcConnection, session_id: str, terminal_id: str) -> None:
        self.id = terminal_id
        self._connection = connection
        self._params = TerminalParams(session_id=session_id, terminal_id=terminal_id)

    async def output(self) -> TerminalOutputResponse:
        return await self._connection.request("terminal/output", self._params, TerminalOutputResponse)

    async def wait(self) -> ExitStatus:
        return await self._connection.request("terminal/wait_for_exit", self._params, ExitStatus)

    async def kill(self) -> None:
        await self._connection.request("terminal/kill", self._params, object)

    async def release(self) -> None:
        await self._connection.request("terminal/release", self._params, object)
