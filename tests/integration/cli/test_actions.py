"""If these fail, a user learns from neither the help of an action nor the completion of the shell what there is and what it takes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from newel.cli.completion import ACTIONS
from tests.support import Newel

Make = Callable[..., Newel]

VALUES = {"completion", "import"}
"""Commands whose first word is a value, not an action."""

NAMES = sorted({*ACTIONS} - VALUES)


@pytest.mark.parametrize("command", sorted({*NAMES} - {"models"}))  # any other word is a model's name
def test_the_shell_completes_each_action(with_model: Make, command: str) -> None:
    newel = with_model()
    refused = newel(command, "nothing").stderr
    known = re.search(r"There is no command 'nothing': choose from (.*)\.", refused)
    assert known, refused
    assert sorted(known[1].split(", ")) == sorted(ACTIONS[command])


@pytest.mark.parametrize("command", NAMES)
def test_the_help_of_an_action_says_what_it_does_and_what_it_takes(with_model: Make, command: str) -> None:
    newel = with_model()
    for action in ACTIONS[command]:
        done = newel(command, action, "--help")
        assert done.returncode == 0, done.stderr
        paragraphs = done.stdout.split("\n\n")
        assert re.fullmatch(r"[A-Z].*[.)…]", paragraphs[1], re.DOTALL), (action, paragraphs[1])
        for paragraph in paragraphs:
            assert not re.search(r"^  \S+\n(?!    )", f"{paragraph}\n", re.MULTILINE), (action, paragraph)
