"""If these fail, the user has to paste what they ran before the model knows it, the model gets what was meant to stay private, or a program
that needs a terminal hangs in `!`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.processes import ends

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
DONE = "The model gets this"


def converse(open_terminal: Open, **options: Any) -> Any:
    terminal = open_terminal("rich", **options)
    terminal.wait_for(f"{MARK}\n")
    return terminal


def answer(terminal: Any, text: str = "You said:") -> str:
    """The screen after the last ``text``. Where the lines are wrapped depends on the path of the folder, so it is all one line."""
    return " ".join(str(terminal.screen.text).split()).rpartition(text)[2]


def wait_for_answer(terminal: Any, words: str) -> None:
    terminal.wait_for(lambda: words in answer(terminal))


def test_the_model_gets_a_command_with_the_next_message(open_terminal: Open) -> None:
    terminal = converse(open_terminal)
    terminal.send("!printf 'fo''und\\n'; exit 3\r")
    terminal.wait_for("(with your next message)")
    terminal.send("look\r")
    terminal.wait_for("You said: look")
    wait_for_answer(terminal, "exit code: 3")
    said = answer(terminal)
    assert "$ printf 'fo''und\\n'; exit 3" in said
    assert "found" in said
    assert "(with your next message)" not in said

    terminal.send("again\r")
    terminal.wait_for("You said: again")
    assert "found" not in answer(terminal, "You said: again")


def test_two_exclamation_marks_keep_a_command_private(open_terminal: Open) -> None:
    terminal = converse(open_terminal)
    terminal.send("!!echo se''cret\r")
    terminal.wait_for("Private: the model does not get this.")
    assert "secret" in terminal.screen.text
    terminal.send("look\r")
    terminal.wait_for("You said: look")
    terminal.wait_for("34 out")
    assert "secret" not in answer(terminal)


def test_what_was_not_sent_yet_can_be_taken_back(open_terminal: Open) -> None:
    terminal = converse(open_terminal)
    terminal.send("!echo se''cret\r")
    terminal.wait_for("(with your next message)")
    terminal.send("!!\r")
    terminal.wait_for("Kept from the model: 1 command.")
    terminal.send("look\r")
    terminal.wait_for("You said: look")
    terminal.wait_for("34 out")
    assert "secret" not in answer(terminal)


def test_the_hint_says_who_gets_what_is_typed(open_terminal: Open) -> None:
    terminal = converse(open_terminal, columns=50)
    terminal.send("!echo")
    terminal.wait_for("the model gets it with your next message")
    terminal.send("\x01!")
    terminal.wait_for("Private: the model does not get it")


def test_an_export_masks_secrets_in_what_was_shown(open_terminal: Open, tmp_path: Path) -> None:
    key = f"sk-{'a1' * 12}"
    terminal = converse(open_terminal)
    terminal.send(f"!echo {key}\r")
    terminal.wait_for(DONE)
    terminal.send("look\r")
    wait_for_answer(terminal, "exit code: 0")
    terminal.send("/export out.md\r")
    terminal.wait_for("Written:")
    exported = next(tmp_path.rglob("out.md")).read_text()
    assert "I ran this command myself" in exported
    assert key not in exported


def test_a_resumed_conversation_still_has_it(open_terminal: Open, tmp_path: Path) -> None:
    terminal = converse(open_terminal)
    terminal.send("!echo fo''und\r")
    terminal.wait_for(DONE)
    terminal.send("look\r")
    wait_for_answer(terminal, "exit code: 0")
    session = next(tmp_path.rglob("*.jsonl"))
    stored = session.read_text()
    assert "$ echo fo''und\\nfound" in stored


def test_the_transcript_has_what_the_model_got(open_terminal: Open) -> None:
    terminal = converse(open_terminal)
    terminal.send("!seq 1 3 | paste -sd+; true\r")
    terminal.wait_for(DONE)
    terminal.send("run true\r")
    terminal.wait_for("Done after 1 results.")
    terminal.send("\x0f")
    terminal.wait_for("I ran this command myself")


def test_closing_the_window_ends_the_command(open_terminal: Open, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    terminal = converse(open_terminal)
    terminal.send(f"!echo $$ > {file}; echo st''arted; sleep 60; sleep 60\r")
    terminal.wait_for("started")
    terminal.hang_up()
    os.kill(terminal.process.pid, signal.SIGHUP)
    terminal.process.wait(20)
    assert ends(int(file.read_text()))


def test_a_program_reads_keys_and_colours_its_output(open_terminal: Open) -> None:
    terminal = converse(open_terminal)
    terminal.send("!tty; test -t 1 && tput setaf 1; read -p 'name: ' x; echo \"hello $x\"; tput sgr0\r")
    terminal.wait_for("name: ")
    terminal.send("Ada\r")
    terminal.wait_for("hello Ada")
    terminal.wait_for(DONE)
    assert "\x1b[31m" in terminal.raw
    terminal.send("look\r")
    terminal.wait_for("You said: look")
    wait_for_answer(terminal, "exit code: 0")
    assert "hello Ada" in answer(terminal)


def test_ctrl_c_reaches_the_command_only(open_terminal: Open) -> None:
    terminal = converse(open_terminal)
    terminal.send("!echo st''arted; sleep 60\r")
    terminal.wait_for("started")
    terminal.send("\x03")
    terminal.wait_for("exit code 130")
    terminal.send("on\r")
    terminal.wait_for("You said: on")


def test_a_full_screen_program_leaves_nothing(open_terminal: Open, tmp_path: Path) -> None:
    """It draws on the other screen, turns on the mouse and is killed."""
    program = tmp_path / "draw.sh"
    program.write_text("printf 'before\\n\\033[?1049h\\033[?1000;1006h\\033[?25lDRAWN'; read x; kill -9 $$\n")
    terminal = converse(open_terminal)
    terminal.send(f"!bash {program}; echo after\r")
    terminal.wait_for("DRAWN")
    terminal.send("\r")
    terminal.wait_for("(with your next message)")
    for mode in ("1049", "1000", "1006"):
        assert terminal.raw.rindex(f"\x1b[?{mode}l") > terminal.raw.rindex("DRAWN")
    terminal.send("look\r")
    terminal.wait_for("You said: look")
    wait_for_answer(terminal, "exit code: 0")
    said = answer(terminal)
    assert "before" in said
    assert "DRAWN" not in said


def test_a_command_sees_the_size_of_the_window(open_terminal: Open) -> None:
    terminal = converse(open_terminal, columns=70, rows=20)
    terminal.send("!stty size; trap 'stty size; exit' WINCH; while :; do sleep 0.1; done\r")
    terminal.wait_for("20 70")
    terminal.resize(50, 18)
    os.killpg(terminal.process.pid, signal.SIGWINCH)
    terminal.wait_for("18 50")
    terminal.wait_for(DONE)


def test_processes_in_the_background_stay(open_terminal: Open, tmp_path: Path) -> None:
    """As in a shell: only what Newel stops ends with it."""
    file = tmp_path / "pid"
    terminal = converse(open_terminal)
    terminal.send(f"!sleep 60 & echo $! > {file}\r")
    terminal.wait_for(DONE)
    pid = int(file.read_text())
    try:
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_killed_newel_leaves_no_command(open_terminal: Open, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    terminal = converse(open_terminal)
    terminal.send(f"!echo $$ > {file}; echo st''arted; sleep 60; sleep 60\r")
    terminal.wait_for("started")
    pid = int(file.read_text())
    terminal.process.kill()
    assert ends(pid)


def test_without_a_terminal_the_output_is_shared_as_well(run_program: Callable[..., Any]) -> None:
    """What came after the last message is named at the end: who resumes the conversation would else think that the model knows it."""
    done = run_program("console", given="!echo fo''und\n!!echo hid''den\nlook\n!echo la''te\n!!echo o''wn\n")
    said, _, end = done.stdout.rpartition("You said:")[2].partition("late\n")
    assert "found" in said, done.stdout
    assert "hidden" not in said
    assert "Not sent to the model, and not kept: `!echo la''te`.\n" in end


def test_a_change_of_folder_is_said_to_do_nothing(open_terminal: Callable[..., Any]) -> None:
    terminal = open_terminal("rich", columns=140)
    terminal.wait_for("Enter sends")
    terminal.send("! cd lib\r")
    terminal.wait_for("Each command starts in the project's folder")
    terminal.send("!cd / && pwd; echo there\r")
    terminal.wait_for("The model gets this with your next message")
