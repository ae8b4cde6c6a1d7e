"""The user interface of a capable terminal: the input stays usable at the bottom while output appears above.

One prompt_toolkit application runs as long as the conversation. Finished text is printed above it into the terminal's
own scroll-back; the application redraws only its own last lines.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TextIO

import anyio
from anyio.lowlevel import checkpoint
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
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
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from newel.terminal.renderers.live import LiveRenderer
from newel.terminal.renderers.screen import BEGIN_UPDATE, END_UPDATE, Screen
from newel.terminal.ui.attention import FOCUS_IN, FOCUS_OUT, Attention
from newel.terminal.ui.history import open_history
from newel.terminal.ui.input_modes import (
    DOUBLE_PRESS_S,
    AnsweringMode,
    ChoosingMode,
    DoublePress,
    InputMode,
    WaitingMode,
    WritingMode,
)
from newel.terminal.ui.line_reader import QUIET_S
from newel.terminal.ui.picker import Picker
from newel.terminal.ui.terminal_ui import InputHandler
from newel.text.sanitize import escape_invisible

EARLY_INPUT_S = 0.2
"""Time in which input typed before the prompt was shown is read."""

READ_ROUNDS = 8
"""Turns of the event loop, 1 KB each, in which a terminal's whole buffer (4 KB) is read."""

_FEW_ROWS = 8
"""In a terminal that is so low, there is no room for a status line."""

_MOVES = {"up": -1, "down": 1, "c-p": -1, "c-n": 1, "pageup": -10, "pagedown": 10}
"""Rows that a key moves the choice in a list."""

STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "state": "ansibrightblack",
        "question": "bold",
        "picker.selected": "ansicyan bold",
        "completion-menu": "noinherit",
        "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit ansibrightblack",
        "completion-menu.meta.completion.current": "noinherit ansibrightblack",
        "scrollbar.background": "noinherit",
        "scrollbar.button": "noinherit ansibrightblack",
    }
)


class PromptToolkitUI:
    """Input at the bottom of the terminal ``out``, and above it the output of the renderer that ``renderer`` creates for this
    screen. ``history`` is the file that keeps what was sent. ``title`` and ``notify`` are for ``Attention``.
    """

    def __init__(
        self,
        out: TextIO,
        renderer: Callable[[Screen], LiveRenderer],
        *,
        completer: Completer,
        history: Path,
        title: str = "newel",
        notify: Sequence[str] = (),
    ) -> None:
        self._out = out
        self._output = Vt100_Output.from_pty(out, term=os.environ.get("TERM"))
        self._output.enable_cpr = False  # the terminal's reply to that request would arrive among the input
        self.renderer = renderer(self)
        self._attention = Attention(self._output, title, notify, self.renderer.note)
        self._handler: InputHandler | None = None
        self._live: Sequence[str] = ()
        self._held: list[str] | None = None
        self._seen: float | None = None
        self._interrupts = DoublePress()
        self._is_early = False
        self._turn = anyio.Lock()
        self._buffer = Buffer(
            history=open_history(history),
            completer=completer,
            complete_while_typing=Condition(lambda: self._mode.completes),
            on_text_changed=lambda _: self._mode.on_text(),
            multiline=True,
        )
        self._writing: InputMode = WritingMode(self._buffer, self._get_handler)
        self._mode = self._writing
        self._app = self._build()

    # -- user interface -----------------------------------------------------------------------------------

    def columns(self) -> int:
        return self.size()[0]

    async def run(self, handler: InputHandler) -> None:
        self._handler = handler
        self._attention.begin()
        try:
            await self._app.run_async(
                handle_sigint=False, set_exception_handler=False, pre_run=self._take_early_keys
            )
        except EOFError:  # the terminal is gone
            pass
        finally:
            self._attention.end()
            self._handler = None

    def _get_handler(self) -> InputHandler | None:
        return self._handler

    def leave(self) -> None:
        if self._app.is_running and self._app.future is not None and not self._app.future.done():
            self._app.exit()

    async def ask(
        self, question: str, about: str, initial: str = "", *, interrupting: bool = False, keys: str = ""
    ) -> str | None:
        question = escape_invisible(question)
        async with self._turn:
            if about:
                self.renderer.note(escape_invisible(about), "question")
            await self._read_keys()  # keys typed before the question are no answer: they act as usual
            self._seen = None
            with self._attention.asking(question) if interrupting else nullcontext():
                if interrupting:
                    with self._in_mode(WaitingMode(self._buffer, self._get_handler, question)):
                        await self._until_quiet()
                draft = self._buffer.document
                has_draft = bool(draft.text)
                mode = AnsweringMode(
                    self._buffer, self._get_handler, question, has_draft=has_draft, keys=keys
                )
                with self._in_mode(mode), self._instead_of_draft(initial):
                    return await mode.answer

    async def pick(self, title: str, rows: Sequence[str], selected: int = 0) -> int | None:
        async with self._turn:
            await self._read_keys()
            mode = ChoosingMode(self._buffer, Picker(title, rows, selected))
            with self._instead_of_draft(""), self._in_mode(mode):
                return await mode.choice

    async def view(self, text: str, short: str = "", /) -> None:
        from newel.terminal.pager import page_beside, paged

        shown = paged(self._out, text)
        if shown is not None:
            async with self.suspend():
                await page_beside(shown)
        elif text.count("\n") < self.size()[1]:
            self.renderer.note(text, "diff")
        else:
            self.renderer.note(short or text, "diff")

    @contextmanager
    def _in_mode(self, mode: InputMode) -> Generator[None]:
        self._mode = mode
        self._app.invalidate()
        try:
            yield
        finally:
            self._mode = self._writing
            self._app.invalidate()

    @contextmanager
    def _instead_of_draft(self, text: str) -> Generator[None]:
        """Inside, the input begins with ``text``; the draft is restored afterwards."""
        draft = self._buffer.document
        self._buffer.reset(Document(text))
        try:
            yield
        finally:
            self._buffer.set_document(draft, bypass_readonly=True)

    async def _until_quiet(self) -> None:
        """Wait until the question was shown, and then no key was pressed for ``QUIET_S``."""
        remaining = QUIET_S
        while remaining > 0:
            await anyio.sleep(remaining)
            await self._read_keys()
            remaining = QUIET_S if self._seen is None else self._seen + QUIET_S - time.monotonic()

    async def _read_keys(self) -> None:
        for _ in range(READ_ROUNDS):
            await checkpoint()

    @asynccontextmanager
    async def suspend(self) -> AsyncGenerator[None]:
        self._held = []
        try:
            with set_app(self._app):
                async with in_terminal():
                    yield
        finally:
            held, self._held = "".join(self._held), None
            self.draw(held, self._live)

    def clear(self) -> None:
        self._app.renderer.clear()
        self._app.invalidate()

    def refresh(self) -> None:
        self._app.invalidate()

    def set_working(self, is_working: bool) -> None:
        self._attention.set_working(is_working)

    def echo(self, text: str) -> None:
        self.renderer.echo(text)

    def show_answer(self, text: str) -> None:
        self.renderer.note(text, "aside")

    def restore_input(self, text: str) -> None:
        self._buffer.text = f"{text}\n{self._buffer.text}" if self._buffer.text else text
        self._buffer.cursor_position = len(self._buffer.text)
        self._app.invalidate()

    # -- the screen ---------------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        size = self._output.get_size()
        return size.columns, size.rows

    def draw(self, above: str, live: Sequence[str]) -> None:
        self._live = live
        app, output = self._app, self._output
        if self._held is not None:
            self._held.append(above)
        elif not app.is_running:
            output.write_raw(above)
            output.flush()
        elif above:
            output.write_raw(BEGIN_UPDATE)
            app.renderer.erase()
            output.write_raw(above.replace("\n", "\r\n"))
            app.render_counter += 1  # windows cache their content by this number
            app.renderer.render(app, app.layout)
            output.write_raw(END_UPDATE)
            output.flush()
        else:
            app.invalidate()

    def paused(self) -> AbstractContextManager[None]:
        """Questions have a place of their own here."""
        return nullcontext()

    # -- the parts ----------------------------------------------------------------------------------

    def _build(self) -> Application[None]:
        above = Window(
            FormattedTextControl(lambda: self._mode.above(*self.size())),
            dont_extend_height=True,
            wrap_lines=True,
        )
        live = Window(
            FormattedTextControl(lambda: ANSI("\n".join(self._live))),
            dont_extend_height=True,
            always_hide_cursor=True,
        )
        has_above = Condition(lambda: bool(self._mode.above(*self.size())))
        typed = Window(
            BufferControl(self._buffer),
            height=lambda: Dimension(min=1, max=max(self.size()[1] // 2, 3)),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._prefix,
        )
        state = Window(
            FormattedTextControl(self._state),
            dont_extend_height=True,
            always_hide_cursor=True,
        )
        status = Window(
            FormattedTextControl(lambda: [("class:state", self._status())]), height=1, always_hide_cursor=True
        )
        layout = HSplit(
            [
                ConditionalContainer(live, Condition(lambda: bool(self._live)) & ~has_above),
                ConditionalContainer(above, has_above),
                typed,
                CompletionsMenu(max_height=8),
                ConditionalContainer(state, ~has_completions & Condition(lambda: bool(self._state()))),
                ConditionalContainer(status, Condition(lambda: bool(self._status()))),
                Window(),  # takes the free rows when the live part shrinks
            ]
        )
        app = _App(
            Layout(layout, focused_element=typed),
            key_bindings=self._keys(),
            style=STYLE,
            output=self._output,
            color_depth=ColorDepth.DEPTH_1_BIT if "NO_COLOR" in os.environ else None,
            erase_when_done=True,
            min_redraw_interval=0.02,
        )
        app.after_render += self._mark_seen
        app.key_processor.before_key_press += self._mark_key
        # Escape is a key of its own here: do not wait long for a sequence.
        app.ttimeoutlen, app.timeoutlen = 0.1, 0.15
        return app

    def _prefix(self, line: int, wrapped: int) -> AnyFormattedText:
        return "  " if line or wrapped else [("class:prompt", f"{self._mode.mark} ")]

    def _state(self) -> AnyFormattedText:
        lines = ["Ctrl+C again leaves"] if self._interrupts.is_pending else self._mode.hints()
        columns, _ = self.size()
        return [("class:state", "\n".join(line[: columns - 1] for line in lines))] if lines else ""

    def _status(self) -> str:
        columns, rows = self.size()
        return self._handler.status_line(columns - 1) if self._handler and rows > _FEW_ROWS else ""

    # -- keys ---------------------------------------------------------------------------------------

    def _take_early_keys(self) -> None:
        """Enter that was typed before the prompt was shown arrives as a line feed."""

        def end() -> None:
            self._is_early = False

        self._is_early = True
        asyncio.get_running_loop().call_later(EARLY_INPUT_S, end)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for names, action in (
            (["enter"], self._on_enter),
            (["escape", "enter"], lambda: self._buffer.insert_text("\n")),
            (["c-j"], self._on_line_feed),
            (["tab"], self._on_tab),
            (["s-tab"], self._on_shift_tab),
            (["escape"], self._on_escape),
            (["c-c"], self._on_interrupt),
            (["c-d"], self._on_end),
            (["c-o"], self._on_unfold),
            (["c-z"], self._on_suspend),
            ([FOCUS_IN], partial(self._attention.set_focus, True)),
            ([FOCUS_OUT], partial(self._attention.set_focus, False)),
        ):
            keys.add(*names)(_key(action))
        moving = Condition(lambda: isinstance(self._mode, ChoosingMode))
        for name, rows in _MOVES.items():
            keys.add(name, filter=moving)(_key(partial(self._on_move, rows)))
        return keys

    def _on_enter(self) -> None:
        self._mode.on_enter()

    def _on_tab(self) -> None:
        self._mode.on_tab()

    def _on_shift_tab(self) -> None:
        self._mode.on_shift_tab()

    def _on_escape(self) -> None:
        self._mode.on_escape()
        self._app.create_background_task(self._redraw_later())

    def _on_move(self, rows: int) -> None:
        if isinstance(self._mode, ChoosingMode):
            self._mode.on_move(rows)

    def _mark_seen(self, _: object) -> None:
        """The question is on the screen now."""
        if self._mode is not self._writing and self._seen is None:
            self._seen = time.monotonic()

    def _mark_key(self, _: object) -> None:
        if self._seen is not None:
            self._seen = time.monotonic()

    def _on_line_feed(self) -> None:
        if self._is_early:
            self._mode.on_enter()
        else:
            self._buffer.insert_text("\n")

    def _on_interrupt(self) -> None:
        if self._interrupts.is_pending:
            self.leave()
        elif not self._mode.on_interrupt():
            self._interrupts.press()
        self._app.create_background_task(self._redraw_later())

    async def _redraw_later(self) -> None:
        """Redraw when the time for the second press is over."""
        await anyio.sleep(DOUBLE_PRESS_S)
        self._app.invalidate()

    def _on_end(self) -> None:
        if self._buffer.text:
            self._buffer.delete()
        else:
            self.leave()

    def _on_unfold(self) -> None:
        if self._handler is not None:
            self._handler.expand()

    def _on_suspend(self) -> None:
        self._app.suspend_to_background()


class _App(Application[None]):
    def _on_resize(self) -> None:
        """Not while another program has the terminal: this would erase its output."""
        if not self._running_in_terminal:
            super()._on_resize()


def _key(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda _: action()
