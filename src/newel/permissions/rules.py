"""Permission rules, in the user's ``config.toml``, in a project's ``.newel/permissions.toml``, and kept from answers.

    read(PATTERN)       files that tools read; an ``allow`` opens them, a ``deny`` also keeps tools from writing them
    write(PATTERN)      files that tools change; an ``allow`` opens them for reading, too
    bash(WORDS)         commands, by their words
    web_fetch(SERVER)   pages of a server, ``*.`` in front for all below it, with a port that is not one of the web's
    TOOL                every call of a tool; ``*`` matches any characters of its name
    extension:TOOL      every call of a tool that an extension adds

``PATTERN`` is a path: from the root (``/``), the home folder (``~/``), anywhere (``**/``), else from the project's folder. ``*`` and ``?``
match within one name, ``**`` any folders; a folder includes its contents. ``~`` is the home on the host of the files.

``WORDS`` are those of a simple command, quoted as in a shell. ``*`` in a word matches any characters of it; as the last word it stands for
any further words, or none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from newel.agent.errors import ConfigError

if TYPE_CHECKING:
    from newel.workspace.sandbox.domains import Domain

Act = Literal["read", "write"]

Effect = Literal["allow", "ask", "deny"]

TOOLS: Final = ("read", "write", "edit", "bash", "grep", "find", "ls", "task", "web_fetch")
"""Newel's own. A rule about ``write`` is about ``edit``, too."""

COMMANDS: Final = "bash"
"""The tool whose rules are about words of commands."""

WEB: Final = "web_fetch"
"""The tool whose rules are about servers."""

WITHOUT_RULES: Final = ("todo", "bash_output", "skill")
"""The others of Newel's own, which change nothing: no rule is about them."""

ADDED: Final = "extension:"
"""Before the name of a tool that is neither Newel's nor an MCP server's: a misspelt name of these two is an error."""

_RULE: Final = r"(?s)((?:extension:)?[A-Za-z0-9_*.-]+)(?:\((.*)\))?"
_QUOTED: Final = r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\."
_WILD: Final = r"(\*\*/|\*\*|\*|\?)"

EXAMPLE: Final = 'allow = ["bash(npm run *)", "write(src/**)"]'


class PathRule(msgspec.Struct, frozen=True):
    act: Act
    pattern: str

    def __str__(self) -> str:
        return f"{self.act}({self.pattern})"

    def split_prefix(self) -> tuple[str, str]:
        """The leading folders without wildcards, and the rest."""
        start = re.search(_WILD, self.pattern)
        end = max(0, self.pattern.rfind("/", 0, start.start())) if start else len(self.pattern)
        return self.pattern[:end], self.pattern[end:]

    def covers(self, *, writes: bool, effect: Effect) -> bool:
        """Whether the rule is about this way to open a file."""
        if effect == "allow":
            return self.act == "write" or not writes
        return self.act == "read" or writes


class CommandRule(msgspec.Struct, frozen=True):
    """``words`` of a command; with ``any_rest``, more may follow."""

    words: tuple[str, ...]
    any_rest: bool = False

    def __str__(self) -> str:
        return f"{COMMANDS}({' '.join([*map(_quoted, self.words), *('*' if self.any_rest else '')])})"

    def matches(self, words: Sequence[str | None], *, unknown: bool = False) -> bool:
        """Whether a command has these words. With ``unknown``, from a word on that is not known any may follow."""
        if unknown and None in words:
            words = words[: words.index(None)]
        elif len(words) < len(self.words) or (len(words) > len(self.words) and not self.any_rest):
            return False
        pairs = zip(self.words, words, strict=False)
        return all(word is not None and fits(pattern, word) for pattern, word in pairs)


class ToolRule(msgspec.Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return self.name

    def matches(self, tool: str) -> bool:
        if self.name.startswith(ADDED):
            return not _is_own(tool) and "__" not in tool and fits(self.name.removeprefix(ADDED), tool)
        return fits(self.name, tool)


class WebRule(msgspec.Struct, frozen=True):
    """A server as in ``[sandbox] domains``; ``port`` None is one of the web's."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        return f"{WEB}({self._domain()})"

    def matches(self, host: str, port: int, effect: Effect) -> bool:
        """Whether the rule is about a server. One that forbids holds for all of its ports, unless it names one."""
        if self.port is None and effect != "allow":
            port = 443
        return self._domain().matches(host, port)

    def names(self, host: str) -> bool:
        """Whether it has this very name or address."""
        return self.name == host

    def _domain(self) -> Domain:
        from newel.workspace.sandbox.domains import Domain

        return Domain(self.name, self.port)


Rule = PathRule | CommandRule | ToolRule | WebRule


class RuleSet(msgspec.Struct, frozen=True):
    """``deny`` is stronger than ``ask``, and ``ask`` than ``allow``, wherever they are written."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    def by_effect(self) -> dict[Effect, tuple[Rule, ...]]:
        return {"deny": self.deny, "ask": self.ask, "allow": self.allow}

    def __or__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.allow + other.allow, self.ask + other.ask, self.deny + other.deny)


class RuleTexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules as they are written in a file."""

    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []

    def parse(self, read_source: Callable[[], str], *table: str) -> RuleSet:
        """Raises ``ConfigError`` that names the line in the file, whose text ``read_source`` returns; ``table`` is the one with the
        rules.
        """

        def parsed(effect: Effect, text: str) -> Rule:
            try:
                return parse_rule(text)
            except ConfigError as error:
                from newel.text.toml import line_of_string

                at = (*table, effect)
                line = line_of_string(read_source(), at, text)
                raise ConfigError(f"line {line}: {'.'.join(at)}: {error}") from error

        return RuleSet(
            allow=tuple(parsed("allow", text) for text in self.allow),
            ask=tuple(parsed("ask", text) for text in self.ask),
            deny=tuple(parsed("deny", text) for text in self.deny),
        )


def parse_rule(text: str) -> Rule:
    """Parse a rule. Raises ``ConfigError``."""
    match = re.fullmatch(_RULE, text.strip())
    if match is None:
        raise _invalid(text, "A rule is TOOL or TOOL(PATTERN)")
    tool, pattern = match[1], match[2]
    if tool.lower() in {*TOOLS, "webfetch"}:
        tool = tool.lower().replace("webfetch", WEB)  # as other agents write it
    if pattern is not None and not pattern.strip():
        raise _invalid(text, "The brackets are empty")
    if not _may_exist(tool):
        raise _no_tool(text, tool, pattern)
    if pattern is None or pattern.strip() in {"*", "**"}:
        return ToolRule(tool)
    if tool in {"read", "write", "edit"}:
        return _path_rule(text, "read" if tool == "read" else "write", pattern.strip())
    if tool == COMMANDS:
        return _command_rule(text, pattern)
    if tool == WEB:
        return _web_rule(text, pattern)
    raise _without_pattern(text, tool, pattern)


def _is_own(tool: str) -> bool:
    return tool in TOOLS or tool in WITHOUT_RULES


def _may_exist(tool: str) -> bool:
    """Whether a tool can have this name: one of Newel's own, or ``SERVER__TOOL``. A server that is itself called ``mcp`` is matched by
    ``mcp*__TOOL``.
    """
    if tool in TOOLS:
        return True
    if tool.startswith(ADDED):
        return not _is_own(tool.removeprefix(ADDED))
    return bool(re.search(r"__|\*", tool)) and "." not in tool and not tool.startswith("mcp__")


def _no_tool(text: str, tool: str, pattern: str | None) -> ConfigError:
    from newel.permissions.foreign_rules import is_of_mcp_server, searches_web

    if _is_own(own := tool.removeprefix(ADDED)):
        remedy = f"Write `{own}` instead." if own in TOOLS else "It changes nothing, so no rule is about it."
        return _invalid(text, f"{own} is a tool of Newel's own", f". {remedy}")
    if searches_web(tool):
        return _invalid(text, "Newel has no tool that searches the web", ".")
    instead = _instead(tool, pattern)
    if is_of_mcp_server(tool) or "__" in tool:
        return _invalid(text, "A tool of an MCP server is called SERVER__TOOL", instead)
    known = (
        ""
        if instead
        else f". Tools are {', '.join(TOOLS)}, SERVER__TOOL of MCP servers, and {ADDED}TOOL of extensions"
    )
    return _invalid(text, f"No tool is called {tool}{known}", instead)


def _without_pattern(text: str, tool: str, pattern: str) -> ConfigError:
    return _invalid(
        text, "Only read(…), write(…), bash(…) and web_fetch(…) take a pattern", _instead(tool, pattern)
    )


def _instead(tool: str, pattern: str | None) -> str:
    """The end of a message: what to write, if that is known."""
    from newel.permissions.foreign_rules import our_rule

    rule = our_rule(tool, pattern)
    try:
        return f". Write `{parse_rule(rule)}` instead." if rule else ""
    except ConfigError:
        return ""


def _path_rule(text: str, act: Act, pattern: str) -> PathRule:
    pattern = re.sub("//+", "/", pattern).removeprefix("./")  # from the root, others write //
    if pattern.startswith("~") and not pattern.startswith("~/"):
        raise _invalid(text, "A path begins with /, ~/ or **/, or is relative to the project")
    if ".." in pattern.split("/"):
        raise _invalid(text, "A path in a rule has no ..")
    if re.search(r"[()\n\0]", pattern):
        raise _invalid(text, "A path in a rule has no brackets and no line breaks")
    return PathRule(act, pattern)


def _command_rule(text: str, pattern: str) -> CommandRule:
    pattern = re.sub(r":\*\s*$", " *", pattern)  # as other agents write it
    try:
        words = tuple(shlex.split(pattern))
    except ValueError as error:
        raise _invalid(text, f"Its words cannot be split ({error})") from error
    if re.search(r"[|&;<>()`\n]", re.sub(_QUOTED, "", pattern)):
        raise _invalid(text, "It has more than the words of one command; write one rule for each command")
    if not words or words[0] in {"*", ""}:
        raise _invalid(text, "It names no program; `bash` alone is every command")
    if words[-1] == "*":
        return CommandRule(words[:-1], any_rest=True)
    return CommandRule(words)


def _web_rule(text: str, pattern: str) -> Rule:
    from newel.workspace.sandbox.domains import parse_domain

    server = pattern.strip().removeprefix("domain:").strip()  # as Claude Code writes it
    if server in {"*", "**"}:
        return ToolRule(WEB)
    try:
        domain = parse_domain(server if server.isascii() else server.encode("idna").decode("ascii"))
    except (ConfigError, ValueError) as error:
        host = re.sub(r"^[a-z]+://|/.*$", "", server)
        instead = f". Write `{WEB}({host})` instead." if host != server and host else ""
        reason = "It names a server: docs.example.org, *.example.org, or example.org:8443 for another port than those of the web"
        raise _invalid(text, reason, instead or ".") from error
    return WebRule(domain.name, domain.port)


def _invalid(text: str, reason: str, end: str = "") -> ConfigError:
    return ConfigError(f"{text[:80]!r} is not a rule. {reason}{end or f'. For example: {EXAMPLE}'}")


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./*?\[\]~{}^-]+", word) else shlex.quote(word)


def fits(pattern: str, word: str) -> bool:
    """Whether a word matches a pattern in which only ``*`` is special."""
    first, *more = map(re.escape, pattern.split("*"))
    return re.fullmatch(first + _stars(more, "."), word, re.DOTALL) is not None


def expression(pattern: str) -> str:
    """A regular expression for the absolute paths that a pattern matches, and everything below them."""
    first, *more = re.split(_FOLDERS, pattern.rstrip("/"))
    parts = [("", first), *zip(more[::2], more[1::2], strict=True)]
    whole = "".join(f"(?>{_SHORTEST[folders]}{_names(names)})" for folders, names in parts[:-1])
    folders, names = parts[-1]
    return f"(?s:{whole}{_SHORTEST[folders]}{_names(names, is_last=True)}(?:/.*)?)"


_FOLDERS: Final = r"((?<![^/])\*\*/|\*\*)"
_SHORTEST: Final = {"": "", "**/": "(?:.*?/)??", "**": ".*?"}


def _names(text: str, *, is_last: bool = False) -> str:
    """The expression for what is between two ``**``, or behind the last one."""
    first, *more = (re.escape(part).replace(r"\?", "[^/]") for part in text.split("*"))
    return first + _stars(more, "[^/]", is_last=is_last)


def _stars(parts: Sequence[str], character: str, *, is_last: bool = True) -> str:
    """The expression for the parts of a pattern that each stand behind a ``*``, which matches any number of a ``character``.

    Each but the last one is sought once, at the first place: no later one leaves more for the rest. A pattern may be a stranger's, and to
    try all places takes hours.
    """
    shortest = [f"(?>{character}*?{part})" for part in parts]
    return "".join([*shortest[:-1], f"{character}*{parts[-1]}"] if parts and is_last else shortest)


def describe_rules(rules: Sequence[str]) -> str:
    """The rules of an answer in words: ``npm test *, edits in src/``."""
    return ", ".join(map(_describe_rule, rules))


def _describe_rule(text: str) -> str:
    match parse_rule(text):
        case CommandRule() as rule:
            return str(rule).removeprefix(f"{COMMANDS}(").removesuffix(")")
        case PathRule(pattern=pattern):
            return f"edits in {pattern.removesuffix('**')}"
        case WebRule() as rule:
            return f"pages of {str(rule).removeprefix(f'{WEB}(').removesuffix(')')}"
        case ToolRule(name="write"):
            return "all edits in the project"
        case ToolRule(name=name):
            return f"the tool {name}"
