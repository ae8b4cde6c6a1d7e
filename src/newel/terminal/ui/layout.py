"""The rows at the bottom of the terminal: what grows or is asked, the input, the menu of completions, the hints and the status line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.layout.processors import TabsProcessor

GetText = Callable[[], AnyFormattedText]


class Rows(NamedTuple):
    """What is shown now. ``live``, painted lines, are left out where there is something ``above`` the input; ``prefix`` is that of a line of the
    input.
    """

    live: Callable[[], Sequence[str]]
    above: GetText
    prefix: Callable[[int, int], AnyFormattedText]
    hints: GetText
    status: GetText


def build_layout(buffer: Buffer, rows: Rows, height: Callable[[], int]) -> Layout:
    """The layout of the input ``buffer`` in a terminal of ``height`` rows, half of which it takes at most."""
    above, hints, status = map(_Drawn, (rows.above, rows.hints, rows.status))
    typed = Window(
        BufferControl(buffer, input_processors=[TabsProcessor(tabstop=4, char1=" ", char2=" ")]),
        height=lambda: Dimension(min=1, max=max(height() // 2, 3)),
        dont_extend_height=True,
        wrap_lines=True,
        get_line_prefix=rows.prefix,
    )
    has_above = Condition(lambda: bool(above()))
    return Layout(
        HSplit(
            [
                ConditionalContainer(
                    Window(_PaintedLines(rows.live), dont_extend_height=True, always_hide_cursor=True),
                    Condition(lambda: bool(rows.live())) & ~has_above,
                ),
                ConditionalContainer(_window(above, wraps=True), has_above),
                typed,
                CompletionsMenu(max_height=8),
                ConditionalContainer(_window(hints), ~has_completions & Condition(lambda: bool(hints()))),
                ConditionalContainer(_window(status), Condition(lambda: bool(status()))),
                Window(),  # takes the free rows when the live part shrinks
            ]
        ),
        focused_element=typed,
    )


class _PaintedLines(UIControl):
    """Lines with colours for the terminal, one row each. Lines that stay are not read again: a key must not wait for a screenful of them."""

    def __init__(self, get: Callable[[], Sequence[str]]) -> None:
        self._get = get

    def preferred_height(
        self,
        width: int,  # noqa: ARG002 — a line is one row
        max_available_height: int,  # noqa: ARG002
        wrap_lines: bool,  # noqa: ARG002
        get_line_prefix: object,  # noqa: ARG002
    ) -> int:
        return len(self._get())

    def create_content(self, width: int, height: int) -> UIContent:  # noqa: ARG002 — the window cuts
        lines = self._get()
        return UIContent(lambda number: _fragments(lines[number]), len(lines), show_cursor=False)


@lru_cache(maxsize=256)
def _fragments(line: str) -> StyleAndTextTuples:
    """The parts of a painted line. prompt_toolkit makes one of each character."""
    each = groupby(to_formatted_text(ANSI(line)), key=itemgetter(0))
    return [(style, "".join(part[1] for part in parts)) for style, parts in each]


class _Drawn:
    """A text that is made once for each drawing of the screen, although several parts of the layout ask for it."""

    def __init__(self, get: GetText) -> None:
        self._get = get
        self._drawing = -1
        self._text: AnyFormattedText = ""

    def __call__(self) -> AnyFormattedText:
        if (drawing := get_app().render_counter) != self._drawing:
            self._drawing, self._text = drawing, self._get()
        return self._text


def _window(text: GetText, *, wraps: bool = False) -> Window:
    return Window(
        FormattedTextControl(text), dont_extend_height=True, always_hide_cursor=True, wrap_lines=wraps
    )
