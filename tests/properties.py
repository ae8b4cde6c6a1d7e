"""The number of examples of property tests, and of cases of tests with very many."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

A = TypeVar("A")
B = TypeVar("B")

THOROUGH: Final = float(os.environ.get("NEWEL_TESTS_THOROUGH", "0.5"))
"""How many times as many examples as a test states: half of them unless told otherwise. From 1 on, all cases, too."""


def examples(number: int) -> int:
    """The number of examples for a test that states ``number``."""
    return max(1, round(number * THOROUGH))


def one_in(number: int, cases: Sequence[A]) -> list[A]:
    """Every so many of the cases, the first one included; all of them in a thorough run."""
    return list(cases[:: 1 if THOROUGH >= 1 else number])


def one_pair_in(number: int, first: Iterable[A], second: Iterable[B]) -> list[tuple[A, B]]:
    """Of all pairs, one in so many, in which every value of either side occurs if there are enough; all of them in a thorough run."""
    pairs = itertools.product(enumerate(first), enumerate(second))
    return [(a, b) for (row, a), (column, b) in pairs if THOROUGH >= 1 or (row + column) % number == 0]
