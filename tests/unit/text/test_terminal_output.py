"""If these fail, the model gets escape sequences, the screens of an editor, or every state of a progress bar."""

from __future__ import annotations

import pytest

from newel.text.terminal_output import MAX_LINE, TerminalText

CASES = {
    "plain\r\n": "plain\n",
    "no end": "no end",
    "\x1b[1mbold\x1b[0m\n": "bold\n",
    "10%\r100%\n": "100%\n",
    "10%\r100%": "100%",
    "10%\r\x1b[Kdone\r\n": "done\n",
    "abc\b\b\bxy\n": "xy\n",
    "before\n\x1b[?1049hEDITOR\nSCREEN\x1b[?1049lafter\n": "before\nafter\n",
    "before\n\x1b[?1049;2004hkilled": "before\n",
    "\x1b[?25l\x1b[?2004hshown\x1b[?25h\n": "shown\n",
    "\x1b]52;c;c2VjcmV0\x07text\n": "text\n",
    "wörd 日本\n": "wörd 日本\n",
    "cut\x1b[?10": "cut",
}


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("written", CASES)
def test_what_stays_on_the_screen(written: str, size: int) -> None:
    text = TerminalText()
    pieces = [text.feed(written[at : at + size]) for at in range(0, len(written), size)]
    assert "".join([*pieces, text.finish()]) == CASES[written]


def test_a_progress_bar_without_an_end_takes_no_memory() -> None:
    text = TerminalText()
    assert "".join(text.feed(f"\r{number:>7}%") for number in range(10_000)) + text.finish() == "   9999%"


def test_a_line_without_an_end_is_passed_on() -> None:
    text = TerminalText()
    shown = text.feed("x" * (2 * MAX_LINE))
    assert len(shown) == 2 * MAX_LINE
