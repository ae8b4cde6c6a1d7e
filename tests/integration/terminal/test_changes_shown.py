"""If these fail, somebody does not see what a command has done to their files, nor that it can be undone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.served import wait_until

Open = Callable[..., Any]


def test_what_a_command_changed_stands_under_it(open_terminal: Open, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (project / "big.py").write_text("".join(f"def f{n}(): pass\n" for n in range(200)))
    (project / "old.txt").write_text("one\n")
    terminal = open_terminal(
        "rich", "run sed -i s/pass/return/ big.py; rm old.txt; echo hi > new.txt; chmod +x big.py"
    )
    terminal.wait_for("2.4k in")
    text = terminal.screen.text
    assert "+200 \N{MINUS SIGN}200 big.py" in text
    assert "+1 new new.txt" in text
    assert "\N{MINUS SIGN}1 deleted old.txt" in text


def test_after_a_run_the_way_to_look_and_to_go_back_is_shown(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "run seq 3 > a.txt; seq 2 > b.txt")
    terminal.wait_for("2 files +5 · /review · /undo")
    terminal.send("run rm a.txt\r")
    terminal.wait_for("1 file \N{MINUS SIGN}3 · /review · /undo")
    terminal.send("just talk\r")
    terminal.wait_for("You said: just talk")
    terminal.send("/undo\r")
    terminal.wait_for("Undo these changes?")
    terminal.send("y\r")
    terminal.wait_for("Undone in 1 file")
    assert terminal.screen.text.count("/review · /undo") == 2
    assert (tmp_path / "project" / "a.txt").exists()


def test_many_files_are_counted_and_a_few_named(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "run for n in $(seq 30); do echo $n > $n.txt; done")
    terminal.wait_for("30 files +30 · /review · /undo")
    assert "\N{HORIZONTAL ELLIPSIS} 25 more files" in terminal.screen.text


@pytest.mark.slow  # an undo long enough to be stopped; test_stopped_undo.py is quick
def test_a_long_undo_shows_its_progress_and_is_stopped_and_completed(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal("rich", "run for n in $(seq 800); do echo $n > $n.txt; done")
    terminal.wait_for("800 files +800 · /review · /undo")
    terminal.send("/undo\r")
    terminal.wait_for("Undo these changes?")
    terminal.send("y")
    terminal.wait_for("of 800 files")
    assert " run " not in terminal.screen.text.split("undoing")[-1].split("\n")[0]
    wait_until(lambda: len(list((tmp_path / "project").iterdir())) < 800, "the first files")
    terminal.send("\x1b")
    terminal.wait_for("completes it.")
    said = " ".join(terminal.screen.text.split())
    stopped = re.search(
        r"Stopped: (\S+) of 800 files are undone, the others are as they were. `/undo` completes it.", said
    )
    assert stopped is not None
    left = len(list((tmp_path / "project").iterdir()))
    assert left == 800 - int(stopped[1].replace(",", "")) > 0
    assert "Stopped.\n" not in terminal.screen.text
    terminal.send("/undo\r")
    terminal.wait_for(f"{left:,} files would change")
    terminal.send("y")
    terminal.wait_for(f"Undone in {left:,} files")
    assert list((tmp_path / "project").iterdir()) == []


def test_a_name_cannot_draw_on_the_screen(open_terminal: Open) -> None:
    terminal = open_terminal("rich", r"run touch $'\x1b]0;owned\x07'")
    terminal.wait_for("1 file")
    assert "\x1b]0;owned" not in terminal.raw
