"""If these fail, a user's theme is not shown, a key does not do what the settings say, or a wrong setting keeps them from working."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
DOWN, ESCAPE, ALT_ENTER, CTRL_C = "\x1b[B", "\x1b", "\x1b\r", "\x03"
RED, PURPLE = "\x1b[38;2;255;0;0m", "\x1b[38;2;136;0;255m"
TRUECOLOR = {"COLORTERM": "truecolor"}


def configure(tmp_path: Path, text: str, **themes: str) -> None:
    home = tmp_path / ".newel"
    (home / "themes").mkdir(parents=True)
    (home / "config.toml").write_text(text)
    for name, content in themes.items():
        (home / "themes" / f"{name}.toml").write_text(content)


def test_a_theme_of_ones_own_colours_the_conversation(open_terminal: Open, tmp_path: Path) -> None:
    own = 'accent = "#8800ff"\n[diff]\nadded = "bold #ff0000"\n'
    configure(tmp_path, '[terminal]\ntheme = "mine"\n', mine=own)
    terminal = open_terminal("rich", "write a.txt", **TRUECOLOR)
    terminal.wait_for("Done after 1 results.")
    assert "\x1b[1;38;2;255;0;0m+ one" in terminal.raw
    assert f"\x1b[1;38;2;136;0;255m{MARK} " in terminal.raw  # the prompt has the accent
    terminal.send("x")
    terminal.wait_for(f"{MARK} x")
    assert "\x1b[0;38;2;136;0;255;1m" in terminal.raw  # of the input, too


def test_without_colours_a_theme_has_none(open_terminal: Open, tmp_path: Path) -> None:
    configure(tmp_path, '[terminal]\ntheme = "dark"\n')
    terminal = open_terminal("rich", "write a.txt", NO_COLOR="1", **TRUECOLOR)
    terminal.wait_for("Done after 1 results.")
    assert "+ one" in terminal.screen.text
    assert "38;" not in terminal.raw
    assert "48;" not in terminal.raw


def test_sixteen_colours_stay_readable(open_terminal: Open, tmp_path: Path) -> None:
    """The nearest of sixteen colours could be that of the background."""
    configure(tmp_path, '[terminal]\ntheme = "dark"\n')
    terminal = open_terminal("rich", "write a.txt", TERM="xterm-16color")
    terminal.wait_for("Done after 1 results.")
    assert "48;" not in terminal.raw
    assert not re.search(r"\x1b\[(?:\d+;)*4[0-7](?:;\d+)*m", terminal.raw)  # no background


def test_themes_are_shown_while_one_is_chosen(open_terminal: Open, tmp_path: Path) -> None:
    configure(tmp_path, "# mine\n", vivid='error = "#ff0000"\n', zebra='error = "#8800ff"\n')
    terminal = open_terminal("rich", rows=45, **TRUECOLOR)
    terminal.wait_for(f"{MARK}\n")
    terminal.send("/theme\r")
    terminal.wait_for("1 failed")
    assert RED not in terminal.raw
    terminal.send("vivid")
    terminal.wait_for(f"{MARK} vivid")
    terminal.wait_for(lambda: RED.removesuffix("m").removeprefix("\x1b[") in terminal.raw)
    terminal.send(ESCAPE)
    terminal.wait_for(lambda: "Esc cancels" not in terminal.screen.text)
    assert (tmp_path / ".newel/config.toml").read_text() == "# mine\n"
    terminal.send("/theme\r")
    terminal.wait_for("1 failed")
    terminal.send("zebra\r")
    terminal.wait_for("Theme: zebra. It is saved in config.toml.")
    written = (tmp_path / ".newel/config.toml").read_text()
    assert tomllib.loads(written) == {"terminal": {"theme": "zebra"}}
    assert "# mine" in written
    terminal.send("fail\r")
    terminal.wait_for("no such model")
    assert f"{PURPLE}Error: " in terminal.raw


def test_a_theme_with_mistakes_is_named_and_shown_as_far_as_it_goes(
    open_terminal: Open, tmp_path: Path
) -> None:
    configure(tmp_path, "", bad='acent = "red"\nerror = "purpel"\nsuccess = "#00ff00"\n')
    terminal = open_terminal("rich", rows=40, columns=200)
    terminal.wait_for(f"{MARK}\n")
    terminal.send("/theme bda\r")
    terminal.wait_for("There is no theme bda. Did you mean bad?")
    terminal.send("/theme bad\r")
    terminal.wait_for("bad.toml, line 1: acent: unknown role (did you mean `accent`?). It is ignored.")
    terminal.wait_for("bad.toml, line 2: error: `purpel` is not a colour; write")
    terminal.send("on\r")
    terminal.wait_for("You said: on")


def test_keys_do_what_the_settings_say_and_the_screen_says_which(open_terminal: Open, tmp_path: Path) -> None:
    keys = 'send = "alt+enter"\nnew_line = "enter"\napproval_mode = "f2"\nsearch = ["f5", "ctrl+r"]\n'
    configure(tmp_path, f"[terminal.keys.input]\n{keys}")
    terminal = open_terminal("rich", columns=120)
    terminal.wait_for("Alt+Enter sends · Enter new line")
    terminal.wait_for("F2 approval mode")
    terminal.send("one\rtwo")
    terminal.wait_for(f"{MARK} one\n  two")
    terminal.send(ALT_ENTER)
    terminal.wait_for("You said: one")
    terminal.send("\x1b[15~")  # F5
    terminal.wait_for("History: ")
    terminal.send("\r")
    terminal.wait_for(f"{MARK} one\n  two\n")
    terminal.send(CTRL_C)
    terminal.send("/keys" + ALT_ENTER)
    terminal.wait_for("send  Alt+Enter")
    terminal.wait_for("(your config.toml)")
    terminal.wait_for("\n\nlist, while you choose:\n  choose")


def test_enter_answers_no_at_a_question_whatever_it_does_elsewhere(
    open_terminal: Open, tmp_path: Path
) -> None:
    configure(tmp_path, '[terminal.keys.input]\nsend = "alt+enter"\nnew_line = "enter"\n')
    terminal = open_terminal("rich", "run touch it", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    terminal.answer("\r")
    terminal.wait_for("Denied")
    assert not (tmp_path / "project/it").exists()


def test_a_key_that_does_nothing_leaves_the_run_stoppable(open_terminal: Open, tmp_path: Path) -> None:
    configure(tmp_path, "[terminal.keys.input]\nbackground = []\ntranscript = []\nsuspend = []\n")
    terminal = open_terminal("rich", "run sleep 30")
    terminal.wait_for("○ bash sleep 30")
    terminal.send("\x0f\x02")  # Ctrl+O, Ctrl+B
    terminal.send(ESCAPE)
    terminal.wait_for("Stopped")
    terminal.send("\x04")
    assert terminal.end() == 0


def test_the_pager_has_the_keys_of_the_settings(at_terminal: Open, tmp_path: Path) -> None:
    configure(tmp_path, '[terminal.keys.pager]\nclose = ["x", "escape", "ctrl+c"]\nend = "e"\nstart = "s"\n')
    terminal = at_terminal("rich", "long")
    terminal.wait_for("That is all.")
    terminal.type("", "C-o")
    terminal.wait_for("s e start, end · / n finds · x closes")
    terminal.type("s")
    terminal.wait_for("line(1)")
    terminal.type("q")
    terminal.type("e")
    terminal.wait_for("Transcript · end")
    terminal.type("x")
    terminal.wait_for("approve: auto")
