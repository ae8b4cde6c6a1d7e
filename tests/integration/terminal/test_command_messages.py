"""If these fail, a conversation offers what does not work, or answers in broken sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def test_a_session_in_use_is_marked_and_its_refusal_says_what_to_do(
    open_terminal: Open,
) -> None:
    first = open_terminal("rich", "run echo kept")
    first.wait_for("2.4k in")
    second = open_terminal("rich", columns=140)
    second.wait_for(f"{MARK}\n")
    second.send("/resume\r")
    second.wait_for(f"open in another Newel, pid {first.process.pid})")
    second.send("\r")
    second.wait_for(f"This session is open in another Newel (pid {first.process.pid}, since ")
    second.wait_for("Close it there, then /resume it.")
    assert ".jsonl" not in second.screen.text
    first.process.kill()
    first.process.wait()
    second.send("/resume\r")
    second.wait_for(f"{MARK} run echo kept  (4 messages, just now)")


def test_counts_agree_with_their_nouns_and_unknown_commands_stay_visible(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "run echo kept", columns=100)
    terminal.wait_for("2.4k in")
    terminal.send("/show 5\r")
    terminal.wait_for("There is 1 call in this conversation.")
    terminal.send("/nope\r")
    terminal.wait_for(f"{MARK} /nope\n\nError: There is no command /nope.")
    terminal.send("/tools\r")
    terminal.wait_for("write ")
    columns = {
        line.index(label)
        for line in terminal.screen.lines
        for label in ("Read File", "Run", "Edit File", "Write File")
        if line.split()[:1] in (["read"], ["bash"], ["edit"], ["write"]) and label in line
    }
    assert len(columns) == 1, terminal.screen.text
    terminal.send("/stop\r")
    terminal.wait_for("Nothing is running.")
    terminal.send("/thinking much\r")
    terminal.wait_for("There is no level much. Thinking is off. Levels: off, minimal, low, medium, high.")
    terminal.send("/rollback nope\r")
    terminal.wait_for("There is no checkpoint nope. `/rollback` lists them.")


def test_words_that_a_command_does_not_take_keep_it_from_running(open_terminal: Open) -> None:
    """`/clear up the comments` would end the conversation."""
    terminal = open_terminal("rich", "run echo kept", columns=100)
    terminal.wait_for("2.4k in")
    terminal.send("/clear up the comments\r")
    terminal.wait_for("Error: /clear takes no arguments, so it was not run. Type it alone.")
    terminal.send("/stop it\r")
    terminal.wait_for("Error: /stop takes no arguments, so it was not run. Type it alone.")
    terminal.send("/show 2\r")
    terminal.wait_for("There is 1 call in this conversation.")


@pytest.mark.parametrize("front", ["rich", "console"])
def test_messages_name_the_commands_of_the_conversation(open_terminal: Open, front: str) -> None:
    """If this fails, a user leaves the conversation to type what works in it, or types `newel review` as a prompt."""
    enter = "\r" if front == "rich" else "\n"
    terminal = open_terminal(front, "write a.txt", columns=140)
    terminal.wait_for("2.4k in")
    for typed, said in (
        ("/undo nope", "There is no checkpoint nope. `/rollback` lists them."),
        ("/keep h_nope", "`/review` lists hunks and files"),
        ("/permissions add bash", "`newel permissions add RULE` in a shell adds a rule."),
    ):
        terminal.send(typed + enter)
        terminal.wait_for(said)


@pytest.mark.parametrize("answer", ["2", ""])
def test_a_dumb_terminal_asks_for_the_approval_mode(open_terminal: Open, answer: str) -> None:
    """``/approve`` runs beside the jobs: its question must not meet the reader of the next prompt."""
    terminal = open_terminal("rich", TERM="dumb")
    terminal.wait_for("\n>")
    terminal.send("/approve\r")
    terminal.wait_for("Number (Enter: none):")
    terminal.send(f"{answer}\r")
    if answer:
        terminal.wait_for("Approval mode: ask.")
    terminal.wait_for(lambda: terminal.screen.text.endswith("\n>"))
    terminal.send("words\r")
    terminal.wait_for("You said: words")


def test_a_dumb_terminal_has_no_keys_in_its_help(open_terminal: Open) -> None:
    terminal = open_terminal("rich", TERM="dumb", columns=120, rows=60)
    terminal.wait_for("\n>")
    terminal.send("/help\r")
    terminal.wait_for("# words")
    terminal.wait_for(lambda: terminal.screen.text.endswith("\n>"))
    assert "Ctrl+" not in terminal.screen.text
    assert "Enter begins a new line" not in terminal.screen.text


def test_the_help_separates_commands_what_is_typed_and_keys(open_terminal: Open) -> None:
    """Otherwise who looks for a key reads sixty rows."""
    terminal = open_terminal("rich", columns=120, rows=90)
    terminal.wait_for(f"{MARK}\n")
    terminal.send("/help\r")
    terminal.wait_for("suspend Newel")
    groups = [part.split()[0] for part in terminal.screen.text.partition("/help\n\n")[2].split("\n\n")]
    assert groups[:3] == ["/help", "!command", "Enter"]


def test_a_failed_request_says_how_to_send_it_again(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "fail")
    terminal.wait_for("The server refused the request")
    terminal.wait_for("Up and Enter send it again")
    terminal.send("words\r")
    terminal.wait_for("You said: words")
    assert "send it again" not in terminal.screen.text
