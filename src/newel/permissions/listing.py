"""Permission rules and servers as text, for ``/permissions`` and ``newel permissions``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.permissions.rule_book import RuleRow
from newel.text.sanitize import escape_line

NO_RULES: Final = (
    "No rules yet. Answer a question with `p`, add one for this project with `newel permissions add RULE`, or write "
    "`[permissions]` into your config.toml."
)


def rule_columns(rows: Sequence[RuleRow]) -> list[tuple[str, str]]:
    """Each rule or server, and where it is from; the id, if it can be revoked."""
    texts = [_text(row) for row in rows]
    width = min(max(map(len, texts), default=0), 60)
    return [
        (f"{row.effect:<5}  {text:<{width}}", _origin(row)) for row, text in zip(rows, texts, strict=True)
    ]


def _text(row: RuleRow) -> str:
    return escape_line(f"server {row.rule}" if row.kind == "server" else row.rule)


def _origin(row: RuleRow) -> str:
    since = f"  since {row.since[:10]}" if row.since else ""
    return f"{row.id or row.where}{since}"


def describe_added(rules: Sequence[str]) -> str:
    return f"Allowed in this project: {', '.join(map(escape_line, rules))}. `newel permissions` lists and revokes it."


def describe_revoked(rules: Sequence[str]) -> str:
    if not rules:
        return "No answer with this name is kept for this project. `newel permissions` lists those that are; other rules are in your config.toml."
    return f"Revoked: {', '.join(map(escape_line, rules))}. Newel asks again."
