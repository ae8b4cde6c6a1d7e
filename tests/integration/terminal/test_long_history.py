"""If these fail, who opens a long conversation again cannot read its beginning, or go back to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.compacted_session import SCRIPTS, TURNS, conversation, write
from tests.tmux import Tmux

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
DOWN, WIDE = "\x1b[B", SCRIPTS[2]


def test_going_back_to_before_the_compactions(open_terminal: Callable[..., Any], tmp_path: Path) -> None:
    session = write(tmp_path / ".newel" / "sessions", tmp_path / "project")
    terminal = open_terminal("rich", PROGRAM_SESSION=session.get_id(), rows=40, columns=100)
    terminal.wait_for(f"── Resumed {session.get_id()[:8]}: {len(conversation())} messages.")
    terminal.send("/cost\r")
    terminal.wait_for(f"${TURNS * 0.25 + 2 * 0.5:.2f}")
    terminal.send("/rewind\r")
    terminal.wait_for("Back to before which prompt?")
    rows = terminal.screen.text.rpartition("Back to before which prompt?")[2]
    assert [int(turn) for turn in re.findall(r"prompt (\d)", rows)] == list(range(TURNS, 0, -1))
    terminal.send(DOWN * (TURNS - 2) + "\r")
    terminal.wait_for("The conversation is back before this prompt.")
    terminal.wait_for(f"{MARK} prompt 2 {WIDE}\n")
    terminal.send("\x15/session\r")
    terminal.wait_for("messages  4\n")
    terminal.send("/show\r")
    terminal.wait_for("cat 1.txt")
    terminal.send("something else\r")
    terminal.wait_for("You said: something else")
    terminal.send("/branch\r")
    terminal.wait_for("Go back to which message?")
    terminal.send("answer 8")
    terminal.wait_for(f"agent  answer 8 {WIDE}  (another branch)")
    terminal.send("\r")
    terminal.wait_for("New branch.")
    terminal.send("/session\r")
    terminal.wait_for(f"messages  {len(conversation()) - 4}\n")


def test_the_transcript_begins_with_the_first_prompt(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    session = write(tmp_path / ".newel" / "sessions", tmp_path / "project")
    terminal = at_terminal("rich", columns=100, PROGRAM_SESSION=session.get_id())
    terminal.wait_for("── Resumed")
    terminal.type("", "C-o")
    terminal.wait_for("q closes")
    terminal.type("g")
    terminal.wait_for("prompt 1 ")
    terminal.wait_for("cat 1.txt")
    terminal.type("/result 6 ", "Enter")
    terminal.wait_for(f"result 6 {SCRIPTS[0]}")
