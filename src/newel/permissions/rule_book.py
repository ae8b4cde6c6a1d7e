"""The rules of one agent: the user's, the project's, and those that answers have made; and the servers that its commands may reach."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from newel.agent.errors import ConfigError
from newel.agent.ports import Touch
from newel.permissions.allowlist import FILE as ANSWERS_FILE
from newel.permissions.allowlist import SERVERS_FILE, RuleAllowlist, ServerAllowlist
from newel.permissions.judgement import UNKNOWN, CallJudgement, ProjectView
from newel.permissions.project_rules import FILE as PROJECT_FILE
from newel.permissions.rules import COMMANDS, WEB, Effect, PathRule, Rule, RuleSet, ToolRule, WebRule
from newel.permissions.secret_paths import SecretPaths
from newel.workspace.sandbox.policy import SETTINGS_OF_TOOLS

if TYPE_CHECKING:
    from newel.workspace.sandbox.domains import Domain
    from newel.workspace.sandbox.reach import PageAccess

NO_RULE_FOR_SERVER: Final = 'no rule allows {server}: [permissions] allow = ["{rule}"] in config.toml would'

FILE_TOOLS: Final = frozenset({"write", "edit"})
"""Tools that change nothing but the files that they say they touch."""


class RuleBook:
    """``settings`` are the rules of the user's settings, ``project`` those of the project, ``allowlist`` those that answers have made.
    ``domains`` are the servers of the settings, ``servers`` those that answers have allowed.
    """

    def __init__(
        self,
        settings: RuleSet,
        project: RuleSet,
        allowlist: RuleAllowlist,
        *,
        domains: Sequence[str] = (),
        servers: ServerAllowlist,
    ) -> None:
        self.settings = settings
        self.project = project
        self.allowlist = allowlist
        self._domains = domains
        self.servers = servers
        self._written = settings | project
        self._merged: tuple[Sequence[Rule], RuleSet] | None = None

    @property
    def may_stop_calls(self) -> bool:
        """Whether some rule asks or denies: kept ones never do."""
        return bool(self._written.ask or self._written.deny)

    def current(self) -> RuleSet:
        """All rules as they are now; the same object until they change."""
        allowed = self.allowlist.current()
        if self._merged is None or self._merged[0] is not allowed:
            self._merged = allowed, self._written | RuleSet(allow=tuple(allowed))
        return self._merged[1]

    @property
    def closes_web(self) -> bool:
        """Whether a rule forbids all pages of the web."""
        return bool(_of_tool(self.current().deny, WEB))

    @property
    def opens_web(self) -> bool:
        """Whether some server's pages may be fetched without asking."""
        allowed = self.current().allow
        return bool(
            _of_tool(allowed, WEB)
            or any(isinstance(rule, WebRule) for rule in allowed)
            or self._domains
            or self.servers.current()
        )

    def server_rule(self, effect: Effect, host: str, port: int) -> str:
        """The first rule with this effect about the pages of a server; empty for none."""
        rules = self.current().by_effect()[effect]
        found = (rule for rule in rules if isinstance(rule, WebRule) and rule.matches(host, port, effect))
        return next(map(str, found), "") or _of_tool(rules, WEB)

    def server_access(self, host: str, port: int) -> PageAccess:
        """What a fetched page's server may be: one that commands may reach, too, or one of a rule about pages. What is in a private network
        or on this machine needs its very name in the user's settings, where no answer to a question has put it.
        """
        from newel.workspace.sandbox.reach import PageAccess
        from newel.workspace.sandbox.web_address import is_literal

        if self.server_rule("deny", host, port) or self.server_rule("ask", host, port):
            return PageAccess()
        domains = [*self._configured(), *self.servers.current()]
        written = [
            rule
            for rule in self.settings.allow
            if isinstance(rule, WebRule) and rule.matches(host, port, "allow") and rule.names(host)
        ]
        return PageAccess(
            is_allowed=bool(self.server_rule("allow", host, port))
            or any(domain.matches(host, port) for domain in domains),
            is_named=bool(written)
            or any(each.name == host and each.matches(host, port) for each in self._configured()),
            is_own=bool(written) and is_literal(host),
        )

    def _configured(self) -> list[Domain]:
        from newel.workspace.sandbox.domains import parse_domain

        domains: list[Domain] = []
        for text in self._domains:
            with contextlib.suppress(ConfigError):  # the sandbox tells the user
                domains.append(parse_domain(text))
        return domains

    def rows(self) -> list[RuleRow]:
        """All rules, the strongest first, and behind them the servers."""
        rules = [
            RuleRow(effect, str(rule), where)
            for where, rules in ((SETTINGS, self.settings), (PROJECT_FILE, self.project))
            for effect, some in rules.by_effect().items()
            for rule in some
        ]
        rules += [
            RuleRow("allow", each.rule, ANSWERS_FILE, since=each.since, id=self.allowlist.id_of(each.rule))
            for each in self.allowlist.entries()
        ]
        rules.sort(key=lambda row: ("deny", "ask", "allow").index(row.effect))
        servers = [RuleRow("allow", domain, SETTINGS, kind="server") for domain in self._domains]
        servers += [
            RuleRow("allow", each, SERVERS_FILE, id=self.servers.id_of(each), kind="server")
            for each in self.servers.entries()
        ]
        return [*rules, *servers]

    def revoke(self, names: Sequence[str] | None) -> Sequence[str]:
        """Forget what answers have allowed: the rules and servers with these texts or ids, all for None; those that are gone. Raises
        ``ConfigError`` if a file is damaged, or the disk refuses.
        """
        gone: list[str] = []
        problems: list[ConfigError] = []
        for allowlist in (self.allowlist, self.servers):
            try:
                gone += allowlist.revoke(names)
            except ConfigError as error:  # what is meant may be in the other file
                problems.append(error)
        if problems and (names is None or not gone):
            raise problems[0]
        return gone

    def problems(self) -> list[str]:
        """What is wrong with the files of what answers have allowed, none of which counts then."""
        problems: list[str] = []
        for allowlist in (self.allowlist, self.servers):
            try:
                allowlist.check()
            except ConfigError as error:
                problems.append(str(error))
        return problems


class RuleRow(msgspec.Struct, frozen=True):
    """A rule or a server in a list. ``where`` is its file. Kept ones have an ``id``, by which they are revoked, and rules the time
    ``since`` when they were kept.
    """

    effect: Effect
    rule: str
    where: str
    since: str = ""
    id: str = ""
    kind: Literal["rule", "server"] = "rule"


SETTINGS: Final = "config.toml"


class CallJudge:
    """Judges calls by the rules. ``places`` judges the paths, so they are only asked here for what an ``allow`` allows. ``open_view`` gives
    what commands are judged by, with the first of them.
    """

    def __init__(self, book: RuleBook, places: SecretPaths, open_view: Callable[[], ProjectView]) -> None:
        self.book = book
        self._places = places
        self._open_view = open_view

    @property
    def may_stop_calls(self) -> bool:
        return self.book.may_stop_calls

    def keep(self, rules: Sequence[str], /) -> None:
        self.book.allowlist.add(rules)

    async def judge(self, name: str, touches: Sequence[Touch], text: str, /) -> CallJudgement:
        rules = self.book.current()
        if rule := _of_tool(rules.deny, name):
            return CallJudgement("deny", rule)
        asked = _of_tool(rules.ask, name)
        judged = UNKNOWN
        if name == COMMANDS:
            from newel.permissions.commands.judge import judge_command

            judged = await judge_command(text, rules, self._open_view())
        elif name == WEB:
            judged = self._judge_server(text)
        elif name in FILE_TOOLS:
            judged = self._judge_changes(touches)
        if judged.effect == "deny" or not asked:
            is_allowed = judged.effect == "none" and _of_tool(rules.allow, name)
            if is_allowed and not self.starts_programs(touches if name != COMMANDS else ()):
                return CallJudgement("allow")
            return judged
        return CallJudgement("ask", f"your rule asks: {asked}")

    def _judge_server(self, url: str) -> CallJudgement:
        from newel.workspace.sandbox.web_address import parse_web_address

        try:
            address = parse_web_address(url)
        except ValueError:  # another tool of this name, which is not about pages
            return UNKNOWN
        host, port = address.host, address.port
        if rule := self.book.server_rule("deny", host, port):
            return CallJudgement("deny", rule)
        if rule := self.book.server_rule("ask", host, port):
            return CallJudgement("ask", f"your rule asks: {rule}")
        if self.book.server_access(host, port).is_allowed:
            return CallJudgement("allow")
        rule = f"{WEB}({address.server})"
        reason = NO_RULE_FOR_SERVER.format(server=address.server, rule=rule)
        return CallJudgement("server", reason, (rule,))

    def _judge_changes(self, touches: Sequence[Touch]) -> CallJudgement:
        changed = [touch.path for touch in touches if touch.writes]
        if not changed or self.starts_programs(touches):
            return UNKNOWN
        if all(self._places.allows_changes(path) for path in changed):
            return CallJudgement("allow")
        offers = [self._offer(path) for path in changed]
        return CallJudgement("none", rules=tuple(dict.fromkeys(filter(None, offers))))

    def _offer(self, path: str) -> str:
        """The rule that allows changes in the folder of a file; empty for a file outside the project."""
        inside = self._places.inside_project(path)
        folder = posixpath.dirname(inside)
        rule = PathRule("write", f"{folder}/**") if folder else ToolRule("write")
        # A name may look like a pattern, or like no rule.
        is_plain = inside and not re.search(r"[*?()~\x00-\x1f]", folder)
        return str(rule) if is_plain else ""

    def starts_programs(self, touches: Sequence[Touch]) -> bool:
        """Whether a change makes other programs run something: no general rule, and no hook, allows it."""
        inside = [self._places.inside_project(touch.path) for touch in touches if touch.writes]
        return any(
            f"/{name}/" in f"/{path.casefold()}/" for path in inside if path for name in SETTINGS_OF_TOOLS
        )


def _of_tool(rules: Sequence[Rule], name: str) -> str:
    """The first rule about every call of a tool; empty for none."""
    names = (name, "write") if name in FILE_TOOLS else (name,)
    return next(
        (str(rule) for rule in rules if isinstance(rule, ToolRule) and any(map(rule.matches, names))), ""
    )
