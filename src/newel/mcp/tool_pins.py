"""What a server's tools were when the user first had them: a description is a text for the model, and one that changes later
may be an attack.

``<home>/mcp_tools.json``, readable by its owner only. The first description, schema and read-only hint of each tool of a
server are accepted unseen, as the server itself was. One that differs from what was accepted is withheld until the user has
seen the difference and accepts it; what is accepted is what was shown, and no later one.
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
"""Characters of a schema that are kept to show what changed; of a longer one its digest tells that it did."""

_DIGEST: Final = "sha256:"


_NO_BOUND: Final = None
"""A file that could become too long to be read would forget what was accepted of every server, because of one that says much.
What a server may say is bounded."""


class Pin(msgspec.Struct, frozen=True):
    """A tool as it was on ``since``. ``schema`` is JSON; of one that is too long to keep it is a digest."""

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
    """``offered`` is what the server offers now, if that is not what was accepted."""

    accepted: Pin
    offered: Pin | None = None


class _PinFile(msgspec.Struct):
    version: int = 1
    servers: dict[str, dict[str, Pinned]] = {}


_Change = Callable[[_PinFile], None]


class Pins:
    """Read from the file each time, so that all of a user's processes know the same."""

    def __init__(self, home: Path) -> None:
        self._path = home / "mcp_tools.json"

    def unchanged(self, server: ServerConfig, tools: Sequence[ToolInfo]) -> list[ToolInfo]:
        """The tools that are as they were accepted; those that were never seen are by this. A disk that refuses costs the
        memory of new tools, and never lets a changed one through.
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
        """The tools that are withheld, by their names."""
        return {name: pinned for name, pinned in self._of(server).items() if pinned.offered is not None}

    def accept(self, server: ServerConfig, shown: dict[str, Pinned]) -> None:
        """Accept what ``changed`` returned. What the server offers by now and was not shown stays withheld."""

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
        """For a server that is named no more."""
        if self._at(_key(origin, name)):

            def drop(file: _PinFile) -> None:
                file.servers.pop(_key(origin, name), None)

            self._change(drop)

    def _of(self, server: ServerConfig) -> dict[str, Pinned]:
        return self._at(_key(server.origin, server.name))

    def _at(self, key: str) -> dict[str, Pinned]:
        return load_state(self._path, _PinFile, most=_NO_BOUND).servers.get(key, {})

    def _change(self, change: _Change) -> None:
        update_state(self._path, _PinFile, change, most=_NO_BOUND)


def differences(pinned: Pinned) -> Iterator[str]:
    """How a tool changed, line by line, in the server's words: a screen shows them with every hidden character written out."""
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
    # Only the first two lines are the names of files: one further down that looks like it is the server's.
    yield from (line for line in islice(diff, 2, None) if not line.startswith("@@"))


def _is_news(pinned: Pinned | None, pin: Pin) -> bool:
    """Whether the file does not know yet that a tool is so."""
    if pinned is None:
        return True
    if pinned.accepted.is_same(pin):
        return pinned.offered is not None
    return pinned.offered is None or not pinned.offered.is_same(pin)


def _key(origin: Path, name: str) -> str:
    return f"{origin}#{name}"
