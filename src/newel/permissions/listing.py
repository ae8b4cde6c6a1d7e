"""Permission rules as text, for ``/permissions`` and ``newel permissions``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.permissions.rule_book import RuleRow
from newel.text.sanitize import escape_line

NO_RULES: Final = (
    "There are no rules. Answer a question with `p`, add one for this project with `newel permissions add RULE`, or write "
    "`[permissions]` into your config.toml."
)


def rule_columns(rows: Sequence[RuleRow]) -> list[tuple[str, str]]:
    """Each rule, and where it is from."""
    width = max((len(row.rule) for row in rows), default=0)
    return [(f"{row.effect:<5}  {escape_line(row.rule):<{min(width, 60)}}", _origin(row)) for row in rows]


def _origin(row: RuleRow) -> str:
    return f"{row.where}  since {row.since[:10]}" if row.since else row.where


def describe_revoked(rules: Sequence[str]) -> str:
    if not rules:
        return "No such rule is kept for this project. `newel permissions` lists them; others are in your config.toml."
    return f"Revoked: {', '.join(map(escape_line, rules))}. Newel asks again."
