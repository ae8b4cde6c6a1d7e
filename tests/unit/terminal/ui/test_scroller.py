"""If these fail, a part of a transcript cannot be reached, or opening a long one takes as long as painting all of it."""

from __future__ import annotations

import anyio
from hypothesis import given
from hypothesis import strategies as st

from newel.terminal.renderers.transcript import Section
from newel.terminal.ui.hints import fit_hints
from newel.terminal.ui.scroller import PagedSection, Scroller

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


class Painted:
    """Sections of some sizes, and which of them have been painted."""

    def __init__(self, *sizes: int) -> None:
        self.painted: set[int] = set()
        self.sections = [self._section(number, size) for number, size in enumerate(sizes)]

    def _section(self, number: int, size: int) -> PagedSection:
        def paint(columns: int) -> list[str]:
            self.painted.add(number)
            return [f"{number}.{line} of {columns}" for line in range(size)]

        def may_have(words: str) -> bool:
            return words.startswith(f"{number}.")

        return PagedSection(paint, may_have)


@given(SIZES, st.integers(1, 12), st.lists(st.integers(-7, 7)))
def test_every_line_can_be_reached_and_the_window_stays_full(
    sizes: list[int], rows: int, moves: list[int]
) -> None:
    scroller = Scroller(Painted(*sizes).sections, 80, rows)
    total = sum(sizes) + len(sizes) - 1
    everything = scroller.visible()
    for _ in range(total):
        scroller.move(1)
        everything += [line for line in scroller.visible()[-1:] if line != everything[-1]]
    assert [line for line in everything if line] == [
        f"{number}.{line} of 80" for number, size in enumerate(sizes) for line in range(size)
    ]
    assert scroller.position in {"end", ""}
    for lines in moves:
        scroller.move(lines)
        assert len(scroller.visible()) == min(rows, total)
    scroller.to_start()
    assert scroller.visible()[0] == "0.0 of 80"


def test_only_what_is_shown_is_painted() -> None:
    text = Painted(*[3] * 1_000)
    scroller = Scroller(text.sections, 80, 10)
    scroller.to_end()
    assert scroller.visible()[-1] == "999.2 of 80"
    assert len(text.painted) <= 4


def test_words_are_found_in_both_directions_without_painting_what_cannot_have_them() -> None:
    text = Painted(*[30] * 100)
    scroller = Scroller(text.sections, 80, 10)
    assert anyio.run(scroller.find, "50.7", 1)
    assert scroller.visible()[0] == "50.7 of 80"
    assert anyio.run(scroller.find, "20.29", -1)
    assert scroller.visible()[0] == "20.29 of 80"
    assert not anyio.run(scroller.find, "50.7", -1)
    assert scroller.visible()[0] == "20.29 of 80"
    assert len(text.painted) < 10


def test_another_width_keeps_the_end() -> None:
    scroller = Scroller(Painted(30, 30).sections, 80, 10)
    scroller.to_end()
    scroller.resize(40, 7)
    assert scroller.visible()[-1] == "1.29 of 40"
    assert len(scroller.visible()) == 7


def test_formatted_answers_are_searched_as_they_are_shown() -> None:
    assert Section("answer", "a **b**").may_have("a b")
    assert not Section("call", "a **b**").may_have("a b")
    assert Section("call", "\x1b[31mred\x1b[0m text").may_have("Red text")


def test_of_hints_that_do_not_fit_the_last_one_stays() -> None:
    hints = "Enter sends now · Tab sends after the run · Esc stops"
    assert fit_hints(hints, 80) == hints
    assert fit_hints(hints, 49) == "Enter sends now · Esc stops"
    assert fit_hints(hints, 12) == "Esc stops"
    assert fit_hints(hints, 5) == "Esc …".replace(" …", "…")
