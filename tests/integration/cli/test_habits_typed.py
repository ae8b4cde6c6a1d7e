"""If these fail, what people type from habit in the installed Newel costs a request, does nothing, or leaves them without the next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.served import wait_until
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def conversation(newel: Newel, *words: str, columns: int = 120, rows: int = 50) -> Tmux:
    screen = Tmux([str(BIN / "newel"), *words], newel.project, newel.environ, columns=columns, rows=rows)
    screen.wait_for("Enter sends")
    return screen


def write(path: str, text: str) -> dict[str, Any]:
    call = {"name": "write", "arguments": {"file_path": path, "content": text}}
    return {"tool_calls": [{"function": call}]}


def test_approve_alone_lists_the_modes_to_choose_from(with_model: Make) -> None:
    """Otherwise the user has to know the names of the modes, and what each lets happen."""
    newel = with_model()
    with conversation(newel) as screen:
        screen.type("/approve", "Enter")
        screen.wait_for(f"{MARK} auto       everything runs unasked, without a sandbox  (in use)")
        assert "  ask        each change and command is shown first" in screen.view
        screen.type("plan", "Enter")
        screen.wait_for("Approval mode: plan.")
        screen.wait_for("approve: plan")
        screen.type("/approve", "Enter")
        screen.wait_for(f"{MARK} plan       it looks around, changes nothing and writes a plan  (in use)")
        screen.type("", "Escape")
        wait_until(lambda: "Esc cancels" not in screen.view, "the closed list")
        screen.type("/session", "Enter")
        screen.wait_for("approve   plan")
    assert newel.requests == []


def test_a_line_that_begins_with_a_hash_is_noted_for_later_conversations(with_model: Make) -> None:
    """Otherwise a rule that was meant for good is forgotten with the conversation."""
    newel = with_model(scenario("Use tabs.", write("AGENTS.md", "Use tabs.\n"), {"content": "Noted."}))
    with conversation(newel) as screen:
        screen.type("# Use tabs.")
        screen.wait_for("the agent notes this in AGENTS.md")
        screen.type("", "Enter")
        screen.wait_for("Noted.")
        assert f"{MARK} Add this to the notes for agents" in screen.text
    assert (newel.project / "AGENTS.md").read_text() == "Use tabs.\n"


def test_a_text_with_a_heading_is_a_prompt(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    with conversation(newel) as screen:
        screen.type("# Task", "C-j")
        screen.type("fix it", "Enter")
        screen.wait_for("Done.")
    assert newel.requests[0]["messages"][-1]["content"] == "# Task\nfix it"


def test_a_command_of_another_tool_is_answered_with_newels_way(with_model: Make) -> None:
    newel = with_model()
    with conversation(newel, columns=200, rows=100) as screen:
        for typed, shown in (
            ("/agents", "The model starts subagents by itself"),
            ("/todos", "The model keeps its list of steps by itself"),
            ("/tasks", "No commands in the background."),
            ("/ide", "`newel acp`"),
            ("/security-review", "Ask for it in a prompt"),
            ("/output-style", "AGENTS.md"),
            ("/release-notes", "`./run uv tool install --reinstall .`. Name the extras"),
            ("/reload", "`newel -c`"),
            ("/drop", "`/rewind` goes back to before it"),
            ("/memory", "`/remember WORDS`"),
        ):
            screen.type(f"{typed} ", "Enter")
            screen.wait_for(shown)
    assert newel.requests == []


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("chat", "`newel` starts a conversation"),
        ("usage", "`newel stats`"),
        ("commit", "`newel -p 'commit the changes'`"),
        ("theme", "/theme is a command of the conversation"),
    ],
)
def test_a_bare_word_in_the_shell_is_no_paid_prompt(with_model: Make, word: str, shown: str) -> None:
    newel = with_model(scenario("", {"content": "A paid answer."}))
    with Tmux(["sh"], newel.project, newel.environ, columns=160) as screen:
        screen.type(f"{BIN}/newel {word}", "Enter")
        screen.wait_for(shown)
        screen.wait_for(f"To send it as a prompt: newel -- {word}")
    assert newel.requests == []
