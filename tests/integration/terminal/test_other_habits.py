"""If these fail, what people type from habit, such as `exit` or `/new`, becomes a prompt that costs money, or is refused although Newel can
do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def converse(open_terminal: Open, **options: Any) -> Any:
    terminal = open_terminal("rich", **options)
    terminal.wait_for(f"{MARK}\n")
    return terminal


@pytest.mark.parametrize("word", ["exit", "quit", ":q", "/exit"])
def test_a_word_that_leaves_elsewhere_leaves(open_terminal: Open, word: str) -> None:
    terminal = converse(open_terminal)
    terminal.send(f"{word}\r")
    assert terminal.end() == 0
    assert "You said" not in terminal.screen.text


def test_a_word_within_a_sentence_is_a_prompt(open_terminal: Open) -> None:
    terminal = converse(open_terminal)
    terminal.send("exit codes?\r")
    terminal.wait_for("You said: exit codes?")


def test_a_question_mark_and_help_list_the_commands(open_terminal: Open) -> None:
    terminal = converse(open_terminal, rows=60)
    terminal.send("?\r")
    terminal.wait_for("list the commands")
    terminal.send("help\r")
    terminal.wait_for(lambda: terminal.screen.text.count("list the commands") == 2)
    assert "You said" not in terminal.screen.text


def test_clear_alone_neither_costs_a_request_nor_drops_the_conversation(open_terminal: Open) -> None:
    terminal = converse(open_terminal, columns=120)
    terminal.send("one\r")
    terminal.wait_for("You said: one")
    terminal.send("clear\r")
    terminal.wait_for("Ctrl+L clears the screen, and `/clear` starts a new conversation.")
    terminal.send("/session\r")
    terminal.wait_for("messages  2")


def test_commands_of_other_tools_do_what_they_do_there(open_terminal: Open) -> None:
    terminal = converse(open_terminal, rows=60)
    terminal.send("one\r")
    terminal.wait_for("You said: one")
    for typed, shown in (
        ("/status", "approve   auto"),
        ("/context", "1.2k in"),
        ("/mode plan", "Approval mode: plan"),
        ("/effort high", "Thinking is high."),
        ("/new", "New conversation."),
        ("/sessions", "Sessions in this folder"),
    ):
        terminal.send(f"{typed}\r")
        terminal.wait_for(shown)


def test_a_command_that_newel_lacks_says_what_to_do(open_terminal: Open) -> None:
    terminal = converse(open_terminal, columns=160, rows=60)
    for typed, shown in (
        ("/vim", "`newel config set terminal.editing vi`"),
        ("/login", "`newel setup`"),
        ("/commit", "`!git commit`"),
        ("/add x.py", "`@path` in a message attaches a file"),
    ):
        terminal.send(f"{typed}\r")
        terminal.wait_for(shown)


def test_a_mode_that_a_session_cannot_take_is_reached_by_resuming_it(open_terminal: Open) -> None:
    """If this fails, the user of --approve review learns only that it does not work."""
    terminal = converse(open_terminal, columns=160)
    terminal.send("/approve review\r")
    terminal.wait_for("resume it with --approve review")
