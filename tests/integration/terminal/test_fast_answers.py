"""If these fail, an answer that comes faster than it can be painted loses text, or what is typed meanwhile is lost."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.tmux import Tmux

AtTerminal = Callable[..., Tmux]
MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def numbers(pattern: str, text: str) -> list[int]:
    return [int(number) for number in re.findall(pattern, text, re.MULTILINE)]


def test_a_fast_answer_is_complete_however_much_is_typed_and_resized(at_terminal: AtTerminal) -> None:
    terminal = at_terminal("rich", "long")
    for at, key in enumerate("a draft of a message"):
        terminal.type(key)
        terminal.resize(80 + at, 24 + at % 5)
    terminal.wait_for("34 out")
    assert numbers(r"^line\((\d+)\)$", terminal.text) == list(range(300))
    assert numbers(r"^ row (\d+) ", terminal.text) == list(range(100))
    assert numbers(r"^ • item (\d+)$", terminal.text) == list(range(100))
    assert terminal.text.count("That is all.") == 1
    assert f"{MARK} a draft of a message\n" in terminal.view


def test_an_answer_that_is_stopped_keeps_all_that_had_come(at_terminal: AtTerminal) -> None:
    terminal = at_terminal("rich", "long")
    terminal.wait_for("line(40)")
    terminal.type("", "Escape")
    terminal.wait_for("Stopped.")
    lines = numbers(r"^line\((\d+)\)$", terminal.text)
    assert lines == list(range(len(lines)))
    assert len(lines) >= 40
    terminal.type("fine", "Enter")
    terminal.wait_for("You said: fine")


def test_a_long_answer_has_no_colours_without_colour(at_terminal: AtTerminal) -> None:
    terminal = at_terminal("rich", "long", NO_COLOR="1")
    terminal.wait_for("34 out")
    terminal.type("", "C-d")
    terminal.wait_for_end()
    codes = {code for line in terminal.painted for code in re.findall(r"\x1b\[([0-9;]*)m", line)}
    assert not [code for code in codes if re.search(r"(?:^|;)(?:3[0-8]|9[0-7]|4[0-8])", code)]


def test_a_long_answer_is_plain_on_a_dumb_terminal(at_terminal: AtTerminal) -> None:
    terminal = at_terminal("rich", "long", TERM="dumb")
    terminal.wait_for("34 out")
    assert numbers(r"^line\((\d+)\)$", terminal.text) == list(range(300))
