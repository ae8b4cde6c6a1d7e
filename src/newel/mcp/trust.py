"""The user's decisions about servers: which servers of a project may run, and which servers are disabled.

``<home>/mcp_trust.json`` and ``<home>/mcp_state.json``, readable only by their owner and replaced atomically.
Trust is bound to everything that determines what runs: the file, the name, the command, its arguments,
environment and folder, the URL and the headers. If any of these changes, the user has to decide again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from newel.agent.messages import now
from newel.mcp.server_config import ServerConfig
from newel.mcp.tool_pins import Pins
from newel.workspace.disk.state_file import load_state, update_state


class _Trusted(msgspec.Struct, frozen=True):
    """For readers of the file: what the hash refers to, and since when."""

    name: str
    origin: str
    target: str
    since: str


class _TrustFile(msgspec.Struct):
    version: int = 1
    trusted: dict[str, _Trusted] = {}


class _Switches(msgspec.Struct):
    """Overrides of a server's file; None means as in the file."""

    enabled: bool | None = None
    tools_off: list[str] = []


class _StateFile(msgspec.Struct):
    version: int = 1
    servers: dict[str, _Switches] = {}


class Trust:
    """The decisions. Reads the files each time, so that all processes of the user agree.

    An unreadable file trusts and overrides nothing; writing raises ``ConfigError`` if the disk refuses.
    """

    def __init__(self, home: Path) -> None:
        self._trust = home / "mcp_trust.json"
        self._state = home / "mcp_state.json"
        self.pins = Pins(home)

    def is_trusted(self, server: ServerConfig) -> bool:
        return server.level == "user" or fingerprint(server) in load_state(self._trust, _TrustFile).trusted

    def set_trusted(self, server: ServerConfig, trusted: bool) -> None:
        def change(file: _TrustFile) -> None:
            if trusted:
                file.trusted[fingerprint(server)] = _Trusted(
                    server.name, str(server.origin), server.target, now()
                )
            else:
                file.trusted.pop(fingerprint(server), None)

        if server.level == "project":
            update_state(self._trust, _TrustFile, change)

    def is_enabled(self, server: ServerConfig) -> bool:
        switch = self._switches(server).enabled
        return not server.disabled if switch is None else switch

    def set_enabled(self, server: ServerConfig, enabled: bool) -> None:
        def change(switches: _Switches) -> None:
            switches.enabled = None if enabled is not server.disabled else enabled

        self._switch(server, change)

    def tools_off(self, server: ServerConfig) -> frozenset[str]:
        return frozenset(self._switches(server).tools_off)

    def set_tool(self, server: ServerConfig, tool: str, enabled: bool) -> None:
        def change(switches: _Switches) -> None:
            others = [name for name in switches.tools_off if name != tool]
            switches.tools_off = others if enabled else [*others, tool]

        self._switch(server, change)

    def _switches(self, server: ServerConfig) -> _Switches:
        return load_state(self._state, _StateFile).servers.get(_key(server), _Switches())

    def _switch(self, server: ServerConfig, change: Callable[[_Switches], None]) -> None:
        def whole(file: _StateFile) -> None:
            switches = file.servers.setdefault(_key(server), _Switches())
            change(switches)
            if switches == _Switches():
                del file.servers[_key(server)]

        update_state(self._state, _StateFile, whole)


def fingerprint(server: ServerConfig) -> str:
    """SHA-256 of everything that determines what a server is and does."""
    what: list[Any] = [
        str(server.origin),
        server.name,
        server.command,
        server.args,
        sorted(server.env.items()),
        server.cwd,
        server.url,
        sorted(server.headers.items()),
    ]
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()


def _key(server: ServerConfig) -> str:
    return f"{server.origin}#{server.name}"
