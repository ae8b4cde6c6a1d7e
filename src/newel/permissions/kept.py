"""The rules that answers have made, a list for each project: ``permissions.json`` in Newel's own folder.

A question offers them ("always for `git status`"). They only ever allow, in the project where the user was asked.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import ConfigError
from newel.agent.messages import now
from newel.permissions.rules import Rule, RuleSet, parse_rule
from newel.workspace.disk.state_file import load_state, update_state

FILE: Final = "permissions.json"


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
        self._stamp: tuple[int, int, int] | None = None
        self._rules = RuleSet()

    def current(self) -> RuleSet:
        """The rules as they are now, also if another Newel has changed them; the same object until then."""
        stamp = None
        with contextlib.suppress(OSError):
            status = self._path.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp != self._stamp:
            self._rules = RuleSet(allow=tuple(self._parsed()))
            self._stamp = stamp
        return self._rules

    def list(self) -> Sequence[KeptRule]:
        return load_state(self._path, _KeptFile).projects.get(self._project, [])

    def add(self, rules: Sequence[str]) -> None:
        """Keep rules. Raises ``ConfigError`` for one that is invalid, or if the disk refuses."""
        for rule in rules:
            parse_rule(rule)

        def add(file: _KeptFile) -> None:
            kept = file.projects.setdefault(self._project, [])
            known = {each.rule for each in kept}
            kept += [KeptRule(rule, now()) for rule in dict.fromkeys(rules) if rule not in known]

        update_state(self._path, _KeptFile, add)

    def revoke(self, names: Sequence[str] | None) -> Sequence[str]:
        """Forget the rules with these texts or ids, all for None; those that are gone. Raises ``ConfigError`` if the disk refuses."""
        gone: list[str] = []

        def revoke(file: _KeptFile) -> None:
            kept = file.projects.pop(self._project, [])
            gone[:] = [
                each.rule for each in kept if names is None or {each.rule, self.id_of(each.rule)} & {*names}
            ]
            if left := [each for each in kept if each.rule not in gone]:
                file.projects[self._project] = left

        update_state(self._path, _KeptFile, revoke)
        return gone

    def id_of(self, rule: str) -> str:
        """A short name of a kept rule: a digest of it and its project."""
        return hashlib.sha256(f"{self._project}\0{rule}".encode("utf-8", "surrogatepass")).hexdigest()[:8]

    def _parsed(self) -> Iterator[Rule]:
        for kept in self.list():
            with contextlib.suppress(ConfigError):  # written by hand, or by another version
                yield parse_rule(kept.rule)
