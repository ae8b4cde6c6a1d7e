"""If these fail, somebody who approves call by call answers a question without the result of the one before, or reads the lines of
another call as a part of what they approve.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import BIN, Newel
from tests.terminal_waits import PATIENCE
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "tool_calls": [{"function": {"name": tool, "arguments": arguments}} for tool, arguments in wanted]
    }


def write(name: str) -> tuple[str, dict[str, Any]]:
    return "write", {"file_path": name, "content": f"the text of {name}\n"}


def script(**scenarios: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "scenarios": [{"name": name, "trigger": name, "steps": steps} for name, steps in scenarios.items()]
    }


def at_terminal(newel: Newel, *words: str) -> Tmux:
    environ = newel.environ | {"TERM": "xterm-256color"}
    command = [str(BIN / "newel"), "--approve", "ask", *words, "go"]
    return Tmux(command, newel.project, environ, columns=100)


def is_in_order(text: str, *parts: str) -> bool:
    """Whether the parts are in the text, one after the other."""
    for part in parts:
        _, found, text = text.partition(part)
        if not found:
            return False
    return True


def test_a_call_whose_question_a_kill_ended_is_known_not_to_have_run(with_model: Make) -> None:
    """Otherwise the model looks for traces of a command that never ran, and the user does not know whether it did."""
    run = ("bash", {"command": "touch begun; sleep 60"})
    newel = with_model(script(go=[{"response": calls(run, write("two"))}], again=[{"response": DONE}]))
    with at_terminal(newel) as terminal:
        terminal.wait_for("Run this?")
        terminal.kill("SIGKILL")
        terminal.wait_for_end()
    assert newel("-c", "again").returncode == 0
    results = [each for each in newel.requests[-1]["messages"] if each["role"] == "tool"]
    assert [each["content"] for each in results] == ["Not run: Newel ended before this call started."] * 2


def test_a_call_that_was_allowed_before_a_kill_may_have_run(with_model: Make) -> None:
    """Otherwise the model would run a command again that has done half of its work."""
    run = ("bash", {"command": "touch begun; sleep 60"})
    newel = with_model(script(go=[{"response": calls(run, write("two"))}], again=[{"response": DONE}]))
    with at_terminal(newel) as terminal:
        terminal.wait_for("Run this?")
        terminal.answer("y", "Enter")
        until = time.monotonic() + PATIENCE
        while not (newel.project / "begun").exists():
            assert time.monotonic() < until, terminal.text
            time.sleep(0.02)
        terminal.kill("SIGKILL")
        terminal.wait_for_end()
    assert newel("-c", "again").returncode == 0
    results = [each for each in newel.requests[-1]["messages"] if each["role"] == "tool"]
    assert "the outcome of this call is unknown" in results[0]["content"]
    assert results[1]["content"] == "Not run: Newel ended before this call started."


@pytest.mark.slow  # seconds of waiting
def test_the_result_of_a_call_is_above_the_next_question(with_model: Make) -> None:
    """Of both: one that ran and one that was declined."""
    newel = with_model(
        script(go=[{"response": calls(*map(write, ["one", "two", "three"]))}, {"response": DONE}])
    )
    with at_terminal(newel) as terminal:
        terminal.wait_for("+the text of one")
        terminal.answer("y", "Enter")
        terminal.wait_for("+the text of two")
        terminal.wait_for("Make this change?")
        seen = terminal.text
        assert is_in_order(
            seen, "Allowed once: write one", "write one", "new, 16 bytes", "+the text of two"
        ), seen
        assert (newel.project / "one").exists()
        terminal.answer("n", "Enter")
        terminal.wait_for("+the text of three")
        seen = terminal.text
        assert is_in_order(seen, "Denied: write two", "write two", "not run", "+the text of three"), seen
        terminal.answer("y", "Enter")
        terminal.wait_for("Done.")
        assert is_in_order(terminal.text, "Allowed once: write three", "new, 18 bytes"), terminal.text


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize("words", [[], ["-p", "--tools", "write,task"]])
def test_what_ends_during_a_question_is_printed_after_the_answer(with_model: Make, words: list[str]) -> None:
    look = ("task", {"description": "look around", "prompt": "look around"})
    newel = with_model(
        script(
            go=[{"response": calls(look, write("one"))}, {"response": DONE}],
            look=[{"response": {"content": "I saw nothing."}, "delay_ms": 2_000}],
        )
    )
    with at_terminal(newel, *words) as terminal:
        terminal.wait_for("+the text of one")
        until = time.monotonic() + PATIENCE
        while not any("I saw nothing." in session.read_text() for session in newel.sessions):
            assert time.monotonic() < until, terminal.text
            time.sleep(0.05)
        time.sleep(0.3)  # it would be printed by now
        assert "look around" not in terminal.text.rpartition("+the text of one")[2], terminal.text
        terminal.answer("y", "Enter")
        terminal.wait_for("Done.")
        assert is_in_order(terminal.text, "+the text of one", "task look around", "new, 16 bytes"), (
            terminal.text
        )
