"""The requests for thinking that each generation of Claude accepts.

Names alone decide at first, also those of gateways: ``anthropic/claude-opus-4.6``, ``us.anthropic.claude-opus-4-6-v1:0``. Where
the table is wrong, the server's rejection corrects it; see ``newel.providers.anthropic.compat``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from newel.agent.ports import ThinkingLevel
from newel.text.json import regex

MIN_BUDGET = 1024
"""Tokens of the smallest budget that the API accepts."""

BUDGETS: dict[ThinkingLevel, int] = {"minimal": 1024, "low": 4096, "medium": 10_240, "high": 20_480}
"""Tokens of thinking for models that want a budget."""

EFFORTS: dict[ThinkingLevel, str] = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
LEAST_EFFORT = "low"


class ThinkingStyle(msgspec.Struct, frozen=True):
    """The values of ``thinking.type`` that turn a model's thinking on and off, best first.

    With none for ``off``, the field is omitted. ``always``: the model thinks even then, but less with a low effort.
    """

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    always: bool = False


ALWAYS = ThinkingStyle(on=("adaptive",), always=True)
BY_DEFAULT = ThinkingStyle(on=("adaptive",), off=("disabled", "between_tools"))
BY_DEFAULT_BETWEEN_TOOLS = ThinkingStyle(on=("adaptive",), off=("between_tools", "disabled"))
ON_REQUEST = ThinkingStyle(on=("adaptive", "enabled"))
WITH_BUDGET = ThinkingStyle(on=("enabled", "adaptive"))
NEVER = ThinkingStyle()

STYLES: tuple[tuple[str, tuple[int, int], ThinkingStyle], ...] = (
    ("fable", (0, 0), ALWAYS),
    ("mythos", (0, 0), ALWAYS),
    ("opus", (5, 5), ALWAYS),
    ("sonnet", (5, 5), BY_DEFAULT_BETWEEN_TOOLS),
    ("", (5, 0), BY_DEFAULT),
    ("", (4, 6), ON_REQUEST),
    ("", (3, 7), WITH_BUDGET),
    ("", (0, 0), NEVER),
)
"""Family, first version, style; the first row that fits decides. The empty family fits all."""

UNKNOWN_VERSION = (4, 6)
"""The version of a name without one. Such a model accepts both kinds of thinking, and none if it is omitted."""

_FAMILY_FIRST = r"claude-(?P<family>[a-z]+)-?(?P<major>\d{1,2})?(?!\d)(?:[-.](?P<minor>\d{1,2})(?!\d))?"
_VERSION_FIRST = r"claude-(?P<major>\d)(?:[-.](?P<minor>\d))?-(?P<family>[a-z]+)"


def thinking_style(model: str) -> ThinkingStyle:
    """Return the style of a model. A name that is not one of Claude's gets the oldest, which other vendors imitate."""
    name = model.lower()
    match = regex(_VERSION_FIRST).search(name) or regex(_FAMILY_FIRST).search(name)
    if match is None:
        return WITH_BUDGET
    version = (int(match["major"]), int(match["minor"] or 0)) if match["major"] else UNKNOWN_VERSION
    fits = (style for family, since, style in STYLES if family in {"", match["family"]} and version >= since)
    return next(fits, NEVER)


def thinking_type(style: ThinkingStyle, level: ThinkingLevel, refused: Collection[str]) -> str | None:
    """Return the ``thinking.type`` to send, None to omit the field. ``refused`` are the values that the server rejected."""
    candidates = style.off if level == "off" else style.on
    return next((each for each in candidates if each not in refused), None)


def thinking_options(
    style: ThinkingStyle, level: ThinkingLevel, refused: Collection[str], max_tokens: int
) -> dict[str, Any]:
    """Return the fields of a request that set the model's thinking. ``max_tokens`` bounds thinking and answer together.

    ``refused`` may also have ``display`` and ``effort``, which are fields of their own.
    """
    kind = thinking_type(style, level, refused)
    if kind == "adaptive":
        # Without this, newer models return empty thoughts.
        display = {} if "display" in refused else {"display": "summarized"}
        return {"thinking": {"type": kind, **display}} | _effort(EFFORTS[level], refused)
    if kind == "enabled":
        budget = min(BUDGETS[level], max_tokens // 2)
        return {"thinking": {"type": kind, "budget_tokens": budget}} if budget >= MIN_BUDGET else {}
    if kind:
        return {"thinking": {"type": kind}}
    return _effort(LEAST_EFFORT, refused) if style.always else {}


def _effort(effort: str, refused: Collection[str]) -> dict[str, Any]:
    return {} if "effort" in refused else {"output_config": {"effort": effort}}
