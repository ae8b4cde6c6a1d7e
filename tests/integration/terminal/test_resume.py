"""If these fail, somebody who comes back to a conversation sees an empty screen, or does not know how to come back."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]
MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def leave(terminal: Any) -> str:
    """Leave, and return the id of the session in what the last line says, or ``-c``."""
    terminal.wait_for(lambda: terminal.screen.text.rstrip().splitlines()[-1].strip() != "")
    terminal.send("\x04")
    assert terminal.end() == 0
    return re.findall(r"`newel (-c|--session \w+)` resumes this conversation\.", terminal.screen.text)[-1]


def session_of(tmp_path: Any, number: int = 0) -> str:
    paths = sorted((tmp_path / ".newel" / "sessions").glob("*/*.jsonl"))
    return paths[number].stem.rpartition("_")[2]


def test_a_resumed_conversation_is_shown_again(open_terminal: Open, tmp_path: Any) -> None:
    first = open_terminal("rich", "write a.txt", "edit a.txt", "run echo seen; exit 3")
    first.wait_for("Done after")
    first.wait_for("exit code 3")
    assert leave(first) == "-c"
    second = open_terminal("rich", PROGRAM_SESSION=session_of(tmp_path), rows=50)
    second.wait_for("Resumed")
    shown = second.screen.text
    for words in (f"{MARK} write a.txt", "● write a.txt", "new, 8 bytes", "● edit a.txt", "TWO", "I run it."):
        assert words in shown, words
    assert re.search(r"bash echo seen; exit 3 .*exit code 3", shown)
    assert shown.index("Done after 1 results.") < shown.index("── Resumed ")
    assert "earlier message" not in shown
    second.send("more\r")
    second.wait_for("You said: more")


def test_a_command_that_a_kill_cut_off_is_not_said_to_have_never_run(
    open_terminal: Open, tmp_path: Any
) -> None:
    """If this fails, the user runs it again, although it may have done half of its work."""
    killed = open_terminal("rich", "run touch begun; sleep 60")
    killed.wait_for((tmp_path / "project" / "begun").exists)
    killed.process.kill()
    killed.end()
    resumed = open_terminal("rich", PROGRAM_SESSION=session_of(tmp_path))
    resumed.wait_for("Resumed")
    assert "interrupted, outcome unknown" in resumed.screen.text
    assert "not run" not in resumed.screen.text


def test_a_prompt_whose_answer_a_kill_cut_off_is_said_to_have_none(
    open_terminal: Open, tmp_path: Any
) -> None:
    """Otherwise the user waits for the answer that they saw begin, or wonders where it is."""
    killed = open_terminal("rich", "slow")
    killed.wait_for("It has three parts")
    killed.process.kill()
    killed.end()
    resumed = open_terminal("rich", PROGRAM_SESSION=session_of(tmp_path))
    resumed.wait_for("This prompt has no answer. `/rewind` puts it back into the input.")
    resumed.send("/rewind\r")
    resumed.wait_for("Back to before which prompt?")
    resumed.send("\r")
    resumed.wait_for(f"{MARK} slow\n")


def test_a_run_that_a_kill_cut_off_is_said_not_to_have_ended(open_terminal: Open, tmp_path: Any) -> None:
    killed = open_terminal("rich", "run touch begun; sleep 60")
    killed.wait_for((tmp_path / "project" / "begun").exists)
    killed.process.kill()
    killed.end()
    resumed = open_terminal("rich", PROGRAM_SESSION=session_of(tmp_path))
    resumed.wait_for("This run did not come to its end. Say how it should go on, such as `continue`.")
    resumed.send("continue\r")
    resumed.wait_for("You said: continue")
    assert leave(resumed) == "-c"
    again = open_terminal("rich", PROGRAM_SESSION=session_of(tmp_path))
    again.wait_for("Resumed")
    assert "did not come to its end" not in again.screen.text


def test_of_a_long_conversation_the_end_is_shown_with_how_much_is_before(
    open_terminal: Open, tmp_path: Any
) -> None:
    first = open_terminal("rich", *(f"words {number}" for number in range(30)))
    first.wait_for("You said: words 29")
    leave(first)
    second = open_terminal("rich", PROGRAM_SESSION=session_of(tmp_path), rows=12)
    second.wait_for("── Resumed ")
    shown = second.screen.text
    assert f"{MARK} words 29" in shown
    assert "words 10" not in shown
    assert re.search(rf"… \d\d earlier messages\n\n?{MARK} words \d\d\n", shown)
    assert len(shown.splitlines()) < 40


def test_a_line_based_terminal_shows_prompts_and_answers_too(
    run_program: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Any
) -> None:
    run_program("console", "first words", "run echo seen")
    done = run_program("console", PROGRAM_SESSION=session_of(tmp_path))
    assert "> first words\nYou said: first words\n" in done.stdout
    assert re.search(r"bash echo seen ✓ seen", done.stdout)
    assert "resumes this conversation" not in done.stdout


def test_of_a_long_prompt_the_beginning_is_shown_again_with_how_many_lines_follow(
    open_terminal: Open, run_program: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Any
) -> None:
    first = open_terminal("rich", "\n".join(f"line {number}" for number in range(1, 37)))
    first.wait_for("You said")
    leave(first)
    beginning = ["line 1", "line 2", "line 3", "line 4", "line 5", "line 6", "… 30 more lines"]
    resumed = open_terminal("rich", PROGRAM_SESSION=session_of(tmp_path), rows=60)
    resumed.wait_for("── Resumed ")
    assert f"{MARK} " + "\n  ".join(beginning) in resumed.screen.text
    leave(resumed)
    assert "> " + "\n".join(beginning) in run_program("console", PROGRAM_SESSION=session_of(tmp_path)).stdout


def test_the_list_is_searched_by_first_words_and_shows_what_was_chosen(open_terminal: Open) -> None:
    for words in ("about apples", "about pears", "about plums"):
        earlier = open_terminal("rich", words)
        earlier.wait_for(f"You said: {words}")
        leave(earlier)
    terminal = open_terminal("rich", rows=30)
    terminal.wait_for("Enter sends")
    terminal.send("/resume\r")
    terminal.wait_for("Esc cancels")
    terminal.send("pears")
    terminal.wait_for(lambda: "about plums" not in terminal.screen.text.rpartition("Sessions in this")[2])
    terminal.send("\r")
    terminal.wait_for("── Resumed ")
    assert "You said: about pears" in terminal.screen.text
    assert leave(terminal).startswith("--session ")


def test_nothing_said_is_nothing_to_resume(open_terminal: Open) -> None:
    terminal = open_terminal("rich")
    terminal.wait_for("Enter sends")
    terminal.send("\x04")
    assert terminal.end() == 0
    assert "resumes" not in terminal.screen.text
