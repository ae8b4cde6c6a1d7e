"""If these fail, an answer that was cut off, or that is empty, looks like one that is finished."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_screen_says_that_an_answer_is_incomplete(open_terminal: Callable[..., Any]) -> None:
    terminal = open_terminal("rich", "cut", "empty", "words", columns=160)
    terminal.wait_for("You said: words")
    shown = terminal.screen.text
    assert "The first half" in shown
    assert shown.count("The answer was cut off at the longest output that the model may write.") == 1
    assert "The model returned an empty answer. Try again, or choose another with /model." in shown


@pytest.mark.parametrize("front", ["console", "simple"])
def test_lines_say_that_an_answer_is_incomplete(run_program: Run, front: str) -> None:
    shown = run_program(front, given="cut\nempty\nwords\n").stdout
    assert shown.count("The answer was cut off at the longest output that the model may write.") == 1
    assert shown.count("The model returned an empty answer.") == 1
