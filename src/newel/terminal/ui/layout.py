"""The rows at the bottom of the terminal: what grows or is asked, the input, the menu of completions, the hints and the status line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Final, NamedTuple

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, to_formatted_text
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Container,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.utils import get_cwidth

GetText = Callable[[], AnyFormattedText]


class Rows(NamedTuple):
    """What is shown now. ``live``, painted lines, are left out where there is something ``above`` the input; ``prefix`` is that of a line
    of the input.
    """

    live: Callable[[], Sequence[str]]
    above: GetText
    prefix: Callable[[int, int], AnyFormattedText]
    hints: GetText
    status: GetText


def build_layout(buffer: Buffer, rows: Rows, height: Callable[[], int]) -> Layout:
    """The layout of the input ``buffer`` in a terminal of ``height`` rows, half of which it takes at most."""
    above, hints, status = map(_CachedText, (rows.above, rows.hints, rows.status))
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
                    _PaintedLines(rows.live), Condition(lambda: bool(rows.live())) & ~has_above
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


class _PaintedLines(Container):
    """Lines with colours for the terminal, one row each. A key must not wait for a screenful of them: a part of one colour is one wide
    character of the screen, and the cells of a line that stays are not made again.
    """

    def __init__(self, get: Callable[[], Sequence[str]]) -> None:
        self._get = get

    def reset(self) -> None:
        """There is no state."""

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension(preferred=max_available_width)

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:  # noqa: ARG002 — a line is one row
        rows = len(self._get())
        return Dimension(max=rows, preferred=rows)

    def write_to_screen(  # noqa: PLR0917 — the base's signature
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,  # noqa: ARG002 — nothing here is clicked
        write_position: WritePosition,
        parent_style: str,  # noqa: ARG002 — lines have their own colours
        erase_bg: bool,  # noqa: ARG002
        z_index: int | None,  # noqa: ARG002
    ) -> None:
        at = write_position
        for row, line in enumerate(self._get()[: at.height], at.ypos):
            screen.data_buffer[row].update(_cells(line, at.width))
        screen.height = max(screen.height, at.ypos + at.height)

    def get_children(self) -> list[Container]:
        return []


_COVERED: Final = Char("")
"""A cell behind the first one of a wide character."""


@lru_cache(maxsize=256)
def _cells(line: str, width: int) -> Mapping[int, Char]:
    """The cells of a painted line by their columns."""
    cells: dict[int, Char] = {}
    for style, fragments in groupby(to_formatted_text(ANSI(line)), key=itemgetter(0)):
        column = len(cells)
        part = Char(_fit("".join(fragment[1] for fragment in fragments), width - column), style)
        if part.width:
            cells[column] = part
            cells.update(dict.fromkeys(range(column + 1, column + part.width), _COVERED))
    return cells


def _fit(text: str, columns: int) -> str:
    ends = accumulate(map(get_cwidth, text))
    return "".join(char for char, end in zip(text, ends, strict=True) if end <= columns)


class _CachedText:
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
