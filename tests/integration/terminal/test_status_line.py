"""If these fail, somebody does not see which model answers, what runs unasked, and what it costs, or changes it without seeing so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Open = Callable[..., Any]

SHIFT_TAB = "\x1b[Z"


def last_line(terminal: Any) -> str:
    return terminal.screen.text.rstrip().rpartition("\n")[2]


def test_the_last_line_has_model_mode_context_cost_branch_and_folder(
    open_terminal: Open, tmp_path: Path
) -> None:
    git = tmp_path / "project" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/fix-tests\n")
    terminal = open_terminal("rich", "essay", columns=160)
    terminal.wait_for("34 out")
    terminal.wait_for(lambda: " % of 128k" in last_line(terminal))
    parts = last_line(terminal).split(" · ")
    assert parts[0] == "obedient"
    assert parts[1] == "approve: auto"
    assert parts[2:4] == ["1 % of 128k", "$0.002"]
    assert parts[4] == "fix-tests"
    assert parts[5].endswith("/project")


def test_a_narrow_window_keeps_what_matters(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "essay", columns=30)
    terminal.wait_for("34 out")
    terminal.wait_for(lambda: last_line(terminal) == "obedient · approve: auto")


def test_a_key_switches_what_runs_unasked(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", columns=100)
    terminal.wait_for("approve: auto")
    terminal.send(SHIFT_TAB)
    terminal.wait_for(lambda: "approve: plan" in last_line(terminal))
    terminal.send(SHIFT_TAB)
    terminal.wait_for(lambda: "approve: ask" in last_line(terminal))
    terminal.send("run touch it\r")
    terminal.wait_for("Run this?")
    terminal.send(SHIFT_TAB)  # while it asks, it stays so
    terminal.answer("n\r")
    terminal.wait_for("Not run")
    terminal.wait_for(lambda: "approve: ask" in last_line(terminal))
    assert not (tmp_path / "project" / "it").exists()
    terminal.send(SHIFT_TAB)
    terminal.wait_for(lambda: "approve: auto" in last_line(terminal))


def test_a_branch_that_is_no_name_stays_on_its_line(open_terminal: Open, tmp_path: Path) -> None:
    git = tmp_path / "project" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_bytes(b"ref: refs/heads/\x1b]0;owned\x07a\nb\n")
    terminal = open_terminal("rich", "essay", columns=120)
    terminal.wait_for("34 out")
    assert "\x1b]0;owned" not in terminal.raw
    terminal.wait_for(lambda: last_line(terminal).startswith("obedient"))


def test_a_program_of_the_user_writes_the_line(open_terminal: Open, tmp_path: Path) -> None:
    program = tmp_path / "line"
    program.write_text(
        "#!/bin/sh\n"
        'read -r facts; printf "\\033]0;owned\\007 "\n'
        'echo "$facts" | sed -E \'s/.*"approval_mode":"([a-z]+)".*/I am in \\1/\'\necho more\n'
    )
    program.chmod(0o755)
    terminal = open_terminal("rich", PROGRAM_STATUS_LINE=str(program))
    terminal.wait_for(lambda: "I am in auto" in last_line(terminal))
    terminal.send(SHIFT_TAB)
    terminal.wait_for(lambda: "I am in plan" in last_line(terminal))
    assert "\x1b]0;owned" not in terminal.raw


def test_a_program_that_fails_is_told_once_and_the_line_stays(open_terminal: Open) -> None:
    terminal = open_terminal("rich", columns=120, PROGRAM_STATUS_LINE="/bin/false")
    terminal.wait_for("status_line in config.toml fails: it ended with exit code 1.")
    terminal.send(SHIFT_TAB)
    terminal.wait_for(lambda: last_line(terminal).startswith("obedient \N{MIDDLE DOT} approve: plan"))
    assert terminal.screen.text.count("status_line in config.toml") == 1


def commit(folder: Path) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for args in (
        ("init", "--quiet", "--initial-branch=fix"),
        ("add", "."),
        ("commit", "--quiet", "-m", "One"),
    ):
        subprocess.run(["git", *who, *args], cwd=folder, check=True)


def test_a_branch_with_changes_has_a_star_until_they_are_committed(
    open_terminal: Open, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (project / "a.txt").write_text("a\n")
    commit(project)
    terminal = open_terminal("rich", columns=160)
    terminal.wait_for(lambda: " fix " in last_line(terminal))
    terminal.send("run echo b > a.txt\r")
    terminal.wait_for(lambda: " fix* " in last_line(terminal))
    terminal.send("!git -c user.name=a -c user.email=a@b commit -qam two\r")
    terminal.wait_for(lambda: " fix " in last_line(terminal))


@pytest.mark.slow  # a second of a core
def test_a_change_by_the_user_is_seen_with_the_next_keys(open_terminal: Open, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "a.txt").write_text("a\n")
    commit(project)
    terminal = open_terminal("rich", columns=160)
    terminal.wait_for("fix")
    (project / "a.txt").write_text("changed\n")

    def starred() -> bool:
        terminal.send("x")
        return " fix* " in last_line(terminal)

    terminal.wait_for(starred)


def test_keys_choose_the_model_and_how_much_it_reasons_while_a_draft_stays(open_terminal: Open) -> None:
    terminal = open_terminal("rich", columns=100)
    terminal.wait_for("approve: auto")
    terminal.send("a draft")
    terminal.send("\x1bt")
    terminal.wait_for("thinking: minimal")
    terminal.send("\x1b[116;3u")  # as the kitty protocol reports it
    terminal.wait_for("thinking: low")
    terminal.send("\x1bp")
    terminal.wait_for("obedient  (in use)")
    terminal.send("oth\r")
    terminal.wait_for("The next prompt goes to other.")
    terminal.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} a draft\n")
    terminal.wait_for(lambda: last_line(terminal).startswith("other \N{MIDDLE DOT} thinking: low"))
