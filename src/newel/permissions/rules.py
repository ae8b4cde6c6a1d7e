"""The user's rules in ``config.toml``: ``[permissions] allow = ["read(~/.ssh/known_hosts)"]``.

A rule is ``TOOL(PATTERN)``. ``read`` allows Newel's tools to read, ``write`` to read and write. A pattern begins with ``/``,
``~/`` or ``**/``; ``*`` and ``?`` match within one name, ``**`` any folders; a folder includes its contents. ``~`` is the home
on the host of the files.
"""

from __future__ import annotations

import re
from typing import Final, Literal, cast

import msgspec

from newel.agent.errors import ConfigError

Act = Literal["read", "write"]

_RULE: Final = r"(read|write)\(((?:~?/|\*\*/)[^()\n]*)\)"
_WILD: Final = r"(\*\*/|\*\*|\*|\?)"

EXAMPLE: Final = 'allow = ["read(~/.ssh/known_hosts)"]'


class Rule(msgspec.Struct, frozen=True):
    act: Act
    pattern: str

    def split_prefix(self) -> tuple[str, str]:
        """The leading folders without wildcards, and the rest."""
        start = re.search(_WILD, self.pattern)
        end = self.pattern.rfind("/", 0, start.start()) if start else len(self.pattern)
        return self.pattern[:end], self.pattern[end:]


def parse_rule(text: str) -> Rule:
    """Parse a rule. Raises ``ConfigError``."""
    match = re.fullmatch(_RULE, text.strip())
    if match is None or ".." in match[2].split("/"):
        raise ConfigError(
            f"{text[:80]!r} is not a rule. A rule is read(PATTERN) or write(PATTERN), and a pattern begins with /, ~/ "
            f"or **/: {EXAMPLE}"
        )
    return Rule(cast("Act", match[1]), match[2])


def expression(pattern: str) -> str:
    """A regular expression for the absolute paths that a pattern matches, and everything below them."""
    parts: list[str] = []
    for part in re.split(_WILD, pattern.rstrip("/")):
        match part:
            case "**/":
                parts.append("(?:.*/)?")
            case "**":
                parts.append(".*")
            case "*":
                parts.append("[^/]*")
            case "?":
                parts.append("[^/]")
            case _:
                parts.append(re.escape(part))
    return f"{''.join(parts)}(?:/.*)?"
