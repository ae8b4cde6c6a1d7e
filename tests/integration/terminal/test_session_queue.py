"""If these fail, a message that was shown as queued is lost when Newel is killed, or is sent twice."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.session.reader import read_session

Open = Callable[..., Any]
MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
SLEEPING = "run touch begun; sleep 60"
LEFT = "was queued and not sent before the conversation ended"


def sessions(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / ".newel" / "sessions").glob("*/*.jsonl"))


def resume(open_terminal: Open, tmp_path: Path, front: str = "rich") -> Any:
    return open_terminal(front, PROGRAM_SESSION=sessions(tmp_path)[-1].stem.rpartition("_")[2])


def busy(open_terminal: Open, tmp_path: Path) -> Any:
    terminal = open_terminal("rich", SLEEPING)
    terminal.wait_for((tmp_path / "project" / "begun").exists)
    return terminal


@pytest.mark.parametrize(("number", "how"), [(signal.SIGKILL, "killed"), (signal.SIGHUP, "hung up")])
def test_queued_messages_are_in_the_input_again(
    open_terminal: Open, tmp_path: Path, number: int, how: str
) -> None:
    terminal = busy(open_terminal, tmp_path)
    terminal.send("steer this\r")
    terminal.wait_for("steer this  (next)")
    terminal.send("and then that\t")
    terminal.wait_for("and then that  (when it is done)")
    os.kill(terminal.process.pid, number)
    terminal.end()
    resumed = resume(open_terminal, tmp_path)
    resumed.wait_for(f"{MARK} steer this\n  and then that\n")
    assert LEFT in resumed.screen.text, how
    resumed.send("\r")
    resumed.wait_for("You said: steer this")
    resumed.send("\x04")
    resumed.end()
    again = resume(open_terminal, tmp_path)
    again.wait_for("Resumed")
    again.send("more\r")
    again.wait_for("You said: more")
    assert LEFT not in again.screen.text  # not sent twice


def test_what_a_run_took_is_not_offered_again(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "run touch begun; until [ -e go ]; do sleep 0.05; done")
    terminal.wait_for((tmp_path / "project" / "begun").exists)
    terminal.send("steer this\r")
    terminal.wait_for("steer this  (next)")
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("steer this\n")
    terminal.wait_for(
        lambda: (
            '"type":"message","message":{"role":"user","content":"steer this"'
            in sessions(tmp_path)[0].read_text()
        )
    )
    os.kill(terminal.process.pid, signal.SIGKILL)
    terminal.end()
    assert not read_session(sessions(tmp_path)[0]).queued
    resumed = resume(open_terminal, tmp_path)
    resumed.wait_for("Resumed")
    assert LEFT not in resumed.screen.text


def test_a_command_that_did_not_run_is_named_and_not_put_into_the_input(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = busy(open_terminal, tmp_path)
    terminal.send("/compact\r")
    terminal.wait_for("/compact  (queued)")
    terminal.process.kill()
    terminal.end()
    resumed = resume(open_terminal, tmp_path)
    resumed.wait_for("Not run before the conversation ended: `/compact`.")
    assert re.search(rf"^{MARK}$", resumed.screen.text, re.MULTILINE)


def test_what_was_taken_back_and_changed_is_not_offered_as_it_was(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = busy(open_terminal, tmp_path)
    terminal.send("steer this\r")
    terminal.wait_for("steer this  (next)")
    terminal.send("\x1b[A")
    terminal.wait_for(f"{MARK} steer this\n")
    terminal.send(" instead\r")
    terminal.wait_for("steer this instead  (next)")
    terminal.process.kill()
    terminal.end()
    resumed = resume(open_terminal, tmp_path)
    resumed.wait_for(f"{MARK} steer this instead\n")
    assert resumed.screen.text.count("steer this") == 1


def test_a_simple_terminal_names_them(open_terminal: Open, run_program: Any, tmp_path: Path) -> None:
    terminal = busy(open_terminal, tmp_path)
    terminal.send("steer this\r")
    terminal.wait_for("steer this  (next)")
    terminal.process.kill()
    terminal.end()
    done = run_program("console", PROGRAM_SESSION=sessions(tmp_path)[-1].stem.rpartition("_")[2])
    assert LEFT in done.stdout
    assert "Not sent: steer this" in done.stdout


def test_a_stop_names_the_commands_that_do_not_run_and_returns_the_messages(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = busy(open_terminal, tmp_path)
    terminal.send("/compact\r")
    terminal.wait_for("/compact  (queued)")
    terminal.send("!touch ran\r")
    terminal.wait_for("!touch ran  (queued)")
    terminal.send("steer this\r")
    terminal.wait_for("steer this  (next)")
    terminal.send("\x1b")
    terminal.wait_for("Not run: `/compact`, `!touch ran`.")
    terminal.wait_for(f"{MARK} steer this\n")
    assert not (tmp_path / "project" / "ran").exists()
