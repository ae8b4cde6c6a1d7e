"""The number of examples of property tests."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = float(os.environ.get("NEWEL_TESTS_THOROUGH", "0.5"))
"""How many times as many as a test states: half of them in a quick run, all of them in CI on the newest Python."""


def examples(number: int) -> int:
    """The number of examples for a test that states ``number``."""
    return max(1, round(number * THOROUGH))
