"""If these fail, a prompt in a terminal leaves the user with an answer and nobody to reply to, or a script waits for a user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.requirements import require_program
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

PROMPT = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


@pytest.fixture
def newel(with_model: Make) -> Newel:
    return with_model(scenario("", {"content": "First answer."}))


def on_screen(newel: Newel, *words: str) -> Tmux:
    return Tmux([str(BIN / "newel"), *words], newel.project, newel.environ)


def test_a_prompt_in_a_terminal_begins_a_conversation(newel: Newel) -> None:
    with on_screen(newel, "hello", "there") as screen:
        screen.wait_for("First answer.")
        assert f"{PROMPT} hello there" in screen.text
        screen.type("and now?", "Enter")
        screen.wait_for("First answer.", times=2)
        screen.type("", "C-d")
        screen.wait_for_end()
    assert len(newel.sessions) == 1


def test_the_terminal_echoes_again_afterwards(newel: Newel) -> None:
    """Otherwise the user's shell seems dead."""
    command = ["sh", "-c", f"{BIN / 'newel'} hello; echo left; cat"]
    with Tmux(command, newel.project, newel.environ) as screen:
        screen.wait_for("First answer.")
        screen.wait_for("approve: auto")
        screen.type("", "C-d")
        screen.wait_for("left")
        assert screen.echoes


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "hello"],
        ["-q", "hello"],
        ["-o", "answer.txt", "hello"],
        ["hello", "--then", "go on"],
        ["say hello", "go on"],
        ["--output-format", "text", "hello"],
        ["--renderer", "console", "hello"],
        ["--json", "hello"],
    ],
)
def test_a_task_leaves_when_it_is_done(newel: Newel, words: list[str]) -> None:
    with on_screen(newel, *words) as screen:
        screen.wait_for_end()
        assert "First answer." in screen.text


@pytest.mark.parametrize("ends", ["< /dev/null", "> out.txt", "| cat"])
def test_with_a_pipe_at_one_end_it_is_a_task(newel: Newel, ends: str) -> None:
    with Tmux(["sh", "-c", f"{BIN / 'newel'} hello {ends}"], newel.project, newel.environ) as screen:
        screen.wait_for_end()
    assert len(newel.requests) == 1


def test_in_a_terminal_that_cannot_draw_it_is_a_task(newel: Newel) -> None:
    script = require_program("script")
    done = subprocess.run(
        [script, "-qec", f"{BIN / 'newel'} hello", os.devnull],
        cwd=Path(newel.project),
        env=newel.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "First answer." in done.stdout
