"""If these fail, a key that a person pressed for something else runs a command, or their draft is lost."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.terminal.renderers.base import TICK_S
from newel.terminal.ui.line_reader import QUIET_S
from tests.tmux import Tmux

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
DRAFT = "and then look at the second file, too"
JEXIDA = [sys.executable, "-m", "tests.integration.jexida.program"]


def test_a_yes_typed_within_milliseconds_runs_nothing_and_the_draft_stays(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("    touch it")
    terminal.wait_for("Run this?")
    terminal.type(f"{DRAFT}y", "Enter")
    terminal.wait_for(f"{MARK} {DRAFT}y\nPause typing to answer")
    terminal.wait_for("Enter answers · Esc stops · your draft comes back")
    assert not (tmp_path / "project" / "it").exists()
    terminal.type("y", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "it").exists()
    terminal.wait_for(f"{MARK} {DRAFT}y")
    assert "You said" not in terminal.text


@pytest.mark.slow  # seconds of waiting
def test_a_question_waits_for_a_pause_in_typing(at_terminal: Callable[..., Tmux], tmp_path: Path) -> None:
    """For three times the length of a pause, keys arrive, much more often than that."""
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    until, typed = time.monotonic() + 3 * QUIET_S, ""
    while time.monotonic() < until:
        terminal.type("y", "Enter")
        typed += "y"
        time.sleep(QUIET_S / 10)
    assert not (tmp_path / "project" / "it").exists()
    terminal.wait_for(f"{MARK} {typed}\n")


def test_a_question_draws_once_however_long_it_waits(open_terminal: Open) -> None:
    """A laptop waits for an answer over lunch: the spinner that a question hides must not draw the screen ten times a second."""
    terminal = open_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    drawn = terminal.raw
    terminal.watch(5 * TICK_S)
    assert terminal.raw == drawn
    terminal.send("y\r")
    terminal.wait_for("Done after 1 results.")


def test_a_pasted_yes_answers_nothing(at_terminal: Callable[..., Tmux], tmp_path: Path) -> None:
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    terminal.type("\x1b[200~y\ny\n\x1b[201~")
    terminal.wait_for("? y\n  y")
    assert not (tmp_path / "project" / "it").exists()


@pytest.mark.slow  # seconds of waiting
def test_an_edit_is_asked_about_as_a_change_in_colour(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal("rich", "write a.py", "edit a.py", PROGRAM_APPROVE="ask")
    terminal.wait_for("Make this change? y once · a exactly this")
    assert "v see all" not in terminal.text
    terminal.answer("y", "Enter")
    terminal.wait_for("+three")
    painted = "\n".join(terminal.painted)
    assert "\x1b[38;5;172m-two" in painted
    assert "\x1b[38;5;33m+TWO" in painted
    assert "\x1b[1m--- a.py" in painted.replace("    ", "")
    terminal.answer("y", "Enter")
    terminal.wait_for("Done after 3 results.")
    assert (tmp_path / "project" / "a.py").read_text() == "one\nTWO\nthree\n"


@pytest.mark.slow  # seconds of waiting
def test_a_long_edit_is_folded_and_can_be_seen_whole_before_a_yes(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal("rich", "fill a.py", PROGRAM_APPROVE="ask")
    terminal.wait_for("Make this change? v see all of it · y once")
    assert "+line 17\n    … 75 more lines (+100 in all) · v shows all of it\n    +line 93\n" in terminal.text
    assert "\x1b[38;5;33m+line \x1b[36m93" in "\n".join(terminal.painted)
    terminal.answer("v", "Enter")
    terminal.wait_for("The whole change")
    assert "+line 1\n" in terminal.view
    terminal.type("G")
    terminal.wait_for("+line 90\n")
    terminal.type("q")
    terminal.wait_for("Make this change?")
    assert not (tmp_path / "project" / "a.py").exists()
    terminal.answer("y", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "a.py").read_text().count("\n") == 100


@pytest.mark.parametrize("front", ["one-shot-rich", "console"])
def test_in_line_mode_a_long_edit_is_printed_whole_on_demand(
    at_terminal: Callable[..., Tmux], front: str
) -> None:
    terminal = at_terminal(front, "fill a.py", PROGRAM_APPROVE="ask")
    terminal.wait_for("v see all of it")
    assert "+line 50\n" not in terminal.text
    terminal.answer("v", "Enter")
    terminal.wait_for("+line 50\n")
    terminal.wait_for("v see all of it", times=2)


def test_a_command_is_edited_before_it_runs_and_the_model_is_told(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("n no (Enter) · e edit it ·\nor say what to do instead:")
    terminal.answer("e", "Enter")
    terminal.wait_for("? touch it")
    terminal.type("-too", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert [path.name for path in (tmp_path / "project").iterdir() if path.name != "tmux"] == ["it-too"]
    assert "Allowed once, edited: touch it-too" in terminal.text
    assert "bash touch it-too" in terminal.text
    [session] = (tmp_path / ".newel" / "sessions").glob("**/*.jsonl")
    assert "The user edited this command before it ran. It ran as:\\n\\ntouch it-too" in session.read_text()


def test_enter_on_a_command_that_was_not_edited_runs_nothing(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    """The second Enter of a hasty hand is no yes."""
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("e edit it")
    terminal.answer("e", "Enter")
    terminal.wait_for("? touch it")
    terminal.type("", "Enter")
    terminal.wait_for("Nothing was edited.")
    assert not (tmp_path / "project" / "it").exists()
    terminal.answer("n", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert not (tmp_path / "project" / "it").exists()


def test_what_cannot_be_seen_is_not_in_the_command_that_is_edited(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal("rich", "run touch i\u200bt\u202e", PROGRAM_APPROVE="ask")
    terminal.wait_for("touch i<U+200B>t<U+202E>")
    terminal.answer("e", "Enter")
    terminal.wait_for("? touch it")
    terminal.type("2", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "it2").exists()


def test_a_command_that_is_longer_than_the_window_says_how_long_it_is(
    at_terminal: Callable[..., Tmux],
) -> None:
    """If this fails, a hundred harmless lines push a dangerous one out of sight, and nothing tells that there is more."""
    command = "\n".join(["touch first", *[f": {number}" for number in range(1, 100)]])
    terminal = at_terminal("rich", f"run {command}", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    assert "touch first" not in terminal.view
    assert "Run all 100 lines? y once" in terminal.view


def test_a_long_line_says_how_long_it_is(at_terminal: Callable[..., Tmux]) -> None:
    terminal = at_terminal("rich", f"run touch first; {': x; ' * 800}", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    assert "touch first" not in terminal.view
    assert "Run all 4,013 characters? y once" in terminal.view


def test_what_was_sent_earlier_does_not_come_into_an_answer(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    """If this fails, Up in the first line of a command that is edited puts an old message in its place, and Enter runs it."""
    terminal = at_terminal("rich", PROGRAM_APPROVE="ask")
    terminal.wait_for("obedient")
    terminal.type("run touch it", "Enter")
    terminal.wait_for("e edit it")
    terminal.answer("e", "Enter")
    terminal.wait_for("? touch it")
    terminal.type("", "Up", "Up", "End")
    terminal.type("2", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "it2").exists()


@pytest.mark.parametrize("columns", [40, 120])
def test_a_question_survives_another_size_of_the_window(
    at_terminal: Callable[..., Tmux], tmp_path: Path, columns: int
) -> None:
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    terminal.type("use gi")
    terminal.resize(columns, 12)
    terminal.type("t")
    terminal.wait_for("? use git")
    assert "or say what to do instead:" in terminal.view
    terminal.type("", "C-u")
    terminal.type("y", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "it").exists()


def test_pasted_lines_are_in_the_command_that_is_edited_and_do_not_run_it(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("e edit it")
    terminal.answer("e", "Enter")
    terminal.wait_for("? touch it")
    terminal.type("\x1b[200~-a\ny\n\x1b[201~")
    terminal.wait_for("? touch it-a\n  y")
    assert not list((tmp_path / "project").glob("it*"))


def test_where_no_line_can_be_edited_an_e_is_no_refusal(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("one-shot-rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this? y once · a exactly this for the session · n no (Enter) · or say")
    terminal.answer("e\n")
    terminal.wait_for("'e' is not one of the answers.")
    terminal.answer("y\n")
    assert terminal.end() == 0
    assert (tmp_path / "project" / "it").exists()


def test_what_arrives_together_with_an_answer_is_not_lost(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    """Over a slow connection, the answer and the beginning of the next message arrive at once."""
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    terminal.type("And ")
    terminal.wait_for("Enter answers")
    terminal.type("y\rthen")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "it").exists()
    terminal.wait_for(f"{MARK} And then")


def test_a_command_runs_right_after_its_yes_before_the_next_is_asked_about(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal("rich", "run touch one && touch two", PROGRAM_APPROVE="ask")
    terminal.wait_for("    touch one")
    terminal.wait_for("Run this?")
    terminal.answer("y", "Enter")
    terminal.wait_for("    touch two")
    assert (tmp_path / "project" / "one").exists()
    assert not (tmp_path / "project" / "two").exists()


PLAIN = {
    "console": ("console", "\n>", "34 out"),
    "simple": ("simple", "You:", "Agent: Done"),
}


@pytest.mark.parametrize("front", ["console", "simple", "one-shot-rich", "one-shot-console"])
def test_in_line_mode_a_yes_right_after_the_question_runs_nothing(
    at_terminal: Callable[..., Tmux], tmp_path: Path, front: str
) -> None:
    one_shot = front.startswith("one-shot")
    terminal = at_terminal(front, *(["run touch it"] if one_shot else []), PROGRAM_APPROVE="ask")
    if not one_shot:
        terminal.wait_for(PLAIN[front][1].strip())
        terminal.type("run touch it", "Enter")
    terminal.wait_for("Run this?")
    terminal.type(f"{DRAFT}", "Enter")
    terminal.type("y", "Enter")
    terminal.type("unfinished")
    terminal.wait_for("Typed before the question, and not sent:")
    terminal.wait_for("Run this?", times=2)
    assert DRAFT in terminal.text.rpartition("not sent:")[2].replace("\n", "")
    assert not (tmp_path / "project" / "it").exists()
    terminal.type("", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert not (tmp_path / "project" / "it").exists()


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize(
    ("front", "typed"),
    [
        ("rich", "ok"),
        ("rich", "Sure!"),
        ("rich", "yes please"),
        ("console", "Sure!"),
        ("one-shot-rich", "ok"),
    ],
)
def test_an_unclear_answer_is_asked_again_and_neither_runs_nor_refuses(
    open_terminal: Open, tmp_path: Path, front: str, typed: str
) -> None:
    prompts = ["run touch it"]
    terminal = open_terminal(front, *prompts, PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    enter = "\r" if front == "rich" else "\n"
    terminal.answer(typed + enter)
    terminal.wait_for(f"'{typed}' is not one of the answers.")
    assert not (tmp_path / "project" / "it").exists()
    terminal.answer("y" + enter)
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "it").exists()


@pytest.mark.parametrize("key", ["e", "?", "E"])
def test_a_key_of_another_question_neither_changes_a_file_nor_refuses(
    open_terminal: Open, tmp_path: Path, key: str
) -> None:
    terminal = open_terminal("rich", "write a.txt", PROGRAM_APPROVE="ask")
    terminal.wait_for("Make this change?")
    terminal.answer(f"{key}\r")
    terminal.wait_for(f"'{key}' is not one of the answers.")
    assert "not run" not in terminal.screen.text
    terminal.answer("y\r")
    terminal.wait_for("Done after 1 results.")


def test_jexida_takes_no_key_of_a_draft_and_no_ok_as_an_answer(
    at_terminal: Callable[..., Tmux], tmp_path: Path
) -> None:
    terminal = at_terminal(program=JEXIDA, rows=40)
    terminal.wait_for("up")
    terminal.type("run touch it", "Enter")
    terminal.wait_for("Run it?")
    terminal.type("y", "Enter")
    terminal.wait_for("Enter answers")
    assert not (tmp_path / "project" / "it").exists()
    terminal.answer("ok", "Enter")
    terminal.wait_for("'ok' is not one of the answers.")
    assert not (tmp_path / "project" / "it").exists()
    terminal.wait_for("Enter answers")
    terminal.answer("y", "Enter")
    terminal.wait_for("last   exit code 0")
    terminal.wait_for(f"{MARK} y")


@pytest.mark.parametrize("front", ["rich", "console", "simple", "one-shot-rich"])
@pytest.mark.parametrize("end", ["hang up", signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_a_question_whose_terminal_closes_runs_nothing(
    open_terminal: Open, tmp_path: Path, front: str, end: str | signal.Signals
) -> None:
    prompts = [] if front in {"console", "simple"} else ["run touch it"]
    terminal = open_terminal(front, *prompts, PROGRAM_APPROVE="ask")
    if not prompts:
        terminal.wait_for(">" if front == "console" else "You:")
        terminal.send("run touch it\n")
    terminal.wait_for("Run this?")
    if isinstance(end, str):
        terminal.hang_up()
    else:
        os.kill(terminal.process.pid, end)
    assert terminal.process.wait(15) != 0
    assert not (tmp_path / "project" / "it").exists()


@pytest.mark.parametrize("front", ["rich", "one-shot-rich", "one-shot-console"])
def test_an_end_of_input_at_a_question_runs_nothing(open_terminal: Open, tmp_path: Path, front: str) -> None:
    terminal = open_terminal(front, "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    terminal.answer("\x04")
    terminal.end()
    assert not (tmp_path / "project" / "it").exists()


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("y", "Allowed once: touch it"),
        ("a", "Allowed for this session: touch it"),
        ("", "Denied: touch it"),
        ("use git instead", "Denied: touch it"),
    ],
)
def test_an_answer_stays_in_the_scroll_back(
    at_terminal: Callable[..., Tmux], tmp_path: Path, answer: str, line: str
) -> None:
    """Who reads back sees what they have allowed, not only what ran."""
    terminal = at_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    terminal.answer(answer, "Enter")
    terminal.wait_for("Done after 1 results.")
    asked, _, after = terminal.text.partition("    touch it\n")
    assert after.startswith(f"\n{line}\n\n"), terminal.text
    assert "Allowed" not in asked
    assert (tmp_path / "project" / "it").exists() == line.startswith("Allowed")


def test_an_answer_about_an_edit_names_its_file(at_terminal: Callable[..., Tmux], tmp_path: Path) -> None:
    terminal = at_terminal("rich", "write notes.txt", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    terminal.answer("y", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert "    +two\n\nAllowed once: write notes.txt\n\n" in terminal.text
    assert (tmp_path / "project" / "notes.txt").exists()


def test_an_answer_takes_one_row_in_a_narrow_window(at_terminal: Callable[..., Tmux]) -> None:
    prompt = "run touch one two three four five six seven eight nine ten"
    terminal = at_terminal("rich", prompt, columns=40, PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter answers")
    terminal.answer("y", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert "\n\nAllowed once: touch one two three four…\n\n" in terminal.text, terminal.text


@pytest.mark.parametrize("front", ["one-shot-rich", "console", "simple"])
def test_where_the_typed_answer_stays_it_is_not_repeated(
    at_terminal: Callable[..., Tmux], front: str
) -> None:
    one_shot = front.startswith("one-shot")
    terminal = at_terminal(front, *(["run touch it"] if one_shot else []), PROGRAM_APPROVE="ask")
    if not one_shot:
        terminal.wait_for(PLAIN[front][1].strip())
        terminal.type("run touch it", "Enter")
    terminal.wait_for("Run this?")
    terminal.answer("y", "Enter")
    terminal.wait_for("Done after 1 results.")
    assert "instead: y" in terminal.text.replace("\n", "")
    assert "Allowed" not in terminal.text


def test_a_question_about_an_undo_takes_keys_and_no_other_answer_for_a_no(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal("rich", "write a.txt", rows=40)
    terminal.wait_for("Done after 1 results.")
    terminal.send("/undo\r")
    terminal.wait_for("Undo these changes? [y/N, v: diff]")
    terminal.send("x\r")
    terminal.wait_for("'x' is not one of the answers.")
    assert "Nothing was changed." not in terminal.screen.text
    terminal.wait_for("[y/N, v: diff]\n?\n")
    terminal.send("v")
    terminal.wait_for("-one")
    terminal.wait_for("[y/N, v: diff]\n?\n")
    terminal.send("\r")  # as after a v in a line
    terminal.send("y")
    terminal.wait_for("Undone in 1 file: a.txt.")
    assert not (tmp_path / "project" / "a.txt").exists()


def test_an_enter_leaves_an_undo_undone(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "write a.txt")
    terminal.wait_for("Done after 1 results.")
    terminal.send("/undo\r")
    terminal.wait_for("Undo these changes? [y/N, v: diff]")
    terminal.send("\r")
    terminal.wait_for("Nothing was changed.")
    assert (tmp_path / "project" / "a.txt").exists()


def test_a_digit_is_neither_a_yes_nor_a_refusal(open_terminal: Open, tmp_path: Path) -> None:
    """Other agents number their answers."""
    terminal = open_terminal("rich", "run touch made", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    terminal.answer("1\r")
    terminal.wait_for("'1' is not one of the answers.")
    assert not (tmp_path / "project" / "made").exists()
    terminal.answer("y\r")
    terminal.wait_for("Done after 1 results.")
    assert (tmp_path / "project" / "made").exists()


def test_an_enter_behind_a_key_that_answers_does_not_send_the_draft(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "write a.txt")
    terminal.wait_for("Done after 1 results.")
    terminal.send("/rewind\r")
    terminal.wait_for("Back to before which prompt?")
    terminal.send("\r")
    terminal.wait_for("Go back to before")
    terminal.send("\r")
    terminal.wait_for("Undo these changes?")
    terminal.wait_for("a key answers")
    terminal.send("y")
    time.sleep(0.2)  # a person's pause
    terminal.send("\r")
    terminal.wait_for(f"{MARK} write a.txt\n")
    terminal.watch(0.5)
    assert terminal.screen.text.count("● write a.txt") == 1
