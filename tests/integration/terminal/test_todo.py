"""If these fail, somebody who waits for a long task does not see how far it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Open = Callable[..., Any]


def shown(terminal: Any) -> list[str]:
    """The lines of the list, wherever they are on the screen."""
    lines = [line.strip() for line in terminal.screen.text.split("\n")]
    return [line for line in lines if line[:1] in {"○", "▸", "✓"} and "Step" in line]


def test_the_list_replaces_itself_and_stays_at_the_end(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "todo 3")
    terminal.wait_for(lambda: shown(terminal) == ["▸ Step 1", "○ Step 2", "○ Step 3"])
    (tmp_path / "go1").touch()
    terminal.wait_for(lambda: shown(terminal) == ["✓ Step 1", "▸ Step 2", "○ Step 3"])
    (tmp_path / "go2").touch()
    (tmp_path / "go3").touch()
    terminal.wait_for("Done after")
    terminal.wait_for(lambda: shown(terminal) == ["✓ Step 1", "✓ Step 2", "✓ Step 3"])
    assert "● todo" not in terminal.screen.text


def test_a_long_list_shows_where_the_work_is(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "todo 20")
    for step in range(1, 10):
        (tmp_path / f"go{step}").touch()
    terminal.wait_for("▸ Step 10")
    terminal.wait_for("✓ Step 9")
    assert "○ Step 11" in terminal.screen.text
    assert "more" in terminal.screen.text
    assert "Step 3" not in "\n".join(terminal.screen.lines[-12:])


def test_a_stopped_run_leaves_the_list_as_it_is(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "todo 2")
    (tmp_path / "go1").touch()
    terminal.wait_for("▸ Step 2")
    terminal.send("\x1b")
    terminal.wait_for("Stopped.")
    assert shown(terminal) == ["✓ Step 1", "▸ Step 2"]


def test_a_plain_screen_says_how_far_it_is(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("one-shot-console", "todo 2", TERM="dumb")
    for step in (1, 2):
        (tmp_path / f"go{step}").touch()
    assert terminal.end() == 0
    assert "todo ✓ 0 of 2 done · Step 1" in terminal.screen.text
    assert "todo ✓ 2 of 2 done" in terminal.screen.text
