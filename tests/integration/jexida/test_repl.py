"""If these fail, a user cannot see, approve or stop commands on their host."""

from __future__ import annotations

import os
import re
import signal
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from newel.terminal.jexida.commands import RESET

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
READY = f"{MARK}\nme@here · phi3 · up"
ESCAPE, INTERRUPT, END, UP, TAB = "\x1b", "\x03", "\x04", "\x1b[A", "\t"


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text()


def panels(text: str) -> list[tuple[str, list[str], str]]:
    """The complete panels on a screen: title, lines, and the text in the bottom border."""
    found: list[tuple[str, list[str], str]] = []
    for line in text.split("\n"):
        if top := re.fullmatch(r"╭─ ([A-Z ]+) ─+╮", line):
            found.append((top[1], [], ""))
        elif inside := re.fullmatch(r"│ (.*) │", line):
            found[-1][1].append(inside[1].rstrip())
        elif bottom := re.fullmatch(r"╰─+(?: (.*) ─)?╯", line):
            found[-1] = (*found[-1][:2], bottom[1] or "")
    return found


def test_a_command_is_shown_with_its_reason_and_runs_only_after_approval(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("run echo made > it; echo done\r")
    terminal.wait_for("Run it? y yes")
    assert panels(terminal.screen.text)[1:] == [
        ("PROMPT", ["run echo made > it; echo done"], ""),
        ("PLAN", ["$ echo made > it; echo done", "", "You asked for it."], "on me@here"),
    ]
    assert not (tmp_path / "project" / "it").exists()
    terminal.answer("y\r")
    terminal.wait_for("last   exit code 0")
    after = panels(terminal.screen.text)[3:]
    assert [title for title, _, _ in after] == ["COMMAND OUTPUT", "AGENT RESPONSE", "STATUS"]
    assert after[0][1] == ["done"]
    assert after[0][2].startswith("exit code 0 · ")
    assert after[1][1] == ["It ended with Exit code: 0."]
    assert (tmp_path / "project" / "it").read_text() == "made\n"


def test_a_declined_command_does_not_run_and_the_model_is_told(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("run touch it\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("\r")
    terminal.wait_for("Not executed: the user declined this command.")
    terminal.wait_for(lambda: terminal.screen.text.endswith(READY))
    assert not (tmp_path / "project" / "it").exists()
    assert panels(terminal.screen.text)[-1][0] == "PLAN"  # the model was not asked again
    (session,) = tmp_path.glob(".newel/sessions/*/*.jsonl")
    assert '"Not executed: the user declined this command."' in session.read_text()


def test_a_command_can_be_edited_before_it_runs(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("run echo one\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("e\r")
    terminal.wait_for("? echo one")
    terminal.send(" two\r")
    terminal.wait_for("last   exit code 0")
    assert f"\n{MARK} echo one two\n" in terminal.screen.text
    assert ["one two"] in [lines for _, lines, _ in panels(terminal.screen.text)]
    (session,) = tmp_path.glob(".newel/sessions/*/*.jsonl")
    assert r'"Command: echo one two\nExit code: 0\nOutput:\none two\n\n"' in session.read_text()


def test_output_is_shown_while_the_command_runs_and_escape_stops_it(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/cmd echo $$ > pid; echo begun; sleep 60\r")
    terminal.wait_for("│ begun ")
    assert "Esc stops" in terminal.screen.text
    terminal.send(ESCAPE)
    terminal.wait_for("did not finish")
    terminal.wait_for(lambda: gone(int((tmp_path / "project" / "pid").read_text())))
    terminal.send("still there?\r")
    terminal.wait_for("You said: still there?")


def test_a_failing_command_shows_its_exit_code_and_its_errors(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/cmd echo lost >&2; sleep 0.1; echo much; exit 3\r")
    terminal.wait_for("last   exit code 3")
    (title, lines, note), _ = panels(terminal.screen.text)[1:]
    assert title == "REMOTE COMMAND"
    assert lines == ["$ echo lost >&2; sleep 0.1; echo much; exit 3", "lost", "much", "stderr:", "lost"]
    assert note.startswith("exit code 3 · ")
    assert re.search("\x1b\\[31mlost", terminal.raw)  # red


def test_routines_are_listed_completed_and_run(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/routines\r")
    terminal.wait_for("Say hello · echo hello from a routine")
    terminal.send("/rout" + TAB)
    terminal.wait_for(f"{MARK} /routines")
    terminal.send("\x15/run gre" + TAB)
    terminal.wait_for(f"{MARK} /run greet")
    terminal.send("\r")
    terminal.wait_for("last   exit code 0")
    assert ("REMOTE COMMAND", ["$ echo hello from a routine", "hello from a routine"]) in [
        (title, lines) for title, lines, _ in panels(terminal.screen.text)
    ]


def test_input_that_starts_with_a_slash_never_reaches_the_model(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    for typed, answer in (
        ("/halp", "Error: There is no command /halp. Did you mean /help? /help lists them."),
        ("/etc/passwd shows what?", "Error: There is no command /etc/passwd."),
        ("/run gret", "Error: There is no routine gret. Did you mean /run greet"),
        ("/cmd ", "Error: /cmd needs a command"),
        ("/", "Error: There is no command /."),
    ):
        terminal.send(typed + "\r")
        terminal.wait_for(answer)
    assert not list(tmp_path.glob(".newel/sessions/*/*.jsonl"))


def test_help_names_every_command(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/help\r")
    terminal.wait_for("/clear")
    names = (
        "/exit",
        "/help",
        "/shell",
        "/cmd COMMAND",
        "/routines",
        "/run ROUTINE [VALUES]",
        "/model [NAME]",
    )
    for name in (*names, "/clear"):
        assert f"\n{name}  " in terminal.screen.text


def test_clear_leaves_the_header_on_an_empty_screen(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/routines\r")
    terminal.wait_for("/run grow")
    before = len(terminal.raw)
    terminal.send("/clear\r")
    terminal.wait_for(lambda: terminal.raw[before:].count("STATUS") == 1)
    erased = terminal.raw.index("\x1b[2J", before)
    assert terminal.raw.index("jexida test", erased) < terminal.raw.index("STATUS", erased)


@pytest.mark.parametrize(
    "shell", ["stty raw -echo; printf '\\033[?1049h\\033[?25linside'; kill -9 $$", "exit 7"]
)
def test_the_terminal_works_after_a_shell_however_it_ended(open_terminal: Open, shell: str) -> None:
    terminal = open_terminal(PROGRAM_SHELL=shell)
    terminal.wait_for(READY)
    terminal.send("/shell\r")
    terminal.wait_for(f"ended with exit code {7 if 'exit' in shell else 137}.")
    terminal.send("hello\r")
    terminal.wait_for("You said: hello")
    assert "\x1b[?1047l" in terminal.raw
    terminal.send(END)
    assert terminal.end() == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_a_terminal_without_cursor_movement_works_after_a_shell_too(open_terminal: Open) -> None:
    terminal = open_terminal(TERM="dumb")
    terminal.wait_for("phi3")
    terminal.send("/shell\r")
    terminal.wait_for("ended with exit code 137.")
    assert termios.tcgetattr(terminal.slave) == terminal.before
    terminal.send("run echo asked\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("y\r")
    terminal.wait_for("last   exit code 0")
    assert "\nasked\n" in terminal.screen.text


def test_resizing_the_terminal_during_a_shell_is_left_to_the_shell(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal(PROGRAM_SHELL="echo inside; until [ -e go ]; do sleep 0.05; done; echo left")
    terminal.wait_for(READY)
    terminal.send("/shell\r")
    terminal.wait_for(lambda: "inside\r\n" in terminal.raw)
    before = len(terminal.raw)
    terminal.resize(60, 40)
    terminal.process.send_signal(signal.SIGWINCH)
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("exit code 0.")
    assert terminal.raw[before:].partition(RESET)[0] == "left\r\n"


def test_ctrl_c_stops_then_leaves_and_ctrl_d_leaves(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/cmd echo begun; sleep 60\r")
    terminal.wait_for("│ begun ")
    terminal.send(INTERRUPT)
    terminal.wait_for("did not finish")
    terminal.send(INTERRUPT)
    assert terminal.end() == 0
    other = open_terminal()
    other.wait_for(READY)
    other.send("/exit\r")
    assert other.end() == 0


def test_sigterm_ends_it_and_its_commands(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/cmd echo $$ > pid; echo begun; sleep 60\r")
    terminal.wait_for("│ begun ")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == 128 + signal.SIGTERM
    assert gone(int((tmp_path / "project" / "pid").read_text()))
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_errors_of_the_model_are_reported_and_the_conversation_continues(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("fail\r")
    terminal.wait_for("Error: phi3 is not on me@here. Pull it there: ollama pull phi3")
    terminal.send("hello\r")
    terminal.wait_for("You said: hello")


def test_panels_fit_a_narrow_terminal(open_terminal: Open) -> None:
    terminal = open_terminal(columns=40)
    terminal.wait_for(READY)
    terminal.send("run echo 日本語日本語日本語日本語日本語 a-very-long-word-that-has-no-place-to-break-it\r")
    terminal.wait_for("Run it? y yes")
    boxed = [line for line in terminal.screen.lines if line and line[0] in "╭│╰"]
    assert {cell_len(line) for line in boxed} == {40}
    terminal.answer("y\r")
    terminal.wait_for("last   exit code 0")
    boxed = [line for line in terminal.screen.lines if line and line[0] in "╭│╰"]
    assert {cell_len(line) for line in boxed} == {40}


def test_without_colour_the_words_are_sufficient(open_terminal: Open) -> None:
    terminal = open_terminal(NO_COLOR="1")
    terminal.wait_for(READY)
    terminal.send("/cmd false\r")
    terminal.wait_for("last   exit code 1")
    assert not re.search("\x1b\\[[0-9;]*3[0-7]m", terminal.raw)


def test_text_of_models_and_hosts_cannot_control_the_screen(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("raw evil \\x1b[2J\x11\x1b[2J and \x11\x1b]0;title\x11\x07 words\r")
    terminal.wait_for("AGENT RESPONSE")
    terminal.send("/cmd printf 'a\\033[2Jb\\033]0;title\\007c\\rd'\r")
    terminal.wait_for("last   exit code 0")
    assert ["$ printf 'a\\033[2Jb\\033]0;title\\007c\\rd'", "abc", "d"] in [
        lines for _, lines, _ in panels(terminal.screen.text)
    ]
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b]0;" not in terminal.raw


def test_hidden_characters_of_a_proposed_command_are_shown(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send(
        r'raw {"type":"shell","command":"echo a\u200bb\u202ec\u001b[8m; id","reason":"\u001b[2Jsafe"}' + "\r"
    )
    terminal.wait_for("Run it? y yes")
    assert panels(terminal.screen.text)[-1][1] == ["$ echo a<U+200B>b<U+202E>c␛[8m; id", "", "␛[2Jsafe"]


def test_the_model_gets_a_part_of_a_long_conversation(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    for number in range(4):
        terminal.send(f"number {number}\r")
        terminal.wait_for(f"You said: number {number}")
    terminal.send("count\r")
    terminal.wait_for("I was shown 2 prompts.")


def test_a_pasted_prompt_of_several_lines_is_one_prompt(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("\x1b[200~one\ntwo\n/exit\x1b[201~\r")
    terminal.wait_for("AGENT RESPONSE")
    assert ("PROMPT", ["one", "two", "/exit"], "") in panels(terminal.screen.text)


def test_the_input_history_is_searchable_and_private(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("remember this\r")
    terminal.wait_for("You said: remember this")
    terminal.send(END)
    terminal.end()
    again = open_terminal()
    again.wait_for(READY)
    again.send(UP)
    again.wait_for(f"{MARK} remember this")
    assert (tmp_path / ".newel" / "history").stat().st_mode & 0o777 == 0o600


def test_with_pipes_it_prints_plain_text_and_runs_no_command_without_approval(
    run_program: Callable[..., Any], tmp_path: Path
) -> None:
    done = run_program("run touch it\ny\n/cmd echo hi\n/exit\nnever\n")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "[PLAN]\n$ touch it\n\nYou asked for it.\n[on me@here]" in done.stdout
    assert "Not executed: every command needs the user's approval" in done.stdout
    assert "You said: y" in done.stdout
    assert "[REMOTE COMMAND]\n$ echo hi\nhi\n[exit code 0" in done.stdout
    assert "never" not in done.stdout
    assert not (tmp_path / "it").exists()
