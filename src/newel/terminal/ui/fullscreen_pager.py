"""A pager on the terminal's alternate screen. The conversation goes on meanwhile; the screen comes back as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import Output

from newel.config.keymap import Keymap
from newel.terminal.renderers.styles import Styles
from newel.terminal.renderers.transcript import Section, paint_section
from newel.terminal.ui.hints import fit_hints
from newel.terminal.ui.key_dispatch import bind, on_key
from newel.terminal.ui.scroller import PagedSection, Scroller, matches
from newel.terminal.ui.terminal_app import application_style, color_depth

NEWS_S = 0.5
"""Time after which the last line tells what has happened in the conversation."""

_MOVES: Final[dict[str, Callable[[Scroller], None]]] = {
    "up": lambda scroller: scroller.move(-1),
    "down": lambda scroller: scroller.move(1),
    "page_up": lambda scroller: scroller.turn(-1),
    "page_down": lambda scroller: scroller.turn(1),
    "half_page_up": lambda scroller: scroller.turn(-0.5),
    "half_page_down": lambda scroller: scroller.turn(0.5),
    "start": lambda scroller: scroller.to_start(),
    "end": lambda scroller: scroller.to_end(),
}


def paged_sections(sections: Sequence[Section], styles: Styles) -> list[PagedSection]:
    return [PagedSection(partial(paint_section, section, styles), section.may_have) for section in sections]


def describe_keys(keymap: Keymap) -> str:
    """``Up Down Space b moves · g G start, end · / n finds · q closes``: the first key of each action."""
    groups = (
        (("up", "down", "page_up", "page_down"), "moves"),
        (("start", "end"), "start, end"),
        (("find", "next"), "finds"),
        (("close",), "closes"),
    )
    shown = (
        (" ".join(filter(None, (keymap.label("pager", each) for each in group))), does)
        for group, does in groups
    )
    return " · ".join(f"{keys.replace('Up Down', '↑↓')} {does}" for keys, does in shown if keys)


class FullscreenPager:
    """Shows sections on ``output`` until the user closes it; ``news`` says what waits for them in the conversation."""

    def __init__(
        self,
        output: Output,
        title: str,
        sections: Sequence[PagedSection],
        news: Callable[[], str],
        *,
        styles: Styles,
        keymap: Keymap,
        at_end: bool,
    ) -> None:
        self._title = title
        self._output = output
        self._styles = styles
        self._keymap = keymap
        self._closes = keymap.label("pager", "close", "{} closes")
        self._hint = describe_keys(keymap)
        self._news = news
        self._query = ""
        self._typed: str | None = None
        self._problem = ""
        columns, rows = self._size()
        self._scroller = Scroller(sections, columns, rows)
        if at_end:
            self._scroller.to_end()
        self._app = self._build()

    async def run(self) -> None:
        with suppress(EOFError):  # the terminal is gone
            await self._app.run_async(handle_sigint=False, set_exception_handler=False)

    def close(self) -> None:
        if self._app.is_running and self._app.future is not None and not self._app.future.done():
            self._app.exit()

    def _size(self) -> tuple[int, int]:
        size = self._output.get_size()
        return size.columns, max(size.rows - 1, 1)

    def _build(self) -> Application[None]:
        text = Window(FormattedTextControl(self._text), always_hide_cursor=True, wrap_lines=False)
        state = Window(FormattedTextControl(self._state), height=1, always_hide_cursor=True)
        app: Application[None] = Application(
            Layout(HSplit([text, state])),
            key_bindings=self._keys(),
            style=application_style(self._styles.roles),
            output=self._output,
            color_depth=color_depth(self._styles),
            full_screen=True,
            refresh_interval=NEWS_S,
        )
        app.ttimeoutlen, app.timeoutlen = 0.05, 0.05
        return app

    # -- the screen ---------------------------------------------------------------------------------

    def _text(self) -> StyleAndTextTuples:
        self._scroller.resize(*self._size())
        fragments: StyleAndTextTuples = []
        for line in self._scroller.visible():
            painted = to_formatted_text(ANSI(line))
            if found := matches(self._query, line):
                painted = _marked(painted, found)
            fragments += [*painted, ("", "\n")]
        return fragments

    def _state(self) -> StyleAndTextTuples:
        columns, _ = self._size()
        if self._typed is not None:
            return [("", f"/{self._typed}"[-columns + 1 :])]
        if news := self._problem or self._news():
            return [("class:news", fit_hints(f"{news} · {self._closes}", columns - 1))]
        position = self._scroller.position
        return [
            (
                "class:state",
                fit_hints(" · ".join(filter(None, (self._title, position, self._hint))), columns - 1),
            )
        ]

    # -- keys ---------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = Condition(lambda: self._typed is not None)
        actions = {name: (partial(self._move, move), ~typing) for name, move in _MOVES.items()}
        actions |= {
            "close": (self.close, ~typing),
            "find": (partial(self._type, ""), ~typing),
            "next": (partial(self._find, 1), ~typing),
            "previous": (partial(self._find, -1), ~typing),
        }
        bind(keys, self._keymap, "pager", actions)
        keys.add(Keys.Any, filter=typing)(self._on_letter)
        for name, action in (
            ("enter", self._start_search),
            ("backspace", self._delete),
            ("escape", partial(self._type, None)),
            ("c-c", partial(self._type, None)),
        ):
            keys.add(name, filter=typing)(on_key(action))
        return keys

    def _move(self, move: Callable[[Scroller], None]) -> None:
        self._problem = ""
        move(self._scroller)

    def _type(self, text: str | None) -> None:
        self._typed = text

    def _delete(self) -> None:
        self._typed = (self._typed or "")[:-1]

    def _on_letter(self, event: KeyPressEvent) -> None:
        if event.data.isprintable():
            self._typed = (self._typed or "") + event.data

    def _start_search(self) -> None:
        self._query, self._typed = self._typed or self._query, None
        self._find(1)

    def _find(self, step: int) -> None:
        if self._query:
            self._app.create_background_task(self._find_next(step))

    async def _find_next(self, step: int) -> None:
        is_found = await self._scroller.find(self._query, step)
        self._problem = "" if is_found else f"Not found {'below' if step > 0 else 'above'}: {self._query}"
        self._app.invalidate()


def _marked(painted: StyleAndTextTuples, found: Sequence[tuple[int, int]]) -> StyleAndTextTuples:
    """The line with these characters reversed."""
    marked: StyleAndTextTuples = []
    at = 0
    for style, text, *_ in painted:
        for char in text:
            is_found = any(start <= at < end for start, end in found)
            marked.append((f"{style} reverse" if is_found else style, char))
            at += 1
    return marked
