"""If these fail, what somebody does at the terminal all day does not hold together in the installed program. The details of each step have
tests in ``tests/integration/terminal``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.integration.terminal.conftest import Terminal
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}
MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
FOCUS_OUT = "\x1b[O"


def conversation(newel: Newel, *words: str) -> Tmux:
    environ = newel.environ | {"TERM": "xterm-256color"}
    terminal = Tmux([str(BIN / "newel"), *words], newel.project, environ, columns=100)
    terminal.wait_for("approve: ")
    return terminal


def status(terminal: Tmux) -> str:
    return terminal.view.rpartition("\n")[2]


@pytest.mark.slow  # seconds of waiting
def test_an_answer_takes_a_pause_and_a_clear_word(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("touch it"), DONE))
    with conversation(newel, "--approve", "ask") as terminal:
        assert "mock-model · approve: ask" in status(terminal)
        terminal.type("go", "Enter")
        terminal.wait_for("    touch it")
        terminal.type("and theny", "Enter")
        terminal.wait_for("Enter answers")
        assert not (newel.project / "it").exists()
        terminal.type("ok", "Enter")
        terminal.wait_for("'ok' is not one of the answers.")
        terminal.answer("e", "Enter")
        terminal.wait_for("? touch it")
        terminal.type("-too", "Enter")
        terminal.wait_for("Done.")
        assert "Allowed once, edited: touch it-too" in terminal.text
        terminal.wait_for(f"{MARK} and theny")
        terminal.type("", "BTab")
        terminal.wait_for("mock-model · approve: auto")
    assert (newel.project / "it-too").exists()
    assert not (newel.project / "it").exists()
    assert "The user edited this command before it ran." in newel.requests[-1]["messages"][-1]["content"]


@pytest.mark.slow  # seconds of waiting
def test_a_long_edit_is_seen_whole_and_declined_with_a_word(with_model: Make) -> None:
    lines = "".join(f"line {number}\n" for number in range(1, 101))
    call = {"name": "write", "arguments": {"file_path": "a.txt", "content": lines}}
    newel = with_model(scenario("go", {"tool_calls": [{"function": call}]}, DONE))
    with conversation(newel, "--approve", "ask") as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for("Make this change? v see all of it")
        assert "+line 50\n" not in terminal.text
        terminal.answer("v", "Enter")
        terminal.wait_for("The whole change")
        terminal.type("G")
        terminal.wait_for("+line 90\n")
        terminal.type("q")
        terminal.wait_for("Make this change?")
        terminal.answer("ten lines are enough", "Enter")
        terminal.wait_for("Done.")
        assert "Denied: write a.txt" in terminal.text
    assert not (newel.project / "a.txt").exists()
    assert newel.requests[-1]["messages"][-1]["content"].endswith("said: ten lines are enough")


def test_a_run_is_taken_back_and_the_conversation_resumed(with_model: Make) -> None:
    steps = [scenario("first", bash("echo 1 > one.txt"), DONE), scenario("second", bash("rm one.txt"), DONE)]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in steps]})
    with conversation(newel) as terminal:
        terminal.type("first", "Enter")
        terminal.wait_for("1 file +1 · /review · /undo")
        terminal.type("second", "Enter")
        terminal.wait_for("1 file \N{MINUS SIGN}1 · /review · /undo")
        terminal.type("", "Escape")
        terminal.wait_for("Esc again goes back")
        terminal.type("", "Escape")
        terminal.wait_for("Back to before which prompt?")
        assert re.search(rf"{MARK} +2  \d\d:\d\d  second  \(1 file changed since\)", terminal.view)
        terminal.type("", "Enter")
        terminal.wait_for("Go back to before")
        terminal.type("", "Enter")
        terminal.wait_for("[y/N, v: diff]")
        terminal.type("y", "Enter")
        terminal.wait_for("Undone in 1 file: one.txt.")
        assert (newel.project / "one.txt").read_text() == "1\n"
        terminal.wait_for(f"{MARK} second\n")
        terminal.type("", "C-u", "C-d")
        terminal.wait_for_end()
        assert "`newel -c` resumes this conversation." in terminal.text
    with conversation(newel, "-c") as terminal:
        terminal.wait_for("── Resumed ")
        assert "bash echo 1 > one.txt" in terminal.text
        terminal.type("", "C-o")
        terminal.wait_for("command: echo 1 > one.txt")
        terminal.type("q")


def test_somebody_elsewhere_is_called_and_an_answer_copied(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("touch it"), {"content": "It is there."}))
    environ = newel.environ | {"TERM": "xterm-256color"}
    terminal = Terminal([str(BIN / "newel"), "--approve", "ask"], newel.project, 100, 30, environ)
    try:
        terminal.wait_for("approve: ask")
        terminal.send(FOCUS_OUT)
        terminal.send("go\r")
        terminal.wait_for("Run this?")
        terminal.wait_for(lambda: "\a\x1b]9;newel · project: Run this?" in terminal.raw)
        assert "\x1b]2;? newel · project\a" in terminal.raw
        terminal.answer("y\r")
        terminal.wait_for("It is there.")
        terminal.wait_for(" out")
        terminal.send("/copy\r")
        terminal.wait_for(lambda: "\x1b]52;c;SXQgaXMgdGhlcmUu\a" in terminal.raw)
    finally:
        terminal.close()


def test_notes_for_agents_are_written_at_a_word(with_model: Make) -> None:
    call = {"name": "write", "arguments": {"file_path": "AGENTS.md", "content": "# Notes\n"}}
    newel = with_model(scenario("AGENTS.md", {"tool_calls": [{"function": call}]}, DONE))
    with conversation(newel) as terminal:
        terminal.type("/init", "Enter")
        terminal.wait_for("1 file +1 · /review · /undo")
        assert "write AGENTS.md" in terminal.text
    assert (newel.project / "AGENTS.md").read_text() == "# Notes\n"
