"""How many examples property tests try, and how many cases the tests that have hundreds of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

A = TypeVar("A")
B = TypeVar("B")

THOROUGH: Final = float(os.environ.get("NEWEL_TESTS_THOROUGH", "0.5"))
"""Property tests try so many times the examples that they state, by default half of them. From 1 on, every case runs, too."""


def examples(number: int) -> int:
    """The number of examples for a test that states ``number``."""
    return max(1, round(number * THOROUGH))


def one_in(number: int, cases: Sequence[A]) -> list[A]:
    """Every ``number``-th case, beginning with the first; all of them in a thorough run."""
    return list(cases[:: 1 if THOROUGH >= 1 else number])


def one_pair_in(number: int, first: Iterable[A], second: Iterable[B]) -> list[tuple[A, B]]:
    """One pair in ``number``, so that each value of either side is in about as many; all of them in a thorough run."""
    pairs = itertools.product(enumerate(first), enumerate(second))
    return [(a, b) for (row, a), (column, b) in pairs if THOROUGH >= 1 or (row + column) % number == 0]
