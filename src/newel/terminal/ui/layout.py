"""The rows at the bottom of the terminal: what grows or is asked, the input, the menu of completions, the hints and the status line."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import AnyFormattedText
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
from prompt_toolkit.layout.processors import TabsProcessor

GetText = Callable[[], AnyFormattedText]


class Rows(NamedTuple):
    """What is shown now. ``live`` is left out where there is something ``above`` the input; ``prefix`` is that of a line of the input."""

    live: GetText
    above: GetText
    prefix: Callable[[int, int], AnyFormattedText]
    hints: GetText
    status: GetText


def build_layout(buffer: Buffer, rows: Rows, height: Callable[[], int]) -> Layout:
    """The layout of the input ``buffer`` in a terminal of ``height`` rows, half of which it takes at most."""
    live, above, hints, status = map(_Drawn, (rows.live, rows.above, rows.hints, rows.status))
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
                ConditionalContainer(_window(live), Condition(lambda: bool(live())) & ~has_above),
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
