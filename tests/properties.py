"""The number of examples of property tests."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = int(os.environ.get("NEWEL_TESTS_THOROUGH", "1"))
"""How many times as many as on each run of the tests."""


def examples(number: int) -> int:
    """``number`` on each run, more if the environment asks for it."""
    return number * THOROUGH
