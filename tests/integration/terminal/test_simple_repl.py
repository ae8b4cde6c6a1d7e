"""If these fail, the smallest REPL no longer speaks the format that its users and their scripts know."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_conversation_has_the_documented_format(run_program: Run, tmp_path: Path) -> None:
    done = run_program("simple", given="write a.txt\n\n   \nedit a.txt\n!cat a.txt\n")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == (
        "You: write a.txt\n"
        "\n"
        '[Tool: write_file("a.txt", ...)]\n'
        "\n"
        "Agent: Done after 1 results.\n"
        "\n"
        "You: You: You: edit a.txt\n"
        "\n"
        '[Tool: read_file("a.txt")]\n'
        '[Tool: edit_file("a.txt", ...)]\n'
        "\n"
        "Agent: Done after 3 results.\n"
        "\n"
        "You: !cat a.txt\n"
        "one\nTWO\nthree\n"
        "\n"
        "You: \n"
    )


def test_clear_forgets_the_conversation(run_program: Run) -> None:
    done = run_program("simple", given="run true\n/clear\nrun true\n")
    assert done.stdout.count("Agent: Done after 1 results.") == 2


def test_a_failing_run_is_reported_and_the_next_prompt_is_answered(run_program: Run) -> None:
    done = run_program("simple", given="fail\nhello\n")
    assert done.stdout.startswith(
        "You: fail\n\nError: The server refused the request: no such model.\n\nYou: "
    )
    assert "Agent: You said: hello\n" in done.stdout


def test_ctrl_c_stops_the_run_first_and_then_exits(open_terminal: Callable[..., Any], tmp_path: Path) -> None:
    terminal = open_terminal("simple")
    terminal.wait_for("You:")
    terminal.send("run echo $$ > pid; sleep 60\n")
    path = tmp_path / "project" / "pid"
    terminal.wait_for(lambda: path.exists() and bool(path.read_text().strip()))
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.wait_for("[Stopped.]\n\nYou:")
    terminal.wait_for(lambda: not Path(f"/proc/{path.read_text().strip()}").exists())
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.end() == 0


def test_the_user_at_the_terminal_approves_what_is_shown(
    open_terminal: Callable[..., Any], tmp_path: Path
) -> None:
    terminal = open_terminal("simple", PROGRAM_APPROVE="ask")
    terminal.wait_for("You:")
    terminal.send("run touch unseen\ny\n")
    terminal.wait_for("    touch unseen\n\nRun this?")
    terminal.answer("\n")
    terminal.wait_for("Agent: Done after 1 results.")
    terminal.send("run touch seen\n")
    terminal.wait_for("    touch seen")
    terminal.answer("y\n")
    terminal.wait_for("Agent: Done after 2 results.")
    assert sorted(path.name for path in (tmp_path / "project").iterdir()) == ["seen"]


def test_with_a_pipe_nothing_is_asked(run_program: Run, tmp_path: Path) -> None:
    """Otherwise a line of a script that happens to be a yes approves an unseen command."""
    done = run_program("simple", given="run touch unseen\ny\n", PROGRAM_APPROVE="ask")
    assert "Run this?" not in done.stdout
    assert "Agent: You said: y\n" in done.stdout
    assert not (tmp_path / "project" / "unseen").exists()


def test_the_users_shell_command_can_be_stopped(open_terminal: Callable[..., Any]) -> None:
    terminal = open_terminal("simple")
    terminal.wait_for("You:")
    terminal.send("!echo mine; sleep 60\n")
    terminal.wait_for("\nmine")
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.wait_for("mine\n\nYou:")
