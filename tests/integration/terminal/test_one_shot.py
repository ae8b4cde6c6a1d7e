"""If these fail, a script that calls the agent gets the wrong exit code, or leaves something running."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_prompts_are_answered_one_after_another(run_program: Run, tmp_path: Path) -> None:
    done = run_program("one-shot-console", "write a.txt", "run cat a.txt")
    assert done.returncode == 0
    assert done.stderr == ""
    assert re.search(r"\A\S.* ms\n\nI run it\.\n", done.stdout, re.DOTALL)
    assert done.stdout.index("write a.txt ✓ new, 8 bytes") < done.stdout.index("bash cat a.txt ✓ two")
    assert (tmp_path / "project" / "a.txt").read_text() == "one\ntwo\n"


def test_a_failed_run_exits_with_1_and_the_next_prompt_does_not_run(run_program: Run) -> None:
    done = run_program("one-shot-console", "fail", "never said")
    assert done.returncode == 1
    assert "Error: The server refused the request: no such model." in done.stdout
    assert "never said" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_template_that_links_out_of_the_project_is_reported_and_not_sent(
    run_program: Run, tmp_path: Path
) -> None:
    """Neither the file behind it nor the typed word."""
    prompts = tmp_path / "project" / ".newel" / "prompts"
    prompts.mkdir(parents=True)
    (tmp_path / "id_rsa").write_text("write key.txt")
    (prompts / "review.md").symlink_to(tmp_path / "id_rsa")
    done = run_program("one-shot-console", "/review", "never said")
    assert done.returncode == 1
    assert "review.md is a link to a file outside the project and is not followed." in done.stdout
    assert "never said" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_closed_pipe_gives_no_traceback(open_program: Callable[..., Any]) -> None:
    process = open_program("one-shot-console", "slow words", "slow again")
    assert process.stdout.readline() == "# A plan\n"
    process.stdout.close()
    assert process.wait(15) == 1
    assert process.stderr.read() == ""


def test_ctrl_c_stops_the_command_and_exits_with_130(
    open_program: Callable[..., Any], tmp_path: Path
) -> None:
    process = open_program("one-shot-console", "run echo $$ > pid; sleep 60", "never said")
    path = tmp_path / "project" / "pid"
    while not (path.exists() and path.read_text().strip()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "bash echo $$ > pid; sleep 60 ✗ stopped" in output
    assert "Stopped." in output
    assert "never said" not in output
    assert errors == ""
    assert not Path(f"/proc/{path.read_text().strip()}").exists()


def test_a_terminal_keeps_finished_output_and_erases_live_output(open_terminal: Callable[..., Any]) -> None:
    terminal = open_terminal("one-shot-rich", "run seq 30", "essay", rows=10)
    assert terminal.end() == 0
    lines = [line for line in terminal.screen.lines if line]
    assert [line for line in lines if "seq 30" in line][1:] == [lines[2]]
    assert lines[2].startswith("● bash seq 30 ")
    assert lines[-3:-1] == [" code  a.py", "That is all."]
    assert not [line for line in lines if "stops" in line or "○" in line]


def test_the_user_at_the_terminal_is_asked(open_terminal: Callable[..., Any], tmp_path: Path) -> None:
    terminal = open_terminal("one-shot-rich", "run touch asked", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    assert not (tmp_path / "project" / "asked").exists()
    terminal.answer("y\n")
    assert terminal.end() == 0
    assert (tmp_path / "project" / "asked").exists()


@pytest.mark.parametrize("typed", ["y\n", "y"])
def test_a_yes_typed_ahead_approves_nothing(
    open_terminal: Callable[..., Any], tmp_path: Path, typed: str
) -> None:
    terminal = open_terminal("one-shot-rich", "run touch unseen", PROGRAM_APPROVE="ask")
    terminal.send(typed)
    terminal.wait_for("Run this?")
    terminal.answer("\n")
    assert terminal.end() == 0
    assert "not run" in terminal.screen.text
    assert not (tmp_path / "project" / "unseen").exists()


def test_one_yes_answers_one_question(open_terminal: Callable[..., Any], tmp_path: Path) -> None:
    terminal = open_terminal("one-shot-rich", "run touch first && touch second", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    terminal.answer("y\ny\n")
    terminal.wait_for("    touch second")
    terminal.answer("\n")
    assert terminal.end() == 0
    assert sorted(path.name for path in (tmp_path / "project").iterdir()) == ["first"]


def test_without_a_user_nothing_that_needs_approval_runs(run_program: Run, tmp_path: Path) -> None:
    done = run_program("one-shot-console", "run touch unasked", PROGRAM_APPROVE="ask")
    assert "✗ not run" in done.stdout
    assert not (tmp_path / "project" / "unasked").exists()
    assert not list((tmp_path / "project").iterdir())
