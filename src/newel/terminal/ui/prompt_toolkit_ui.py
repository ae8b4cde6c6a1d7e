"""The user interface of a capable terminal: the input stays usable at the bottom while output appears above.

One prompt_toolkit application runs as long as the conversation. Finished text is printed above it into the terminal's
own scroll-back; the application redraws only its own last lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TextIO

import anyio
from anyio.lowlevel import checkpoint
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
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
from newel.terminal.ui.line_reader import QUIET_S
from newel.terminal.ui.picker import KEYS, Picker
from newel.terminal.ui.terminal_ui import InputHandler
from newel.text.format import PROMPT
from newel.text.sanitize import escape_invisible

DOUBLE_PRESS_S = 2.0
"""Time in which a second Ctrl+C leaves."""

EARLY_INPUT_S = 0.2
"""Time in which input typed before the prompt was shown is read."""

READ_ROUNDS = 8
"""Turns of the event loop, 1 KB each, in which a terminal's whole buffer (4 KB) is read."""

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
    screen. ``history`` is the file that keeps what was sent.
    """

    def __init__(
        self, out: TextIO, renderer: Callable[[Screen], LiveRenderer], *, completer: Completer, history: Path
    ) -> None:
        self._output = Vt100_Output.from_pty(out, term=os.environ.get("TERM"))
        self._output.enable_cpr = False  # the terminal's reply to that request would arrive among the input
        self.renderer = renderer(self)
        self._handler: InputHandler | None = None
        self._live: Sequence[str] = ()
        self._held: list[str] | None = None
        self._question = ""
        self._answer: asyncio.Future[str] | None = None
        self._draft = Document()
        self._picker: Picker | None = None
        self._picked: asyncio.Future[int | None] | None = None
        self._seen: float | None = None
        self._interrupted = float("-inf")
        self._is_early = False
        self._buffer = Buffer(
            history=_open_history(history),
            completer=completer,
            complete_while_typing=Condition(lambda: not self._question and self._picker is None),
            on_text_changed=self._on_text,
            multiline=True,
        )
        self._app = self._build()

    # -- user interface -----------------------------------------------------------------------------------

    def columns(self) -> int:
        return self.size()[0]

    async def run(self, handler: InputHandler) -> None:
        self._handler = handler
        try:
            await self._app.run_async(
                handle_sigint=False, set_exception_handler=False, pre_run=self._take_early_keys
            )
        except EOFError:  # the terminal is gone
            pass
        finally:
            self._handler = None

    def leave(self) -> None:
        if self._app.is_running and self._app.future is not None and not self._app.future.done():
            self._app.exit()

    async def ask(
        self, question: str, about: str, initial: str = "", *, interrupting: bool = False
    ) -> str | None:
        if about:
            self.renderer.note(escape_invisible(about), "question")
        await self._read_keys()  # keys typed before the question are no answer: they act as usual
        self._question, self._seen = escape_invisible(question), None
        self._app.invalidate()
        try:
            if interrupting:
                await self._until_quiet()
            return await self._read_answer(initial)
        finally:
            self._question = ""
            self._app.invalidate()

    async def _read_answer(self, initial: str) -> str:
        """The line entered in place of the draft, which is restored afterwards."""
        self._draft, self._answer = self._buffer.document, asyncio.get_running_loop().create_future()
        self._buffer.reset(Document(initial))
        self._app.invalidate()
        try:
            return await self._answer
        finally:
            self._buffer.set_document(self._draft, bypass_readonly=True)
            self._draft, self._answer = Document(), None

    async def pick(self, title: str, rows: Sequence[str], selected: int = 0) -> int | None:
        await self._read_keys()
        draft, self._picked = self._buffer.document, asyncio.get_running_loop().create_future()
        self._buffer.reset()
        self._picker = Picker(title, rows, selected)
        self._app.invalidate()
        try:
            return await self._picked
        finally:
            self._picker = self._picked = None
            self._buffer.set_document(draft, bypass_readonly=True)
            self._app.invalidate()

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

    def echo(self, text: str) -> None:
        self.renderer.echo(text)

    def show_answer(self, text: str) -> None:
        self.renderer.note(text, "answer")

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
        asking = Condition(lambda: bool(self._question))
        live = Window(
            FormattedTextControl(lambda: ANSI("\n".join(self._live))),
            dont_extend_height=True,
            always_hide_cursor=True,
        )
        question = Window(
            FormattedTextControl(lambda: [("class:question", self._question)]),
            dont_extend_height=True,
            wrap_lines=True,
        )
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
        picking = Condition(lambda: self._picker is not None)
        picker = Window(FormattedTextControl(self._rows), dont_extend_height=True)
        layout = HSplit(
            [
                ConditionalContainer(live, Condition(lambda: bool(self._live)) & ~asking & ~picking),
                ConditionalContainer(question, asking),
                ConditionalContainer(picker, picking),
                typed,
                CompletionsMenu(max_height=8),
                ConditionalContainer(state, ~has_completions),
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

    def _rows(self) -> AnyFormattedText:
        columns, rows = self.size()
        return self._picker.fragments(columns, max(rows * 2 // 3, 4)) if self._picker else ""

    def _prefix(self, line: int, wrapped: int) -> AnyFormattedText:
        if line or wrapped:
            return "  "
        return [("class:prompt", "? " if self._answer else f"{PROMPT} ")]

    def _state(self) -> AnyFormattedText:
        if self._picker is not None:
            lines = [KEYS]
        elif self._answer is not None:
            lines = [f"Enter answers · Esc stops{' · your draft comes back' if self._draft.text else ''}"]
        elif self._question:
            lines = ["Pause typing to answer · Esc stops"]
        elif time.monotonic() - self._interrupted < DOUBLE_PRESS_S:
            lines = ["Ctrl+C again leaves"]
        else:
            lines = self._handler.state_lines() if self._handler else []
        columns, _ = self.size()
        return [("class:state", "\n".join(line[: columns - 1] for line in lines))]

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
            (["escape"], self._on_escape),
            (["c-c"], self._on_interrupt),
            (["c-d"], self._on_end),
            (["c-o"], self._on_unfold),
            (["c-z"], self._on_suspend),
        ):
            keys.add(*names)(_key(action))
        picking = Condition(lambda: self._picker is not None)
        for name, rows in {"up": -1, "down": 1, "c-p": -1, "c-n": 1, "pageup": -10, "pagedown": 10}.items():
            keys.add(name, filter=picking)(_key(partial(self._on_move, rows)))
        return keys

    def _on_move(self, rows: int) -> None:
        if self._picker is not None:
            self._picker.move(rows)

    def _on_text(self, _: Buffer) -> None:
        if self._picker is not None:
            self._picker.filter(self._typed_text())

    def _choose(self, choice: int | None) -> None:
        if self._picked is not None and not self._picked.done():
            self._picked.set_result(choice)

    def _on_enter(self) -> None:
        if self._picker is not None:
            if self._picker.choice is not None:
                self._choose(self._picker.choice)
        elif self._answer is not None:
            if not self._answer.done():  # several keys can arrive before the reader of the answer runs
                self._answer.set_result(self._typed_text())
        elif (state := self._buffer.complete_state) and state.current_completion:
            self._buffer.complete_state = None
        elif not self._question:
            self._send()

    def _send(self, *, later: bool = False) -> None:
        text = self._typed_text()
        if text.strip() and self._handler is not None:
            self._buffer.append_to_history()
            self._buffer.reset()
            self._handler.submit(text, "later" if later else "now")

    def _typed_text(self) -> str:
        """Bytes that are not UTF-8 arrive as lone surrogates, which nothing else accepts."""
        return self._buffer.text.encode(errors="surrogateescape").decode(errors="replace")

    def _mark_seen(self, _: object) -> None:
        """The question is on the screen now."""
        if self._question and self._seen is None:
            self._seen = time.monotonic()

    def _mark_key(self, _: object) -> None:
        if self._seen is not None:
            self._seen = time.monotonic()

    def _on_line_feed(self) -> None:
        if self._is_early:
            self._on_enter()
        else:
            self._buffer.insert_text("\n")

    def _on_tab(self) -> None:
        if self._picker is not None:
            self._picker.move(1)
            return
        word = self._buffer.document.text_before_cursor
        completing = word.startswith("/") or "@" in word.rpartition(" ")[2]
        event = CompleteEvent(completion_requested=True)
        commands = list(self._buffer.completer.get_completions(self._buffer.document, event))
        if len(commands) == 1:
            self._buffer.apply_completion(commands[0])
        elif self._buffer.complete_state:
            self._buffer.complete_next()
        elif not completing and self._handler is not None and self._handler.busy and not self._question:
            self._send(later=True)
        else:
            self._buffer.start_completion(select_first=True)

    def _on_escape(self) -> None:
        if self._picker is not None:
            self._choose(None)
        elif self._buffer.complete_state:
            self._buffer.cancel_completion()
        elif self._handler is not None:
            self._handler.stop()

    def _on_interrupt(self) -> None:
        if self._picker is not None:
            self._choose(None)
            return
        now, before = time.monotonic(), self._interrupted
        self._interrupted = now
        if now - before < DOUBLE_PRESS_S:
            self.leave()
        elif self._handler is not None and self._handler.stop():
            pass
        elif self._buffer.text:
            self._buffer.reset()
            self._interrupted = before  # it only cleared the draft, so the next press is not the second one
        self._app.create_background_task(self._redraw_later())

    async def _redraw_later(self) -> None:
        """Redraw when the time for the second Ctrl+C is over."""
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


def _open_history(path: Path) -> History:
    """The history in a private file, or in memory if there can be no file."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return _FileHistory(str(path))


class _FileHistory(FileHistory):
    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the conversation
            super().store_string(string)
