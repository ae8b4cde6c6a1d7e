"""How an MCP server is, as a screen shows it."""

from __future__ import annotations

from typing import Literal

from newel.agent.messages import Wire

ServerState = Literal["starting", "active", "broken", "untrusted", "disabled"]


class ToolStatus(Wire, frozen=True, kw_only=True):
    """One tool of a server; ``name`` is the server's own, without the ``server__`` before it."""

    name: str
    description: str = ""
    enabled: bool = True


class ServerStatus(Wire, frozen=True, kw_only=True):
    """``origin`` is the file that names the server, ``target`` the exact command line or the URL (in the user's own,
    secrets are masked), ``folder`` where the command runs, ``env`` the names of the variables that the server is given
    or that its configuration takes values from. ``reason`` says in words why a server is broken or waits, ``stderr``
    holds the last lines it wrote there.
    """

    name: str
    state: ServerState
    origin: str
    target: str
    folder: str = ""
    env: list[str] = []
    reason: str = ""
    stderr: str = ""
    tools: list[ToolStatus] = []
