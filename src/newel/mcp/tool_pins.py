"""Records of servers' tools as the user accepted them. A description is text for the model, so a later change may be
an attack.

``<home>/mcp_tools.json``, readable only by its owner. The first description, schema and read-only hint of each
tool are accepted unseen, like the server itself. A tool that differs is withheld until the user has seen the
difference and accepts it; exactly the displayed version is accepted.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import ConfigError
from newel.agent.messages import now
from newel.mcp.server_config import ServerConfig
from newel.mcp.types import ToolInfo
from newel.workspace.disk.state_file import load_state, update_state

KEPT: Final = 32_000
"""Characters of a schema that are stored to show changes; of a longer one only the digest, which shows that it
changed.
"""

_DIGEST: Final = "sha256:"

_UNLIMITED: Final = None
"""No limit of the file's size: if one server made it too large to read, the decisions on all servers would be lost. The
output of each server is limited.
"""


class Pin(msgspec.Struct, frozen=True):
    """A tool as it was ``since`` then. ``schema`` is JSON, or a digest if it is too long."""

    description: str
    schema: str
    reads: bool
    since: str

    @classmethod
    def of(cls, facts: ToolInfo) -> Pin:
        schema = msgspec.json.encode(facts.parameters, order="sorted")
        kept = msgspec.json.format(schema, indent=2).decode()
        if len(kept) > KEPT:
            kept = f"{_DIGEST}{hashlib.sha256(schema).hexdigest()}"
        return cls(facts.description, kept, facts.reads, now())

    def is_same(self, other: Pin) -> bool:
        return msgspec.structs.replace(self, since=other.since) == other


class Pinned(msgspec.Struct):
    """``offered`` is the server's current version, if it differs from the accepted one."""

    accepted: Pin
    offered: Pin | None = None


class _PinFile(msgspec.Struct):
    version: int = 1
    servers: dict[str, dict[str, Pinned]] = {}


_Change = Callable[[_PinFile], None]


class Pins:
    """Reads the file each time, so that all processes of the user agree."""

    def __init__(self, home: Path) -> None:
        self._path = home / "mcp_tools.json"

    def unchanged(self, server: ServerConfig, tools: Sequence[ToolInfo]) -> list[ToolInfo]:
        """The tools that match their accepted versions; new tools are accepted by this. If the disk cannot be
        written, new tools are not remembered, and a changed tool is still withheld.
        """
        pins = {facts.name: Pin.of(facts) for facts in tools}
        known = self._of(server)
        if any(_is_news(known.get(name), pin) for name, pin in pins.items()):

            def note(file: _PinFile) -> None:
                there = file.servers.setdefault(_key(server.origin, server.name), {})
                for name, pin in pins.items():
                    pinned = there.setdefault(name, Pinned(pin))
                    pinned.offered = None if pinned.accepted.is_same(pin) else pin

            with contextlib.suppress(ConfigError):
                self._change(note)
            known = self._of(server)
        return [
            facts
            for facts in tools
            if (pinned := known.get(facts.name)) is None or pinned.accepted.is_same(pins[facts.name])
        ]

    def changed(self, server: ServerConfig) -> dict[str, Pinned]:
        """The withheld tools by name."""
        return {name: pinned for name, pinned in self._of(server).items() if pinned.offered is not None}

    def accept(self, server: ServerConfig, shown: dict[str, Pinned]) -> None:
        """Accept the result of ``changed``. A version that the server has offered since stays withheld."""

        def take(file: _PinFile) -> None:
            there = file.servers.get(_key(server.origin, server.name), {})
            for name, pinned in shown.items():
                if pinned.offered is not None and name in there:
                    offered = there[name].offered
                    there[name].accepted = pinned.offered
                    there[name].offered = (
                        None if offered is None or offered.is_same(pinned.offered) else offered
                    )

        self._change(take)

    def forget(self, origin: Path, name: str) -> None:
        """Forget a server that is not configured any more."""
        if self._at(_key(origin, name)):

            def drop(file: _PinFile) -> None:
                file.servers.pop(_key(origin, name), None)

            self._change(drop)

    def _of(self, server: ServerConfig) -> dict[str, Pinned]:
        return self._at(_key(server.origin, server.name))

    def _at(self, key: str) -> dict[str, Pinned]:
        return load_state(self._path, _PinFile, most=_UNLIMITED).servers.get(key, {})

    def _change(self, change: _Change) -> None:
        update_state(self._path, _PinFile, change, most=_UNLIMITED)


def differences(pinned: Pinned) -> Iterator[str]:
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
            yield f"more than {KEPT:,} characters, too long to be shown"
        else:
            yield from _changed_lines(old.schema, new.schema)


def _changed_lines(before: str, after: str) -> Iterator[str]:
    diff = difflib.unified_diff(before.split("\n"), after.split("\n"), n=2, lineterm="")
    # Only the first two lines are file names: a similar line further down is the server's.
    yield from (line for line in islice(diff, 2, None) if not line.startswith("@@"))


def _is_news(pinned: Pinned | None, pin: Pin) -> bool:
    """Whether the file lacks this version of a tool."""
    if pinned is None:
        return True
    if pinned.accepted.is_same(pin):
        return pinned.offered is not None
    return pinned.offered is None or not pinned.offered.is_same(pin)


def _key(origin: Path, name: str) -> str:
    return f"{origin}#{name}"
