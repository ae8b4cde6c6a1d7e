"""If these fail, ``docs/architecture.md`` sends a reader to functions that a request no longer passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.walks import WALKS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
STEP = re.compile(r"^\d+\. `([^`]+)`", re.MULTILINE)


def steps(walk: str) -> list[str]:
    """The functions listed under the heading of a walk."""
    _, _, rest = DOCUMENT.read_text().partition(f"\n### Walk: {walk}\n")
    return STEP.findall(rest.partition("\n#")[0])


@pytest.mark.parametrize("walk", WALKS)
def test_a_request_passes_the_documented_functions_in_order(walk: str, tmp_path: Path) -> None:
    documented = steps(walk)
    assert len(documented) > 10
    entered = WALKS[walk](tmp_path)
    assert [each for each in entered if each in documented] == documented
