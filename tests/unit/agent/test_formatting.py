"""If these fail, the reason for a run's end shows its number in an unusual form."""

from __future__ import annotations

import pytest

from newel.agent.formatting import pluralize


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (1, "turn", "1 turn"),
        (12, "turn", "12 turns"),
        (2_500_000, "token", "2,500,000 tokens"),
        (0.1 + 0.2, "US dollar", "0.3 US dollars"),
        (100.0, "US dollar", "100 US dollars"),
        (0, "tool call", "0 tool calls"),
    ],
)
def test_amounts_are_formatted_for_people(value: float, unit: str, words: str) -> None:
    assert pluralize(value, unit) == words
