"""If these fail, changes that wait for a decision are forgotten, because nothing on the screen mentions them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.support import BIN, Newel, scenario
from tests.terminal_waits import PATIENCE
from tests.tmux import Tmux

Make = Callable[..., Newel]


def write(path: str, text: str) -> dict[str, object]:
    call = {"name": "write", "arguments": {"file_path": path, "content": text}}
    return {"tool_calls": [{"function": call}]}


@pytest.fixture
def newel(with_model: Make) -> Newel:
    return with_model(scenario("go", write("a.txt", "one\n"), write("b.txt", "two\n"), {"content": "Done."}))


def test_the_status_line_counts_what_waits_until_it_is_decided(newel: Newel) -> None:
    words = [str(BIN / "newel"), "--approve", "review"]
    with Tmux(words, newel.project, {**os.environ, **newel.environ}, columns=100) as terminal:
        terminal.wait_for("approve: review")
        assert "to review" not in terminal.text
        terminal.type("go", "Enter")
        terminal.wait_for("Review them with")  # the run is over
        terminal.wait_for("project           2 hunks to review")  # at the right
        terminal.type("/keep a.txt", "Enter")
        terminal.wait_for("Keep and write these?")
        terminal.answer("y", "Enter")
        terminal.wait_for("1 hunk to review")


def test_a_new_conversation_shows_what_an_earlier_one_left(newel: Newel) -> None:
    newel("--approve", "review", "go")
    with Tmux([str(BIN / "newel")], newel.project, {**os.environ, **newel.environ}) as terminal:
        terminal.wait_for("2 hunks to review")
        terminal.type("", "C-l")
        terminal.resize(40, 24)
        wait_until_gone(terminal)  # no room for it
        terminal.type("/keep", "Enter")
        terminal.wait_for("Error: Name a hunk")
        # What is redrawn at the top of the screen leaves no copies in the scroll-back of tmux.
        assert "to review" not in terminal.text
        assert "keep pending changes" not in terminal.text


def wait_until_gone(terminal: Tmux) -> None:
    until = time.monotonic() + PATIENCE
    while "to review" in terminal.view:
        assert time.monotonic() < until, terminal.view
        time.sleep(0.03)
