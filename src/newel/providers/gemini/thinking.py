"""The thinking settings of Gemini models, by their names.

Gemini 3 takes a level, Gemini 2.5 a number of tokens, and earlier models neither. A setting that a model lacks fails the request, so
each style has a next one to try.
"""

from __future__ import annotations

from typing import Any

import msgspec

from newel.agent.ports import ThinkingLevel
from newel.text.json import regex

ORDER: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high")
BUDGETS: dict[ThinkingLevel, int] = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
"""Tokens of thinking, within the limits of all models of Gemini 2.5."""


class ThinkingSetting(msgspec.Struct, frozen=True):
    """How a model is asked to think: by one of ``levels``, or by a budget of at least ``least_budget`` tokens. With neither,
    requests do not mention it.
    """

    levels: tuple[ThinkingLevel, ...] = ()
    least_budget: int | None = None

    def config(self, level: ThinkingLevel) -> dict[str, Any] | None:
        """Return the ``thinkingConfig`` for a level: the nearest that the model has, not below it."""
        summary = {} if level == "off" else {"includeThoughts": True}
        if self.levels:
            at_least = (each for each in self.levels if ORDER.index(each) >= ORDER.index(level))
            return summary | {"thinkingLevel": next(at_least, self.levels[-1]).upper()}
        if self.least_budget is not None:
            return summary | {"thinkingBudget": max(BUDGETS.get(level, 0), self.least_budget)}
        return None

    def fallback(self) -> ThinkingSetting | None:
        """Return the style to try if a model rejects this one; None if there is no other."""
        position = STYLES.index(self) + 1 if self in STYLES else 0
        return STYLES[position] if position < len(STYLES) else None


ALL_LEVELS = ThinkingSetting(levels=("minimal", "low", "medium", "high"))
FROM_LOW = ThinkingSetting(levels=("low", "medium", "high"))
LOW_OR_HIGH = ThinkingSetting(levels=("low", "high"))
BUDGET = ThinkingSetting(least_budget=0)
REQUIRED_BUDGET = ThinkingSetting(least_budget=128)
UNTOLD = ThinkingSetting()

STYLES = (ALL_LEVELS, FROM_LOW, LOW_OR_HIGH, BUDGET, REQUIRED_BUDGET, UNTOLD)
"""In the order in which they are tried."""

_BY_NAME = (
    (r"gemini-(?:1|2\.0)|gemma|learnlm", UNTOLD),
    (r"gemini-2\.5-pro", REQUIRED_BUDGET),
    (r"gemini-2", BUDGET),
    (r"gemini-3-pro", LOW_OR_HIGH),
    (r"gemini-(?:[\d.]+-)?pro", FROM_LOW),
)
_UNSIGNED = r"gemini-(?:1|2)\b|gemma|learnlm"


def style_of(model: str) -> ThinkingSetting:
    """Return the style of a model; an unknown one counts as new."""
    return next((style for pattern, style in _BY_NAME if regex(pattern).match(model)), ALL_LEVELS)


def requires_signatures(model: str) -> bool:
    """Whether a model refuses calls without the signature of their reasoning, as Gemini 3 does."""
    return regex(_UNSIGNED).match(model) is None
