"""How many examples the property tests try."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = int(os.environ.get("NEWEL_TESTS_THOROUGH", "1"))
"""How many times as many as on each run of the tests."""


def examples(number: int) -> int:
    """``number`` on each run, and more for who has the time."""
    return number * THOROUGH
