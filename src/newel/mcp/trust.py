"""What a person has decided about servers: which of a project's may run, and what is switched off.

``<home>/mcp_trust.json`` and ``<home>/mcp_state.json``, readable by their owner only and replaced whole. Trust is
bound to everything that says what will run: the file, the name, the command, its arguments, environment and folder,
the URL and the headers. Whatever of that changes, the decision is asked for again.
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
    """For the reader of the file: what the hash stands for, and since when."""

    name: str
    origin: str
    target: str
    since: str


class _TrustFile(msgspec.Struct):
    version: int = 1
    trusted: dict[str, _Trusted] = {}


class _Switches(msgspec.Struct):
    """What differs from a server's file: None is what the file says."""

    enabled: bool | None = None
    tools_off: list[str] = []


class _StateFile(msgspec.Struct):
    version: int = 1
    servers: dict[str, _Switches] = {}


class Trust:
    """The decisions, read from their files each time, so that all of a user's processes know the same.

    A file that cannot be read trusts nobody and switches nothing; writing raises ``ConfigError`` if the disk refuses.
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
    """SHA-256 of all that decides what a server is and does."""
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
