"""If these fail, who mistypes a command looks for its name in a list of fifty."""

from __future__ import annotations

import pytest

from newel.terminal.repl.slash_commands import COMMANDS


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("/relase-notes 1.2", "Did you mean /release-notes?"),
        ("/compct", "Did you mean /compact"),
        ("/plan", "`/approve plan` looks around"),
    ],
)
def test_a_mistyped_command_gets_the_right_one(typed: str, hint: str) -> None:
    """Skills and prompts of the user are commands as well."""
    assert hint in str(COMMANDS.unknown(typed, others=["release-notes", "web:fix"]))
