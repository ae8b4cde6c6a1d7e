"""If these fail, who mistypes a setting looks for its name in the documentation."""

from __future__ import annotations

import pytest

from newel.agent.errors import UsageError
from newel.config.editing import read_name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("theme", "Did you mean `terminal.theme`?"),
        ("statusLine", "Did you mean `terminal.status_line`?"),
        ("max-cost", "Did you mean `limits.maxCost`?"),
        ("disabled", "Did you mean `hooks.disabled` or `extensions.disabled`?"),
        ("aprove", "Did you mean `approve`?"),
        ("autoCompactEnabled", "`newel docs settings` lists all."),
    ],
)
def test_a_wrong_name_gets_the_right_one(name: str, hint: str) -> None:
    """A table is easily forgotten, and other tools write the same words in another way."""
    with pytest.raises(UsageError) as error:
        read_name(name)
    assert str(error.value) == f"There is no setting {name}. {hint}"
