"""The user's decisions about servers: which servers of a project may run, which are disabled, which tools are accepted.

``<home>/mcp_trust.json``, ``mcp_state.json`` and ``mcp_tools.json``, readable only by their owner and replaced atomically.
Trust is bound to everything that determines what runs: the file, the name, the command, its arguments,
environment and folder, the URL and the headers. If any of these changes, the user has to decide again.

A description is text for the model, so a later change may be an attack. The first description, schema and read-only hint of
each tool are accepted unseen, like the server itself. A tool that differs is withheld until the user has seen the
difference and accepts it; exactly the displayed version is accepted.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from newel.agent.errors import ConfigError
from newel.agent.messages import now
from newel.mcp.server_config import ServerConfig, server_key
from newel.mcp.types import ToolInfo
from newel.text.json import exact_json
from newel.workspace.disk.state_file import load_state, update_state

MAX_SCHEMA: Final = 32_000
"""Characters of a schema that are stored to show changes; of a longer one only the digest, which shows that it
changed.
"""

MAX_REMEMBERED: Final = 1_000
"""Tools of one server, twice as many as it may offer at a time."""

_DIGEST: Final = "sha256:"

_UNLIMITED: Final = None
"""No limit of the file's size: if one server made it too large to read, the decisions on all servers would be lost. What is remembered
of each server is limited.
"""


class Pin(msgspec.Struct, frozen=True):
    """A tool as it was ``since`` then. ``schema`` is JSON, or a digest if it is too long."""

    description: str
    schema: str
    reads: bool
    since: str

    @classmethod
    def of(cls, info: ToolInfo) -> Pin:
        schema = msgspec.json.encode(info.parameters, order="sorted")
        text = msgspec.json.format(schema, indent=2).decode()
        if len(text) > MAX_SCHEMA:
            text = f"{_DIGEST}{hashlib.sha256(schema).hexdigest()}"
        return cls(info.description, text, info.reads, now())

    def is_same(self, other: Pin) -> bool:
        return msgspec.structs.replace(self, since=other.since) == other


class PinnedTool(msgspec.Struct):
    """``offered`` is the server's current version, if it differs from the accepted one."""

    accepted: Pin
    offered: Pin | None = None


class _PinFile(msgspec.Struct):
    version: int = 1
    servers: dict[str, dict[str, PinnedTool]] = {}


class Pins:
    """Reads the file each time, so that all processes of the user agree."""

    def __init__(self, home: Path) -> None:
        self._path = home / "mcp_tools.json"

    def accepted(self, server: ServerConfig, tools: Sequence[ToolInfo]) -> list[ToolInfo]:
        """The tools that match their accepted versions; new tools are accepted by this, until ``MAX_REMEMBERED`` are. If the disk
        cannot be written, new tools are not remembered, and a changed tool is still withheld.
        """
        pins = {info.name: Pin.of(info) for info in tools}
        saved = self._of(server)
        is_full = len(saved) >= MAX_REMEMBERED
        if any(_differs(saved.get(name), pin) for name, pin in pins.items() if name in saved or not is_full):

            def save(file: _PinFile) -> None:
                entries = file.servers.setdefault(server.key, {})
                for name, pin in pins.items():
                    if name not in entries and len(entries) >= MAX_REMEMBERED:
                        continue
                    pinned = entries.setdefault(name, PinnedTool(pin))
                    pinned.offered = None if pinned.accepted.is_same(pin) else pin

            with contextlib.suppress(ConfigError):
                self._change(save)
            saved = self._of(server)  # not `pins`: another process may have accepted other versions first
        return [
            info
            for info in tools
            if _is_accepted(saved.get(info.name), pins[info.name], is_full=len(saved) >= MAX_REMEMBERED)
        ]

    def remembered(self, server: ServerConfig) -> frozenset[str]:
        """The names of the tools that have been accepted."""
        return frozenset(self._of(server))

    def withheld(self, server: ServerConfig) -> dict[str, PinnedTool]:
        """The withheld tools by name."""
        return {name: pinned for name, pinned in self._of(server).items() if pinned.offered is not None}

    def accept(self, server: ServerConfig, shown_tools: dict[str, PinnedTool]) -> None:
        """Accept the result of ``withheld``. A version that the server has offered since stays withheld."""

        def accept(file: _PinFile) -> None:
            entries = file.servers.get(server.key, {})
            for name, pinned in shown_tools.items():
                if pinned.offered is not None and name in entries:
                    entry = entries[name]
                    entry.accepted = pinned.offered
                    if entry.offered is not None and entry.offered.is_same(pinned.offered):
                        entry.offered = None

        self._change(accept)

    def forget(self, origin: Path, name: str) -> None:
        """Forget a server that is not configured any more."""
        key = server_key(origin, name)
        if key in self._servers():
            self._change(lambda file: file.servers.pop(key, None))

    def _of(self, server: ServerConfig) -> dict[str, PinnedTool]:
        return self._servers().get(server.key, {})

    def _servers(self) -> dict[str, dict[str, PinnedTool]]:
        return load_state(self._path, _PinFile, most=_UNLIMITED).servers

    def _change(self, change: Callable[[_PinFile], object]) -> None:
        update_state(self._path, _PinFile, change, most=_UNLIMITED)


def differences(pinned: PinnedTool) -> Iterator[str]:
    """The changes of a tool as lines, in the server's words: user interfaces show them with every hidden character
    escaped.
    """
    old, new = pinned.accepted, pinned.offered
    if new is None:
        return
    if old.reads != new.reads:
        yield f"now says that it {'only reads' if new.reads else 'may change something'}"
    if old.description != new.description:
        yield "description:"
        yield from _changed_lines(old.description, new.description)
    if old.schema != new.schema:
        yield "schema:"
        if any(schema.startswith(_DIGEST) for schema in (old.schema, new.schema)):
            yield f"more than {MAX_SCHEMA:,} characters, too long to be shown"
        else:
            yield from _changed_lines(old.schema, new.schema)


def _changed_lines(before: str, after: str) -> Iterator[str]:
    diff = difflib.unified_diff(before.split("\n"), after.split("\n"), n=2, lineterm="")
    # Only the first two lines are file names: a similar line further down is the server's.
    yield from (line for line in islice(diff, 2, None) if not line.startswith("@@"))


def _is_accepted(pinned: PinnedTool | None, pin: Pin, *, is_full: bool) -> bool:
    return not is_full if pinned is None else pinned.accepted.is_same(pin)


def _differs(pinned: PinnedTool | None, pin: Pin) -> bool:
    """Whether the file lacks this version of a tool."""
    if pinned is None:
        return True
    if pinned.accepted.is_same(pin):
        return pinned.offered is not None
    return pinned.offered is None or not pinned.offered.is_same(pin)


class _TrustEntry(msgspec.Struct, frozen=True):
    """For readers of the file: what the hash refers to, and since when."""

    name: str
    origin: str
    target: str
    since: str


class _TrustFile(msgspec.Struct):
    version: int = 1
    trusted: dict[str, _TrustEntry] = {}
    declined: dict[str, _TrustEntry] = {}


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

    def state(self, server: ServerConfig) -> Literal["trusted", "declined", "undecided"]:
        if server.level == "user":
            return "trusted"
        file, key = load_state(self._trust, _TrustFile), fingerprint(server)
        return "trusted" if key in file.trusted else "declined" if key in file.declined else "undecided"

    def is_trusted(self, server: ServerConfig) -> bool:
        return self.state(server) == "trusted"

    def decide(self, server: ServerConfig, trusted: bool | None) -> None:
        """Trust or decline a project's server as it is; None removes the decision."""

        def change(file: _TrustFile) -> None:
            key = fingerprint(server)
            file.trusted.pop(key, None)
            file.declined.pop(key, None)
            if trusted is not None:
                decisions = file.trusted if trusted else file.declined
                decisions[key] = _TrustEntry(server.name, str(server.origin), server.target, now())

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
        return load_state(self._state, _StateFile).servers.get(server.key, _Switches())

    def _switch(self, server: ServerConfig, change: Callable[[_Switches], None]) -> None:
        def whole(file: _StateFile) -> None:
            switches = file.servers.setdefault(server.key, _Switches())
            change(switches)
            if switches == _Switches():
                del file.servers[server.key]

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
    return hashlib.sha256(exact_json(what)).hexdigest()
