"""If these fail, a panel's border is torn, or words are lost in it."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from newel.terminal.jexida.panels import LONG, RichPanels
from newel.terminal.renderers.palette import MAX_WIDTH
from newel.terminal.renderers.styles import Styles
from newel.text.sanitize import sanitize
from tests.properties import examples

BOXES = RichPanels(Styles({"TERM": "xterm-256color"}))
TEXTS = st.text(st.sampled_from("ab -_日本é🙂\n\t"), max_size=120)
WIDTHS = st.integers(12, 120)


def plain(lines: list[str]) -> list[str]:
    return [Text.from_ansi(line).plain for line in lines]


def inside(lines: list[str], width: int) -> str:
    """The text of a panel, after a check of its borders."""
    for line in lines:
        assert cell_len(line) == min(width, MAX_WIDTH)
        assert line[0] + line[-1] == "││"
    return "".join(line[1:-1] for line in lines).replace(" ", "")


@settings(max_examples=examples(60))
@given(TEXTS, WIDTHS, st.sampled_from(["plain", "strong", "bad"]))
@example("x" * (LONG + 7), 40, "plain")
@example("日本 " * LONG, 41, "plain")
def test_text_is_complete_between_even_borders(text: str, width: int, tone: str) -> None:
    lines = plain(BOXES.lines(text, width, tone))  # pyright: ignore[reportArgumentType]
    assert inside(lines, width) == "".join(text.split())


@settings(max_examples=examples(60))
@given(TEXTS, WIDTHS)
def test_an_answer_has_even_borders_and_no_empty_lines_around_it(text: str, width: int) -> None:
    lines = plain(BOXES.prose(text, width))
    inside(lines, width)
    if lines:
        assert lines[0].strip("│ ")
        assert lines[-1].strip("│ ")


def test_a_panel_has_its_title_above_and_its_note_below() -> None:
    assert plain(BOXES.top("PLAN", 24)) == ["╭─ PLAN ───────────────╮"]
    assert plain(BOXES.bottom("exit code 0", 24)) == ["╰──────── exit code 0 ─╯"]
    assert plain(BOXES.bottom("", 24)) == ["╰──────────────────────╯"]
    assert inside(plain(BOXES.lines(sanitize("a\x1b[31mb\r\nc"), 24)), 24) == "abc"
