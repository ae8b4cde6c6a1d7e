"""What answers have allowed, a list for each project: rules in ``permissions.json`` of Newel's own folder, and servers for the commands
in the sandbox in ``sandbox_servers.json``.

A question offers them ("always for `git status`"). They only ever allow, in the project where the user was asked.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from newel.agent.errors import ConfigError
from newel.agent.messages import now
from newel.permissions.rules import Rule, parse_rule
from newel.workspace.disk.state_file import check_state, load_state, update_state

if TYPE_CHECKING:
    from newel.workspace.sandbox.domains import Domain

FILE: Final = "permissions.json"
SERVERS_FILE: Final = "sandbox_servers.json"

Stamp = tuple[int, int, int] | None
"""Another one if a file was replaced; None for no file."""

File = TypeVar("File")
Entry = TypeVar("Entry")
Parsed = TypeVar("Parsed")


class _Allowlist(ABC, Generic[File, Entry, Parsed]):
    """The list of one project. ``path`` is the file of all projects, ``kind`` its type, ``project`` the name of the project's folder: a
    path, or ``ssh://…``.
    """

    def __init__(self, path: Path, kind: type[File], project: str) -> None:
        self._path = path
        self._kind = kind
        self._project = project
        self._stamp: Stamp = None
        self._current: tuple[Parsed, ...] = ()

    @abstractmethod
    def _lists(self, file: File) -> dict[str, list[Entry]]:
        """The entries by project."""

    @abstractmethod
    def _entry(self, text: str) -> Entry: ...

    @abstractmethod
    def _text(self, entry: Entry) -> str: ...

    @abstractmethod
    def _parse(self, text: str) -> Parsed:
        """Raises ``ConfigError`` for an invalid text."""

    @abstractmethod
    def id_of(self, text: str) -> str:
        """A short name of an entry, by which it is revoked: a digest of it and its project."""

    def current(self) -> Sequence[Parsed]:
        """The valid entries as they are now, also if another Newel has changed them; the same object until then."""
        if (stamp := self.stamp) != self._stamp:
            self._current = tuple(self._parsed())
            self._stamp = stamp
        return self._current

    @property
    def stamp(self) -> Stamp:
        with contextlib.suppress(OSError):
            status = self._path.stat()
            return status.st_ino, status.st_size, status.st_mtime_ns
        return None

    def check(self) -> None:
        """Raises ``ConfigError`` if the file is damaged, and so allows nothing."""
        check_state(self._path, self._kind)

    def entries(self) -> Sequence[Entry]:
        return self._lists(load_state(self._path, self._kind)).get(self._project, [])

    def add(self, texts: Sequence[str]) -> None:
        """Raises ``ConfigError`` for a text that is invalid, if the file is damaged, or if the disk refuses."""
        for text in texts:
            self._parse(text)

        def add(file: File) -> None:
            entries = self._lists(file).setdefault(self._project, [])
            existing = {self._text(each) for each in entries}
            entries += [self._entry(text) for text in dict.fromkeys(texts) if text not in existing]

        update_state(self._path, self._kind, add, keeps_damaged=True)

    def revoke(self, names: Collection[str] | None) -> Sequence[str]:
        """Remove the entries with these texts or ids, all for None; their texts. Raises ``ConfigError`` as ``add`` does."""
        if not any(self._is_named(each, names) for each in self.entries()):
            self.check()
            return ()
        gone: list[str] = []

        def revoke(file: File) -> None:
            lists = self._lists(file)
            entries = lists.pop(self._project, [])
            gone[:] = [self._text(each) for each in entries if self._is_named(each, names)]
            if left := [each for each in entries if not self._is_named(each, names)]:
                lists[self._project] = left

        update_state(self._path, self._kind, revoke, keeps_damaged=True)
        return gone

    def _is_named(self, entry: Entry, names: Collection[str] | None) -> bool:
        text = self._text(entry)
        return names is None or text in names or self.id_of(text) in names

    def _parsed(self) -> Iterator[Parsed]:
        for entry in self.entries():
            with contextlib.suppress(ConfigError):  # written by hand, or by another version
                yield self._parse(self._text(entry))


class AllowedRule(msgspec.Struct, frozen=True):
    """``rule`` as it would stand in ``config.toml``; ``since`` is when it was allowed, in ISO 8601."""

    rule: str
    since: str


class _RuleFile(msgspec.Struct):
    version: int = 1
    projects: dict[str, list[AllowedRule]] = {}


class RuleAllowlist(_Allowlist[_RuleFile, AllowedRule, Rule]):
    """The rules that answers have made in a project. ``home`` is Newel's folder."""

    def __init__(self, home: Path, project: str) -> None:
        super().__init__(home / FILE, _RuleFile, project)

    def _lists(self, file: _RuleFile) -> dict[str, list[AllowedRule]]:
        return file.projects

    def _entry(self, text: str) -> AllowedRule:
        return AllowedRule(text, now())

    def _text(self, entry: AllowedRule) -> str:
        return entry.rule

    def _parse(self, text: str) -> Rule:
        return parse_rule(text)

    def id_of(self, text: str) -> str:
        return _digest(self._project, text)


class ServerAllowlist(_Allowlist[dict[str, list[str]], str, "Domain"]):
    """The servers that commands in the sandbox of one project may reach, written as in ``[sandbox] domains``. ``home`` is Newel's
    folder.
    """

    def __init__(self, home: Path, project: str) -> None:
        super().__init__(home / SERVERS_FILE, dict[str, list[str]], project)

    def _lists(self, file: dict[str, list[str]]) -> dict[str, list[str]]:
        return file

    def _entry(self, text: str) -> str:
        return text

    def _text(self, entry: str) -> str:
        return entry

    def _parse(self, text: str) -> Domain:
        from newel.workspace.sandbox.domains import parse_domain

        return parse_domain(text)

    def id_of(self, text: str) -> str:
        return _digest(self._project, "server", text)  # not that of a rule with the same text


def _digest(*parts: str) -> str:
    import hashlib

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:8]
