"""What answers have allowed, a list for each project: rules in ``permissions.json`` of Newel's own folder, and servers for the commands
in the sandbox in ``sandbox_servers.json``.

A question offers them ("always for `git status`"). They only ever allow, in the project where the user was asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.errors import ConfigError
from newel.agent.messages import now
from newel.permissions.rules import Rule, RuleSet, parse_rule
from newel.workspace.disk.state_file import check_state, load_state, update_state

if TYPE_CHECKING:
    from newel.workspace.sandbox.domains import Domain

FILE: Final = "permissions.json"
SERVERS_FILE: Final = "sandbox_servers.json"

Stamp = tuple[int, int, int] | None
"""Another one if a file was replaced; None for no file."""


class KeptRule(msgspec.Struct, frozen=True):
    """``rule`` as it would stand in ``config.toml``; ``since`` is when it was kept, in ISO 8601."""

    rule: str
    since: str


class _KeptFile(msgspec.Struct):
    version: int = 1
    projects: dict[str, list[KeptRule]] = {}


class KeptRules:
    """The kept rules of one project. ``home`` is Newel's folder, ``project`` the name of the project's: a path, or ``ssh://…``."""

    def __init__(self, home: Path, project: str) -> None:
        self._path = home / FILE
        self._project = project
        self._stamp: Stamp = None
        self._rules = RuleSet()

    def current(self) -> RuleSet:
        """The rules as they are now, also if another Newel has changed them; the same object until then."""
        if (stamp := stamp_of(self._path)) != self._stamp:
            self._rules = RuleSet(allow=tuple(self._parsed()))
            self._stamp = stamp
        return self._rules

    @property
    def stamp(self) -> Stamp:
        return stamp_of(self._path)

    def check(self) -> None:
        """Raises ``ConfigError`` if the file is damaged, and so allows nothing."""
        check_state(self._path, _KeptFile)

    def list(self) -> Sequence[KeptRule]:
        return load_state(self._path, _KeptFile).projects.get(self._project, [])

    def add(self, rules: Sequence[str]) -> None:
        """Keep rules. Raises ``ConfigError`` for one that is invalid, if the file is damaged, or if the disk refuses."""
        for rule in rules:
            parse_rule(rule)

        def add(file: _KeptFile) -> None:
            kept = file.projects.setdefault(self._project, [])
            known = {each.rule for each in kept}
            kept += [KeptRule(rule, now()) for rule in dict.fromkeys(rules) if rule not in known]

        update_state(self._path, _KeptFile, add, keeps_damaged=True)

    def revoke(self, names: Sequence[str] | None) -> Sequence[str]:
        """Forget the rules with these texts or ids, all for None; those that are gone. Raises ``ConfigError`` as ``add`` does."""
        if not any(_is_named(each.rule, self.id_of(each.rule), names) for each in self.list()):
            self.check()
            return ()
        gone: list[str] = []

        def revoke(file: _KeptFile) -> None:
            kept = file.projects.pop(self._project, [])
            gone[:] = [each.rule for each in kept if _is_named(each.rule, self.id_of(each.rule), names)]
            if left := [each for each in kept if each.rule not in gone]:
                file.projects[self._project] = left

        update_state(self._path, _KeptFile, revoke, keeps_damaged=True)
        return gone

    def id_of(self, rule: str) -> str:
        """A short name of a kept rule: a digest of it and its project."""
        return _digest(self._project, rule)

    def _parsed(self) -> Iterator[Rule]:
        for kept in self.list():
            with contextlib.suppress(ConfigError):  # written by hand, or by another version
                yield parse_rule(kept.rule)


class KeptServers:
    """The servers that commands in the sandbox of one project may reach, written as in ``[sandbox] domains``. ``project`` is its folder."""

    def __init__(self, home: Path, project: str) -> None:
        self._path = home / SERVERS_FILE
        self._project = project
        self._stamp: Stamp = None
        self._domains: Sequence[Domain] = ()

    def current(self) -> Sequence[Domain]:
        """As they are now, also if another Newel has changed them."""
        if (stamp := stamp_of(self._path)) != self._stamp:
            self._domains = tuple(self._parsed())
            self._stamp = stamp
        return self._domains

    @property
    def stamp(self) -> Stamp:
        return stamp_of(self._path)

    def check(self) -> None:
        """As that of ``KeptRules``."""
        check_state(self._path, dict[str, list[str]])

    def list(self) -> Sequence[str]:
        return load_state(self._path, dict[str, list[str]]).get(self._project, [])

    def add(self, server: str) -> None:
        """Keep a server. Raises ``ConfigError`` as that of ``KeptRules`` does."""
        from newel.workspace.sandbox.domains import parse_domain

        parse_domain(server)

        def add(file: dict[str, list[str]]) -> None:
            file[self._project] = [*dict.fromkeys([*file.get(self._project, []), server])]

        update_state(self._path, dict[str, list[str]], add, keeps_damaged=True)

    def revoke(self, names: Sequence[str] | None) -> Sequence[str]:
        """As that of ``KeptRules``."""
        if not any(_is_named(each, self.id_of(each), names) for each in self.list()):
            self.check()
            return ()
        gone: list[str] = []

        def revoke(file: dict[str, list[str]]) -> None:
            kept = file.pop(self._project, [])
            gone[:] = [each for each in kept if _is_named(each, self.id_of(each), names)]
            if left := [each for each in kept if each not in gone]:
                file[self._project] = left

        update_state(self._path, dict[str, list[str]], revoke, keeps_damaged=True)
        return gone

    def id_of(self, server: str) -> str:
        """A short name of a kept server, which no rule has."""
        return _digest(self._project, "server", server)

    def _parsed(self) -> Iterator[Domain]:
        from newel.workspace.sandbox.domains import parse_domain

        for text in self.list():
            with contextlib.suppress(ConfigError):
                yield parse_domain(text)


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


def _is_named(text: str, name: str, names: Collection[str] | None) -> bool:
    return names is None or text in names or name in names


def _digest(*parts: str) -> str:
    import hashlib

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:8]
