"""What a user allows in ``config.toml``: ``[permissions] allow = ["read(~/.ssh/known_hosts)"]``.

A rule is ``TOOL(PATTERN)``. ``read`` lets Newel's tools read there, ``write`` read and write. A pattern begins with ``/``,
``~/`` or ``**/``; ``*`` and ``?`` stand for characters of one name, ``**`` for any folders; a folder stands for all that is
in it. ``~`` is the home on the host that the files are on.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, cast

from newel.agent.errors import ConfigError

Act = Literal["read", "write"]

_RULE: Final = re.compile(r"(read|write)\(((?:~?/|\*\*/)[^()\n]*)\)")
_WILD: Final = re.compile(r"(\*\*/|\*\*|\*|\?)")

EXAMPLE: Final = 'allow = ["read(~/.ssh/known_hosts)"]'


class Rule(NamedTuple):
    act: Act
    pattern: str

    def fixed(self) -> tuple[str, str]:
        """The folders of the pattern before any that a ``*`` or ``?`` is in, and the rest."""
        start = _WILD.search(self.pattern)
        end = self.pattern.rfind("/", 0, start.start()) if start else len(self.pattern)
        return self.pattern[:end], self.pattern[end:]


def parse_rule(text: str) -> Rule:
    """Raises ``ConfigError`` for what is no rule."""
    found = _RULE.fullmatch(text.strip())
    if found is None or ".." in found[2].split("/"):
        raise ConfigError(
            f"{text[:80]!r} is no rule. A rule is read(PATTERN) or write(PATTERN), and a pattern begins with /, ~/ "
            f"or **/: {EXAMPLE}"
        )
    return Rule(cast("Act", found[1]), found[2])


def expression(pattern: str) -> str:
    """A regular expression for the absolute paths that a pattern names, and for all below them."""
    parts: list[str] = []
    for part in _WILD.split(pattern.rstrip("/")):
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
