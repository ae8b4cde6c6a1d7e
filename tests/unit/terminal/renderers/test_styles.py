"""If these fail, a line of the screen misleads by its colour, or is broken where it should not be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from newel.terminal.renderers import styles
from newel.terminal.renderers.call_outcome import CallOutcome
from newel.terminal.renderers.palette import wrap


def coloured(line: Text) -> list[str]:
    """The coloured parts of a line."""
    assert not line.style
    return [
        line.plain[span.start : span.end]
        for span in line.spans
        if span.style not in (styles.USER, styles.TOOL, styles.DIM)
    ]


@pytest.mark.parametrize("failed", [False, True])
def test_only_the_mark_of_a_call_is_coloured(failed: bool) -> None:
    outcome = CallOutcome("1", "bash", {"command": "ls"}, failed, "3 files", [], 4, "")
    assert [piece for line in styles.call_lines(outcome, 60) for piece in coloured(line)] == ["● "]


def test_only_the_prompt_mark_of_a_user_is_coloured() -> None:
    assert [piece.strip() for piece in coloured(styles.user_text("Hello"))] == [styles.PROMPT]


@given(st.text(alphabet=st.sampled_from("ab 日🙂")), st.integers(4, 20))
def test_a_wrapped_line_fits_and_loses_no_word(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert max(map(cell_len, lines)) <= width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    short = [word for word in text.split() if cell_len(word) <= width]
    assert all(any(word in line for line in lines) for word in short)


def test_texts_of_different_widths_can_be_painted_in_turns() -> None:
    """A long answer is painted with pauses, in which the rows below it are painted."""
    painter = styles.Styles({"TERM": "xterm-256color"})
    code = (
        "```python\n"
        + '"""\nall of this is one text\n"""\n' * 20
        + f"x = '{'long ' * 40}'\n```\n\n> ```\n> {'a ' * 60}\n> ```\n"
    )
    whole = list(painter.markdown(code, 80))
    lines = painter.markdown(code, 80)
    in_turns: list[str] = []
    for line in lines:
        in_turns.append(line)
        painter.paint(Text("narrow " * 20), 20)
    assert in_turns == whole
    assert len([line for line in whole if line == whole[2]]) == 20
    assert "\x1b[" in whole[2]


@pytest.mark.timeout(10)
def test_a_line_of_code_with_a_wide_gap_is_painted_at_once() -> None:
    """A model may write any number of spaces, and nobody can stop Newel while it paints them."""
    gap = " " * 20_000
    (line,) = styles.Styles({}).markdown(f"```\nx{gap}y  \n```", 80)
    assert Text.from_ansi(line).plain == f"x{gap}y"


def test_a_dumb_terminal_has_its_own_width() -> None:
    dumb = styles.Styles({"TERM": "dumb"})
    assert dumb.paint(Text("word " * 30), 40).count("\n") == 3
