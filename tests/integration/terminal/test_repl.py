"""If these fail, a person at a terminal cannot talk to the agent, stop it, or trust what they see."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
ESCAPE, INTERRUPT, END, UP = "\x1b", "\x03", "\x04", "\x1b[A"
LONG = "run echo $$ > pid; echo begun; sleep 60"


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_an_answer_is_in_the_scroll_back_once_and_complete(open_terminal: Open) -> None:
    terminal = open_terminal("rich", rows=12)  # shorter than the answer
    terminal.wait_for(f"{MARK}\n")
    terminal.send("essay\r")
    terminal.wait_for("34 out")
    terminal.send(END)
    assert terminal.end() == 0
    lines = [line for line in terminal.screen.lines if line]
    expected = [
        "newel test",
        f"{MARK} essay",
        "A plan",
        "It has three parts, and 日本語 🙂 in it:",
        " 1 read a.py",
        " 2 change it",
        "python",
        "def greet(name: str) -> str:",
        '    return f"Hello, {name}"',
        " what  where",
        " ───────────",
        " code  a.py",
        "That is all.",
    ]
    assert lines[: len(expected)] == expected
    assert re.fullmatch(r"1\.2k in · 34 out · \$0\.002 · 1 % of 128k · .*s", lines[len(expected)])


def test_escape_stops_a_long_command_and_its_processes(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", LONG)
    terminal.wait_for("│ begun")
    terminal.send(ESCAPE)
    terminal.wait_for("Stopped.")
    pid = int((tmp_path / "project" / "pid").read_text())
    terminal.wait_for(lambda: gone(pid))
    terminal.send("still there?\r")
    terminal.wait_for("You said: still there?")


@pytest.mark.slow  # seconds of waiting
def test_a_command_that_takes_long_to_stop_is_shown_as_stopping_until_it_has_ended(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal(
        "rich", "run trap '' TERM; echo $$ > pid; echo begun; while :; do sleep 0.1; done"
    )
    terminal.wait_for("│ begun")
    terminal.send(ESCAPE)
    terminal.wait_for(lambda: "stopping" in terminal.raw)
    terminal.wait_for("Stopped.")
    assert gone(int((tmp_path / "project" / "pid").read_text()))


def test_ctrl_c_stops_the_run_and_a_second_one_exits(open_terminal: Open) -> None:
    terminal = open_terminal("rich", LONG)
    terminal.wait_for("│ begun")
    terminal.send(INTERRUPT)
    terminal.wait_for("Stopped.")
    terminal.send(INTERRUPT)
    assert terminal.end() == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_text_typed_during_a_run_steers_it(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "run until [ -e go ]; do sleep 0.05; done")
    terminal.wait_for("○ bash")
    terminal.send("at the end\t")
    terminal.send("in between\r")
    terminal.send("unfinished")
    terminal.wait_for(f"{MARK} unfinished\n  in between  (next)\n  at the end  (when it is done)")
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("You said: at the end")
    terminal.wait_for(f"\n{MARK} unfinished\nobedient")
    text = terminal.screen.text
    assert text.index("● bash") < text.index("You said: in between") < text.index("You said: at the end")


def test_messages_to_a_run_keep_their_order_however_long_their_files_take(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal("rich", "run until [ -e go ]; do sleep 0.05; done")
    terminal.wait_for("○ bash")
    Image.new("RGB", (3_000, 2_000)).save(tmp_path / "project" / "wide.png")
    terminal.send("look at wide.png\r")
    terminal.send("then at this\r")
    terminal.wait_for("  look at wide.png  (next)\n  then at this  (next)")
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("You said: then at this")


def test_a_message_that_the_run_did_not_take_returns_to_the_prompt(open_terminal: Open) -> None:
    terminal = open_terminal("rich", LONG)
    terminal.wait_for("│ begun")
    terminal.send("do not lose me\r")
    terminal.wait_for("do not lose me  (next)")
    terminal.send(ESCAPE)
    terminal.wait_for(f"{MARK} do not lose me")
    terminal.send("\r")
    terminal.wait_for("You said: do not lose me")


def test_messages_sent_as_a_run_ends_are_the_next_prompts(open_terminal: Open, tmp_path: Path) -> None:
    """Otherwise they stand in the input, and somebody who has looked away waits for an answer."""
    terminal = open_terminal("rich", "hello", PROGRAM_SLOW_TO_END="1")
    terminal.wait_for((tmp_path / "ending").exists)
    terminal.send("one\r")
    terminal.wait_for("  one  (next)")
    terminal.send("two\t")
    terminal.wait_for("  two  (when it is done)")
    (tmp_path / "end").touch()
    terminal.wait_for("You said: one")
    terminal.wait_for("You said: two")


def test_lines_can_be_added_and_pasted_without_sending(open_terminal: Open) -> None:
    terminal = open_terminal("rich")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("\x1b[200~one\ntwo\n\x1b[201~three\x1b\rfour")
    terminal.wait_for(f"{MARK} one\n  two\n  three\n  four")
    terminal.send("\r")
    terminal.wait_for("You said: one")


def test_the_input_history_is_kept_for_the_next_start_and_private(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal("rich")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("remember this\r")
    terminal.wait_for("34 out")
    terminal.send(END)
    terminal.end()
    again = open_terminal("rich")
    again.wait_for(f"{MARK}\n")
    again.send(UP)
    again.wait_for(f"{MARK} remember this")
    assert (tmp_path / ".newel" / "history").stat().st_mode & 0o777 == 0o600


def test_commands_and_files_are_completed(open_terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "deep").mkdir()
    (tmp_path / "project" / "deep" / "module.py").write_text("x = 1\n")
    terminal = open_terminal("rich")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("/thi\t")
    terminal.wait_for(f"{MARK} /thinking")
    terminal.send(" low\r")
    terminal.wait_for("Thinking is low.")
    terminal.send("look at @modu")
    terminal.wait_for("\n deep/module.py")
    terminal.send("\t")
    terminal.wait_for(f"{MARK} look at @deep/module.py")
    terminal.send("\r")
    terminal.wait_for("+ module.py")


def test_the_users_shell_command_streams_and_can_be_stopped(open_terminal: Open) -> None:
    terminal = open_terminal("rich")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("!!echo mine; sleep 60\r")
    terminal.wait_for("\nmine")
    terminal.send(INTERRUPT)
    terminal.wait_for("exit code 130")
    terminal.send("run true\r")
    terminal.wait_for("Done after 1 results.")


def test_long_copyable_lines_are_not_wrapped_at_words(open_terminal: Open) -> None:
    """Otherwise the shown output differs from the real one, and a copied path has a line break in it."""
    terminal = open_terminal("rich", columns=40)
    terminal.wait_for(f"{MARK}\n")
    terminal.send("!printf '%s  %s\\n' aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbb\r")
    terminal.wait_for("\naaaaaaaaaaaaaaaaaaaa  bbbbbbbbbbbbbbbbbb\nbbbbbb\n")
    terminal.send("/session\r")
    terminal.wait_for("\nmessages")
    assert any(line.startswith("file      /") for line in terminal.screen.lines)


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")
def test_background_processes_of_a_shell_command_are_listed(open_terminal: Open) -> None:
    terminal = open_terminal("rich")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("!sleep 5 > /dev/null 2>&1 & exit 3\r")
    terminal.wait_for("still running: sleep 5 (pid ")


def test_help_and_costs_fit_a_narrow_terminal(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "hello", columns=40)
    terminal.wait_for("34 out")
    terminal.send("/help\r")
    terminal.wait_for("Ctrl+O")
    lines = terminal.screen.lines
    at = next(number for number, line in enumerate(lines) if line.startswith("/compact"))
    assert lines[at : at + 2] == [
        "/compact [WORDS]    summarize the",
        "                    conversation to free",
    ]
    terminal.send("/cost\r")
    terminal.wait_for("/cost\n\n1.2k in · 34 out · $0.002 · 1 % of 128k\n")


def test_an_approval_shows_the_exact_command_and_it_runs_only_after_a_yes(
    open_terminal: Open, tmp_path: Path
) -> None:
    prompts = ("run touch first", "run touch second")
    terminal = open_terminal("rich", *prompts, columns=250, PROGRAM_APPROVE="ask")
    project = tmp_path / "project"
    terminal.wait_for("Run this?")
    assert "\n\n    touch first\n" in terminal.screen.text
    assert str(project) in terminal.screen.text
    assert not (project / "first").exists()
    terminal.answer("y\r")
    terminal.wait_for("    touch second\n")
    assert (project / "first").exists()
    terminal.wait_for("Run this?")
    terminal.answer("not today\r")
    terminal.wait_for("Not run: the user declined this call and said: not today")
    assert not (project / "second").exists()


def test_escape_at_a_question_runs_nothing(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "run touch never", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    terminal.send(ESCAPE)
    terminal.wait_for("Stopped.")
    terminal.send("go on\r")
    terminal.wait_for("You said: go on")
    assert not (tmp_path / "project" / "never").exists()


def test_going_back_branches_and_offers_the_message_for_editing(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "first words")
    terminal.wait_for("34 out")
    terminal.send("/branch\r")
    terminal.wait_for(f"{MARK} you    first words\n  agent  You said: first words\n")
    terminal.send("\r")
    terminal.wait_for(f"{MARK} first words\nEnter sends")
    terminal.send(" again\r")
    terminal.wait_for("You said: first words again")


def test_a_session_is_resumed_from_a_list(open_terminal: Open) -> None:
    first = open_terminal("rich", "run echo kept")
    first.wait_for("Done after 1 results.")
    first.wait_for("2.4k in")
    first.send(END)
    first.end()
    second = open_terminal("rich")
    second.wait_for(f"{MARK}\n")
    second.send("/resume\r")
    second.wait_for(f"{MARK} run echo kept  (4 messages, just now)")
    second.send("\r")
    second.wait_for("Resumed")
    assert re.search(r"^── Resumed [0-9a-f]{8}: 4 messages\. ──$", second.screen.text, re.MULTILINE)
    assert "run echo kept" in second.screen.text
    second.send("\x0f")  # Ctrl+O
    second.wait_for("command: echo kept\nresult:\n    stdout:\n    kept\n")


def test_resizing_keeps_the_screen_usable(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "run until [ -e go ]; do sleep 0.05; done", columns=120)
    terminal.wait_for("○ bash")
    terminal.resize(40, 10)
    os.kill(terminal.process.pid, signal.SIGWINCH)
    terminal.screen.columns, terminal.screen.rows = 40, 10
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("Done after 1 results.")
    terminal.send("fine\r")
    terminal.wait_for("You said: fine")


def test_no_color_is_respected(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "essay", NO_COLOR="1")
    terminal.wait_for("34 out")
    codes = {code for found in re.findall(r"\x1b\[([0-9;]*)m", terminal.raw) for code in found.split(";")}
    assert codes <= {"", "0", "1", "2", "3", "4", "22", "23", "24"}


def test_a_dumb_terminal_gets_plain_lines(open_terminal: Open) -> None:
    terminal = open_terminal("rich", TERM="dumb")
    terminal.wait_for("\n>")
    terminal.send("essay\n")
    terminal.wait_for("34 out")
    terminal.send("/quit\n")
    assert terminal.end() == 0
    assert "\x1b" not in terminal.raw
    assert "**" not in terminal.raw


def test_a_dumb_terminal_ignores_input_from_before_the_question(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", TERM="dumb", PROGRAM_APPROVE="ask")
    terminal.wait_for("\n>")
    terminal.send("run touch unseen\ny\n")
    terminal.wait_for("Run this?")
    terminal.answer("\n")
    terminal.wait_for("Done after 1 results.")
    terminal.send("run touch seen\n")
    terminal.wait_for("    touch seen")
    terminal.answer("y\n")
    terminal.wait_for("Done after 2 results.")
    assert sorted(path.name for path in (tmp_path / "project").iterdir()) == ["seen"]


def test_text_typed_before_a_question_does_not_answer_it(open_terminal: Open, tmp_path: Path) -> None:
    """If sent, it is a prompt of its own; if not, it waits until the question is answered."""
    terminal = open_terminal("rich", PROGRAM_APPROVE="ask")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("run touch unseen\ry\ry")
    terminal.wait_for("?\nEnter answers")
    terminal.answer("\r")
    terminal.wait_for("You said: y")
    terminal.wait_for(f"{MARK} y\nobedient")
    assert "not run" in terminal.screen.text
    assert not (tmp_path / "project" / "unseen").exists()


def test_sigterm_stops_the_command_and_restores_the_terminal(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", LONG)
    terminal.wait_for("│ begun")
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.end() == 128 + signal.SIGTERM
    assert termios.tcgetattr(terminal.slave) == terminal.before
    pid = int((tmp_path / "project" / "pid").read_text())
    terminal.wait_for(lambda: gone(pid))


def test_a_failed_run_is_reported_and_the_conversation_continues(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "fail")
    terminal.wait_for("Error: The server refused the request: no such model.")
    terminal.send("and now?\r")
    terminal.wait_for("You said: and now?")


def test_closing_the_terminal_leaves_nothing_running(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", LONG)
    terminal.wait_for("│ begun")
    errors = terminal.hang_up()
    assert terminal.process.wait(15) != 0
    assert errors.read_text() == ""
    pid = int((tmp_path / "project" / "pid").read_text())
    deadline = time.monotonic() + 10
    while not gone(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
