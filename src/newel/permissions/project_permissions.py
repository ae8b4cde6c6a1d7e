"""What agents may do in a project, for a front end that lists and revokes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from newel.agent.errors import NewelError
from newel.permissions.allowlist import Stamp
from newel.permissions.rule_book import RuleBook, RuleRow
from newel.permissions.rules import RuleSet


class PermissionList(msgspec.Struct, frozen=True):
    """``problems`` say why rules are missing: those of the project itself, or what answers have allowed."""

    rows: Sequence[RuleRow]
    problems: Sequence[str] = ()


class ProjectPermissions:
    """``load_project`` reads the rules that the project itself has now, ``open_book`` makes a book of them."""

    def __init__(
        self, load_project: Callable[[], Awaitable[RuleSet]], open_book: Callable[[RuleSet], RuleBook]
    ) -> None:
        self._load_project = load_project
        self._open_book = open_book
        self._answers = open_book(RuleSet())

    @property
    def stamps(self) -> tuple[Stamp, Stamp]:
        """Others, if what answers have allowed has changed."""
        return self._answers.allowlist.stamp, self._answers.servers.stamp

    async def list(self) -> PermissionList:
        """All rules and servers. Rules of the project that cannot be read are no reason to show none."""
        problems = self._answers.problems()
        try:
            return PermissionList(self._open_book(await self._load_project()).rows(), problems)
        except NewelError as error:
            return PermissionList(self._answers.rows(), [*problems, str(error)])

    def revoke(self, names: Sequence[str]) -> Sequence[str]:
        """See ``RuleBook.revoke``."""
        return self._answers.revoke(names)
