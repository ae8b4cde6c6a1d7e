"""How many examples a property test takes, and how many of the cases of a campaign."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

THOROUGH: Final = float(os.environ.get("NEWEL_TESTS_THOROUGH", "0.5"))
"""How many times as many as a test states: half of them, unless the environment says more."""


def examples(number: int) -> int:
    """The number of examples for a test that states ``number``."""
    return max(1, round(number * THOROUGH))


def thin(cases: Sequence[T], *, one_in: int) -> Sequence[T]:
    """One in so many cases, all of them in a thorough run: for those that fail together, because one mechanism carries all of them."""
    return cases if THOROUGH >= 1 else cases[::one_in]
