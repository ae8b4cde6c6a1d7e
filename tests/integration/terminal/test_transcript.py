"""If these fail, somebody cannot read again what was abbreviated, or their terminal is not as it was afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.served import wait_until
from tests.tmux import Tmux

AtTerminal = Callable[..., Tmux]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
TITLE = "Transcript · "


def open_transcript(
    at_terminal: AtTerminal, *prompts: str, columns: int = 80, rows: int = 24, **env: str
) -> Tmux:
    """The transcript of a conversation that has come to its end."""
    terminal = at_terminal("rich", *prompts, columns=columns, rows=rows, **env)
    wait_for_prompt(terminal, runs=len(prompts))
    terminal.type("", "C-o")
    terminal.wait_for("q closes")
    return terminal


def wait_for_prompt(terminal: Tmux, *, runs: int = 1) -> None:
    """Wait for the last lines of runs, and for the empty prompt below."""
    terminal.wait_for(" out · $", times=runs)
    terminal.wait_for(f"\n{MARK}\n")


def test_the_transcript_shows_everything_and_its_end_first(at_terminal: AtTerminal) -> None:
    terminal = open_transcript(at_terminal, "run seq 1 60", "edit missing.txt", "essay")
    assert "That is all.\nTranscript · end" in terminal.view
    terminal.type("g")
    terminal.wait_for("command: seq 1 60")
    assert terminal.view.startswith(
        f"{MARK} run seq 1 60\n\nI run it.\n\n● bash seq 1 60\ncommand: seq 1 60\nresult:"
    )
    assert "    7\n    8\n" in terminal.view
    terminal.type("/nothing like it", "Enter")
    terminal.wait_for("Not found below: nothing like it")
    terminal.type("/old_string: TWO", "BSpace", "BSpace", "BSpace", "Enter")
    terminal.wait_for("old_string: two")


@pytest.mark.parametrize("key", ["q", "Escape", "C-c", "C-o"])
def test_the_screen_comes_back_as_it_was(at_terminal: AtTerminal, key: str) -> None:
    terminal = at_terminal("rich", "essay")
    wait_for_prompt(terminal)
    terminal.type("a draft")
    terminal.wait_for(f"{MARK} a draft")
    before = terminal.text
    terminal.type("", "C-o")
    terminal.wait_for(TITLE)
    terminal.type("", key)
    wait_until(lambda: terminal.text == before, "the screen as it was")
    terminal.type("!", "Enter")
    terminal.wait_for("You said: a draft!")


@pytest.mark.parametrize("pause_s", [0, 0.005, 0.02, 0.06])
def test_what_is_typed_right_after_closing_reaches_the_prompt(
    at_terminal: AtTerminal, pause_s: float
) -> None:
    terminal = open_transcript(at_terminal, "essay")
    if pause_s:
        terminal.type("q")
        time.sleep(pause_s)
        terminal.type("hello there", "Enter")
    else:
        terminal.type("qhello there", "Enter")
    terminal.wait_for("You said: hello there")


def test_the_run_goes_on_behind_the_transcript(at_terminal: AtTerminal, tmp_path: Path) -> None:
    terminal = at_terminal("rich", "run until [ -e go ]; do sleep 0.05; done")
    terminal.wait_for("○ bash")
    terminal.type("", "C-o")
    terminal.wait_for("No result yet.")
    (tmp_path / "project" / "go").touch()
    terminal.type("", "C-o")
    terminal.wait_for("Done after 1 results.")


@pytest.mark.slow  # seconds of waiting
def test_a_question_behind_the_transcript_is_announced(at_terminal: AtTerminal, tmp_path: Path) -> None:
    """Otherwise somebody reads while their agent waits; and no key that they press there is an answer."""
    terminal = at_terminal("rich", "essay", "slow", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("That is all.")
    terminal.type("", "C-o")
    terminal.wait_for("A question is waiting")
    terminal.type("y", "Enter")
    terminal.type("q")
    terminal.wait_for("Run this?")
    assert not (tmp_path / "project" / "it").exists()
    terminal.answer("y", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "it").exists()


@pytest.mark.parametrize(("columns", "rows"), [(120, 40), (50, 20), (30, 10)])
def test_the_transcript_fits_every_terminal(at_terminal: AtTerminal, columns: int, rows: int) -> None:
    terminal = open_transcript(at_terminal, "run echo " + "words " * 60, columns=columns, rows=rows)
    terminal.resize(columns + 7, rows + 3)
    terminal.type("g")
    terminal.wait_for(f"{MARK} run echo words")
    terminal.wait_for("q closes")
    terminal.type("q")
    terminal.wait_for(f"\n{MARK}\n")


def test_escape_sequences_of_an_output_do_nothing_in_the_transcript(at_terminal: AtTerminal) -> None:
    printf = r"printf '\033[2J\033]0;owned\007\033[31mred\n%s' done"
    terminal = open_transcript(at_terminal, f"run {printf}", NO_COLOR="1")
    assert "    red\n    done" in terminal.view
    assert not [line for line in terminal.painted if "\x1b[31m" in line]


def test_leaving_from_outside_closes_the_transcript(at_terminal: AtTerminal) -> None:
    """Otherwise the shell is left on the alternate screen, without echo."""
    import os
    import signal

    terminal = open_transcript(at_terminal, "essay")
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.wait_for_end()
    assert TITLE not in terminal.view
    assert "That is all." in terminal.text


def test_without_a_conversation_the_key_does_nothing(at_terminal: AtTerminal) -> None:
    terminal = at_terminal("rich")
    terminal.wait_for(f"\n{MARK}\n")
    terminal.type("", "C-o")
    terminal.type("hello", "Enter")
    terminal.wait_for("You said: hello")
