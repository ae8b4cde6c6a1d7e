"""The user interface of a capable terminal: the input stays usable at the bottom while output appears above.

One prompt_toolkit application runs as long as the conversation. Finished text is printed above it into the terminal's
own scroll-back; the application redraws only its own last lines.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import anyio
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings

from newel.config.keymap import Keymap
from newel.config.terminal import EditingKeys
from newel.config.themes import Theme
from newel.terminal.renderers.live import LiveRenderer
from newel.terminal.renderers.screen import BEGIN_UPDATE, END_UPDATE, Screen
from newel.terminal.renderers.styles import Styles
from newel.terminal.renderers.transcript import Section
from newel.terminal.ui.attention import Attention
from newel.terminal.ui.clipboard import PastedImages
from newel.terminal.ui.draft_actions import DraftActions
from newel.terminal.ui.hints import fit_hints
from newel.terminal.ui.history import open_history
from newel.terminal.ui.input_modes import (
    DOUBLE_PRESS_S,
    AnsweringMode,
    ChoosingMode,
    DoublePress,
    InputMode,
    ListMode,
    SearchingMode,
    WaitingMode,
    WritingMode,
    typed_text,
)
from newel.terminal.ui.key_dispatch import ALWAYS, bind, bind_moves, on_key
from newel.terminal.ui.keyboard import begin_keys, early_keys, end_keys
from newel.terminal.ui.layout import Rows, build_layout
from newel.terminal.ui.picker import Picker
from newel.terminal.ui.suspension import Suspension
from newel.terminal.ui.terminal_app import TerminalApp, TerminalOutput
from newel.terminal.ui.terminal_ui import THEMES, InputHandler
from newel.terminal.ui.theme_mode import ThemeMode
from newel.terminal.ui.typing_pause import TypingPause, read_keys
from newel.terminal.ui.vi_editing import ViEditing
from newel.text.sanitize import escape_invisible

if TYPE_CHECKING:
    from newel.agent.messages import Attachment
    from newel.terminal.ui.fullscreen_pager import FullscreenPager
    from newel.terminal.ui.user_terminal import UserTerminal

_FEW_ROWS = 8
"""In a terminal that is so low, there is no room for a status line."""

_MOVES = {"up": -1, "down": 1, "page_up": -10, "page_down": 10, "further": 1}
"""Rows that an action moves the choice in a list."""


class PromptToolkitUI:
    """Input at the bottom of the terminal ``out``, and above it the output of the renderer that ``renderer`` creates for this
    screen. ``history`` is the file that keeps what was sent, of ``folder`` first; ``editing`` is whose keys edit the
    input, ``keymap`` (None: the default one) what the others do. ``title`` and ``notify`` are for ``Attention``.
    """

    reads_keys: bool = True

    def __init__(
        self,
        out: TextIO,
        renderer: Callable[[Screen], LiveRenderer],
        *,
        styles: Styles,
        completer: Completer,
        history: Path,
        folder: str = "",
        title: str = "newel",
        notify: Sequence[str] = (),
        editing: EditingKeys = "emacs",
        keymap: Keymap | None = None,
    ) -> None:
        self._keymap = keymap or Keymap()
        self._output = TerminalOutput.from_pty(out, term=os.environ.get("TERM"))
        self._output.enable_cpr = False  # the terminal's reply to that request would arrive among the input
        self._styles = styles
        self.renderer = renderer(self)
        self._attention = Attention(self._output, title, notify, self.renderer.note)
        self._handler: InputHandler | None = None
        self._live: Sequence[str] = ()
        self._held: str | None = None
        self._pause = TypingPause(lambda: self._mode is not self._writing)
        self._pager: FullscreenPager | None = None
        self._turn = anyio.Lock()
        self._buffer = Buffer(
            history=open_history(history, folder),
            completer=completer,
            complete_while_typing=Condition(lambda: self._mode.completes),
            on_text_changed=lambda _: self._mode.on_text(),
            multiline=True,
            enable_history_search=True,
        )
        self._interrupts = DoublePress(self._buffer)
        images = PastedImages()
        self._writing = WritingMode(self._buffer, self._get_handler, images)
        self._mode: InputMode = self._writing
        self._app = self._build(editing)
        self._suspension = Suspension(self._app, self._attention, self._write)
        self._vi = ViEditing(self._app)
        self._draft = DraftActions(
            self._buffer, images, turn=self._turn, suspend=self.suspend, note=self.renderer.note
        )

    # -- user interface -----------------------------------------------------------------------------------

    def columns(self) -> int:
        return self.size()[0]

    async def run(self, handler: InputHandler) -> None:
        self._handler = handler
        self._attention.begin()
        try:
            await self._app.run_async(
                handle_sigint=False, set_exception_handler=False, pre_run=self._begin_keys
            )
        except EOFError:  # the terminal is gone
            pass
        finally:
            self._write(end_keys())
            self._attention.end()
            self._handler = None

    def _get_handler(self) -> InputHandler | None:
        return self._handler

    def leave(self) -> None:
        if self._pager is not None:
            self._pager.close()
        if self._app.is_running and self._app.future is not None and not self._app.future.done():
            self._app.exit()

    async def ask(
        self, question: str, about: str, initial: str = "", *, interrupting: bool = False, keys: str = ""
    ) -> str | None:
        question = escape_invisible(question)
        async with self._turn:
            self._leave_search()
            if about:
                self.renderer.note(escape_invisible(about), "question")
            with self.paused(), self._attention.asking(question) if interrupting else nullcontext():
                await read_keys()  # keys typed before the question are no answer: they act as usual
                self._pause.begin()
                if interrupting:
                    with self._in_mode(WaitingMode(self._buffer, self._get_handler, question)):
                        await self._pause.wait()
                mode = AnsweringMode(
                    self._buffer, self._get_handler, question, has_draft=bool(self._buffer.text), keys=keys
                )
                with self._in_mode(mode), self._instead_of_draft(initial):
                    answer = await mode.answer
                    late = "" if keys else typed_text(self._buffer).removeprefix(answer)
                self._buffer.insert_text(late)  # it came together with the answer
                if answer and answer in keys:
                    self._writing.ignore_late_enter()
                return answer

    async def pick(
        self,
        title: str,
        rows: Sequence[str],
        selected: int = 0,
        *,
        on_end: Callable[[int], None] | None = None,
    ) -> int | None:
        picker = Picker(title, rows, selected)
        return await self._choose(ChoosingMode(self._buffer, picker, self._keymap, on_end))

    async def _choose(self, mode: ChoosingMode) -> int | None:
        async with self._turn:
            self._leave_search()
            await read_keys()
            with self._instead_of_draft(""), self._in_mode(mode):
                choice = await mode.choice
                late = typed_text(self._buffer).removeprefix(mode.query)
            self._buffer.insert_text(late)  # it came together with the choice
            return choice

    async def view(self, text: str, short: str = "", /) -> None:  # noqa: ARG002 — a long one is paged
        if text.count("\n") < self.size()[1]:
            self.renderer.note(text, "diff")
        else:
            await self.page("Changes", [Section("exact", text)])

    async def edit_file(self, path: Path, /) -> None:
        await self._draft.edit_file(path)

    @contextmanager
    def _in_mode(self, mode: InputMode) -> Generator[None]:
        self._set_mode(mode)
        try:
            yield
        finally:
            self._set_mode(self._writing)

    def _set_mode(self, mode: InputMode) -> None:
        self._mode = mode
        self._vi.insert()
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

    @property
    def is_suspended(self) -> bool:
        return self._suspension.is_active

    def suspend(self) -> AbstractAsyncContextManager[None]:
        return self._suspension.begin(lambda held: self.draw(held, self._live))

    async def page(self, title: str, sections: Sequence[Section], *, at_end: bool = False) -> None:
        if self._pager is not None:
            return
        from newel.terminal.ui.fullscreen_pager import FullscreenPager, paged_sections

        self._pager = FullscreenPager(
            self._output,
            title,
            paged_sections(sections, self._styles),
            self._waiting_question,
            styles=self._styles,
            keymap=self._keymap,
            at_end=at_end,
        )
        try:
            async with self.suspend():
                await self._pager.run()
        finally:
            self._pager = None

    def _waiting_question(self) -> str:
        return "" if self._mode is self._writing else "A question is waiting"

    @asynccontextmanager
    async def hand_over(self) -> AsyncGenerator[UserTerminal]:
        from newel.terminal.ui.user_terminal import UserTerminal

        async with self.suspend():
            with UserTerminal(sys.stdin.fileno(), self._output.fileno()) as terminal:
                yield terminal

    def clear(self) -> None:
        self._app.renderer.clear()
        self._app.invalidate()

    def refresh(self) -> None:
        self._app.invalidate()

    async def pick_theme(
        self, rows: Sequence[str], theme_of: Callable[[int], Theme], selected: int
    ) -> int | None:
        before = self._styles.theme
        mode = ThemeMode(
            self._buffer,
            Picker(THEMES, rows, selected),
            self._keymap,
            styles=self._styles,
            use=lambda position: self.use_theme(theme_of(position)),
        )
        try:
            return await self._choose(mode)
        finally:
            self.use_theme(before)

    def use_theme(self, theme: Theme) -> None:
        self._styles.use(theme)
        self._app.restyle(self._styles)

    def set_working(self, is_working: bool) -> None:
        self._attention.set_working(is_working)

    def echo(self, text: str) -> None:
        self.renderer.echo(text)

    def show_answer(self, text: str) -> None:
        self.renderer.note(text, "aside")

    def restore_input(self, text: str, images: Sequence[Attachment] = ()) -> None:
        self._writing.restore(text, images)
        self._app.invalidate()

    # -- the screen ---------------------------------------------------------------------------------

    def _write(self, codes: str) -> None:
        with suppress(OSError):  # the terminal is gone: reading it tells
            self._output.write_raw(codes)
            self._output.flush()

    def size(self) -> tuple[int, int]:
        size = self._output.get_size()
        return size.columns, size.rows

    def draw(self, above: str, live: Sequence[str]) -> None:
        self._live = live
        if self._held is not None:
            self._held, above = self._held + above, ""
        app, output = self._app, self._output
        if self._suspension.is_active:
            self._suspension.hold(above)
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
        elif not self._mode.above(*self.size()):  # it hides the live part
            app.invalidate()

    @contextmanager
    def paused(self) -> Generator[None]:
        self._held = ""
        try:
            yield
        finally:
            held, self._held = self._held, None
            self.draw(held, self._live)

    # -- the parts ----------------------------------------------------------------------------------

    def _build(self, editing: EditingKeys) -> TerminalApp:
        rows = Rows(
            live=lambda: self._live,
            above=lambda: self._mode.above(*self.size()),
            prefix=self._prefix,
            hints=self._hints,
            status=self._status,
        )
        layout = build_layout(self._buffer, rows, lambda: self.size()[1])
        app = TerminalApp(layout, self._keys(), self._output, self._styles, editing)
        self._pause.watch(app)
        return app

    def _prefix(self, line: int, wrapped: int) -> AnyFormattedText:
        return "  " if line or wrapped else [("class:prompt", f"{self._mode.mark} ")]

    def _hints(self) -> AnyFormattedText:
        lines = ["Ctrl+C again leaves"] if self._interrupts.is_pending else self._mode.hints()
        if (vi := self._vi.mode) and self._mode is self._writing:
            lines = [*lines[:-1], " · ".join(filter(None, (vi, *lines[-1:])))]
        columns, _ = self.size()
        return [("class:state", "\n".join(fit_hints(line, columns - 1) for line in lines))] if lines else ""

    def _status(self) -> AnyFormattedText:
        columns, rows = self.size()
        if self._handler is None or rows <= _FEW_ROWS or not (line := self._handler.status_line(columns - 1)):
            return ""
        return [("class:state", line)]

    # -- keys ---------------------------------------------------------------------------------------

    def _begin_keys(self) -> None:
        self._write(begin_keys())
        store_typeahead(self._app.input, early_keys(self._app.input))

    def _keys(self) -> KeyBindings:
        keys, alone = KeyBindings(), Condition(self._is_escape_alone)
        is_writing = Condition(lambda: self._mode is self._writing)
        is_list = Condition(lambda: isinstance(self._mode, ListMode))
        is_question = ~is_writing & ~is_list
        is_text = is_writing & ~Condition(lambda: self._vi.is_normal)
        bind_moves(keys, self._buffer, is_question)  # an earlier message must not come into an answer
        actions = {
            "send": (self._on_enter, ~is_list),
            "new_line": (lambda: self._buffer.insert_text("\n"), ~is_list),
            "complete": (self._writing.on_tab, is_writing),
            "approval_mode": (self._writing.on_shift_tab, is_writing),
            "stop": (self._on_escape, ALWAYS),
            "interrupt": (self._on_interrupt, ALWAYS),
            "leave": (self._on_end, ALWAYS),
            "previous": (self._writing.on_up, is_writing),
            "search": (self._on_search, is_text),
            "editor": (self._on_editor, is_writing),
            "paste": (self._on_paste, is_text),
            "background": (self._writing.on_detach, is_writing & Condition(self._writing.can_detach)),
            "transcript": (self._by_handler(lambda handler: handler.expand()), ALWAYS),
            "model": (self._by_handler(lambda handler: handler.choose_model()), is_text),
            "thinking": (self._by_handler(lambda handler: handler.next_thinking_level()), is_text),
            "suspend": (self._on_suspend, ALWAYS),
        }
        bind(keys, self._keymap, "input", actions, is_escape_alone=alone)
        moves = {name: (partial(self._on_move, rows), is_list) for name, rows in _MOVES.items()}
        others = {"choose": self._on_enter, "cancel": self._on_escape, "end": self._on_end_row}
        in_list = moves | {name: (action, is_list) for name, action in others.items()}
        bind(keys, self._keymap, "list", in_list, is_escape_alone=alone)
        keys.add("enter", filter=is_question)(on_key(self._on_enter))  # answers, whatever it does elsewhere
        self._attention.bind(keys)
        return keys

    def _by_handler(self, act: Callable[[InputHandler], None]) -> Callable[[], None]:
        return lambda: None if self._handler is None else act(self._handler)

    def _is_escape_alone(self) -> bool:
        """Whether Escape acts without waiting for another key: it has something to end, and nothing has come with it, as
        with Alt+Enter.
        """
        is_idle = self._handler is None or not self._handler.busy
        is_prefix = self._mode is self._writing and is_idle and not self._vi.mode
        return not self._app.key_processor.input_queue and not (is_prefix and not self._buffer.complete_state)

    def _on_enter(self) -> None:
        self._mode.on_enter()
        self._vi.insert()

    def _on_escape(self) -> None:
        edits = self._mode is self._writing and self._buffer.text and not self._buffer.complete_state
        if not (edits and self._vi.escape()):
            self._mode.on_escape()
        self._app.create_background_task(self._redraw_later())

    def _on_move(self, rows: int) -> None:
        if isinstance(self._mode, ListMode):
            self._mode.on_move(rows)

    def _on_end_row(self) -> None:
        if isinstance(self._mode, ChoosingMode):
            self._mode.on_end_row()

    def _on_search(self) -> None:
        sent = list(dict.fromkeys(reversed(self._buffer.history.get_strings())))
        self._set_mode(
            SearchingMode(self._buffer, sent, self._keymap, partial(self._set_mode, self._writing))
        )

    def _leave_search(self) -> None:
        """Something else needs the input."""
        if isinstance(self._mode, SearchingMode):
            self._mode.on_escape()

    def _on_editor(self) -> None:
        self._app.create_background_task(self._draft.edit())

    def _on_paste(self) -> None:
        self._app.create_background_task(self._draft.paste())

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

    def _on_suspend(self) -> None:
        self._app.create_background_task(self._to_background())

    async def _to_background(self) -> None:
        async with self.suspend():
            os.kill(0, signal.SIGTSTP)
