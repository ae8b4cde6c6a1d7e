"""Composes ``newel acp``: the sessions that an editor opens, each with its agent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from newel.acp import protocol as p
from newel.acp.server import AcpServer
from newel.config.settings import Flags, load_settings, newel_home
from newel.providers.families import FAMILIES
from newel.terminal.signals import exit_code, on_signals
from newel.terminal.stdout import discard_stdout, write_all
from newel.terminal.ui.line_reader import LineReader

if TYPE_CHECKING:
    from newel.acp.client import SessionClient
    from newel.acp.editor_files import EditorGate
    from newel.acp.session import AcpSession, SessionParts
    from newel.config.settings import Settings
    from newel.mcp.server_config import ServerConfig
    from newel.permissions.approval import ApprovalMode
    from newel.session.coding_agent import CodingAgent
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.sandbox.policy import SandboxMode

BY_HAND: Final = (
    "newel: newel acp is for editors: it reads the Agent Client Protocol from standard input. "
    "`newel help acp` shows how to set up yours; Ctrl+D leaves."
)

TERMINAL_AUTH: Final = ["doctor"]
"""Arguments of the command that shows what is configured, and what to do."""


def run_acp(flags: Flags) -> int:
    """Serve an editor on standard input and output; returns the exit code."""
    if sys.stdin.isatty():
        print(BY_HAND, file=sys.stderr)  # noqa: T201 — for the user
    # Whatever prints something must not break the protocol.
    out = os.dup(1)
    os.dup2(2, 1)
    return anyio.run(_serve, AcpServer(EditorSessions(flags, os.environ)), out)


async def _serve(server: AcpServer, out: int) -> int:
    ended_by: signal.Signals | None = None
    scope = anyio.CancelScope()

    def end(number: signal.Signals) -> None:
        nonlocal ended_by
        ended_by = number
        scope.cancel()

    try:
        async with on_signals(end):
            with scope:
                await server.serve(LineReader(0), partial(write_all, out))
    except OSError as error:
        discard_stdout(error)
        return 1
    return exit_code(ended_by) if ended_by else 0


class EditorSessions:
    """Implements ``newel.acp.server.Application``: ``flags`` are those of the command line."""

    def __init__(self, flags: Flags, environ: Mapping[str, str]) -> None:
        self.home = newel_home(environ)
        self._flags = flags
        self._environ = environ
        self._gate: EditorGate | None = None

    def auth_methods(self, *, terminal: bool) -> list[p.AuthMethod]:
        methods = [
            p.AuthMethod(
                id=family.name.lower(),
                name=family.variables["api_key"],
                description=f"An API key for {family.base_url}",
                type="env_var",
                vars=[p.EnvVariable(name=family.variables["api_key"])],
            )
            for family in FAMILIES
            if family.base_url
        ]
        if terminal:
            doctor = p.AuthMethod(
                id="doctor",
                name="newel doctor",
                description="Show which models are configured, and how to configure one",
                type="terminal",
                args=TERMINAL_AUTH,
            )
            methods.insert(0, doctor)
        return methods

    def session(self, folder: Path, servers: list[p.McpServer], client: SessionClient) -> AcpSession:
        from newel.acp.session import AcpSession
        from newel.app.extra_tools import for_conversation

        settings = for_conversation(load_settings(self._flags, cwd=folder, environ=self._environ))
        # An editor shows the questions, so they are asked, unless the user has chosen an approval mode.
        mode: ApprovalMode = settings.approve if "approve" in settings.origins else "ask"
        open_agent = partial(self._open_agent, settings, _configs(servers), client)
        return AcpSession(open_agent, client, mode, root=str(folder), home=self.home)

    def _open_agent(
        self,
        settings: Settings,
        servers: list[ServerConfig],
        client: SessionClient,
        mode: ApprovalMode,
        parts: SessionParts,
    ) -> AbstractAsyncContextManager[CodingAgent]:
        import msgspec

        from newel.acp.workspace import ClientHost
        from newel.app.agent_factory import AgentOptions, AgentParts, open_agent

        def through_client(place: ExecutionHost, sandbox: SandboxMode) -> ExecutionHost:
            # The client's terminals are outside of any sandbox.
            in_terminals = sandbox == "off"
            return ClientHost(
                place,
                client,
                self._environ,
                gate=self._find_gate(),
                on_terminal=parts.on_terminal,
                note=parts.note,
                in_terminals=in_terminals,
            )

        settings = msgspec.structs.replace(settings, approve=mode)
        return open_agent(
            settings,
            AgentOptions(flags=self._flags, cwd=settings.cwd),
            parts.ask,
            wait_for_tools=False,
            parts=AgentParts(
                host=through_client
                if settings.host is None
                else None,  # the editor's files are those of this machine
                session_id=client.session_id,
                mcp_servers=servers,
            ),
        )

    def _find_gate(self) -> EditorGate:
        """One for all sessions: a command of one may run in the folder of another."""
        from newel.acp.editor_files import EditorGate
        from newel.workspace.process.left_processes import may_run

        if self._gate is None:
            self._gate = EditorGate(may_run)
        return self._gate

    def grant(self, sessions: list[AcpSession]) -> None:
        from newel.workspace.process import process_mark

        modes = [session.mode for session in sessions]
        process_mark.grant(min(modes, key=process_mark.RIGHTS.index, default="auto"))


def _configs(servers: list[p.McpServer]) -> list[ServerConfig]:
    """The editor's MCP servers, which are the user's own. Raises ``ConfigError`` for one that Newel cannot use."""
    import msgspec

    from newel.mcp.server_config import parse_entry

    origin = Path("the editor")
    return [
        parse_entry(
            server.name,
            msgspec.json.encode(
                {
                    "command": server.command,
                    "args": server.args,
                    "env": {variable.name: variable.value for variable in server.env},
                    "type": server.type,
                    "url": server.url,
                    "headers": {header.name: header.value for header in server.headers},
                }
            ),
            origin,
            "user",
        )
        for server in servers
    ]
