"""What the keys do: while a message is written, while a question is answered, and while a row is chosen from a list."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import AnyFormattedText

from newel.agent.messages import Attachment
from newel.config.keymap import Keymap
from newel.terminal.ui.clipboard import PastedImages
from newel.terminal.ui.hints import wrap_hints
from newel.terminal.ui.history import search_history
from newel.terminal.ui.line_reader import ENTER, QUIET_S
from newel.terminal.ui.picker import Picker
from newel.terminal.ui.terminal_ui import InputHandler
from newel.text.format import PROMPT, one_line

DOUBLE_PRESS_S: Final = 2.0
"""Time in which a second Ctrl+C leaves, and a second Escape goes back."""
MARKED: Final = "class:picker.selected"
"""The style of the row in a menu that Enter takes."""

AGAIN: Final = "Esc again goes back to an earlier prompt"


def typed_text(buffer: Buffer) -> str:
    """Bytes that are not UTF-8 arrive as lone surrogates, which nothing else accepts."""
    return buffer.text.encode(errors="surrogateescape").decode(errors="replace")


def is_command_name(text: str) -> bool:
    """Whether a text is the beginning of a command's name, perhaps the whole of it, and nothing more."""
    return re.fullmatch(r"/[\w.:-]+", text) is not None


class InputMode(Protocol):
    """``mark`` stands before the input; ``completes``: what is typed is completed."""

    mark: str
    completes: bool

    def above(self, columns: int, rows: int) -> AnyFormattedText:
        """What is shown between the output and the input."""
        ...

    def hints(self) -> list[str]:
        """The lines below the input."""
        ...

    def on_text(self) -> None:
        """The input has changed."""
        ...

    def on_enter(self) -> None: ...

    def on_escape(self) -> None: ...

    def on_interrupt(self) -> bool:
        """Ctrl+C; False if another one would leave."""
        ...


class WritingMode:
    """A message to the agent is written. ``handler`` is None until the conversation begins."""

    mark = PROMPT
    completes = True

    def __init__(
        self, buffer: Buffer, handler: Callable[[], InputHandler | None], images: PastedImages | None = None
    ) -> None:
        self._buffer = buffer
        self._handler = handler
        self._images = images or PastedImages()
        self._escapes = DoublePress(buffer)
        self._answered = float("-inf")
        self._text_then = ""

    def above(self, columns: int, rows: int) -> AnyFormattedText:  # noqa: ARG002 — nothing is shown
        return ""

    def hints(self) -> list[str]:
        handler = self._handler()
        if self._escapes.is_pending and not self._buffer.text and handler is not None and handler.can_rewind:
            return [AGAIN]
        return handler.state_lines(self._buffer.text) if handler else []

    def on_text(self) -> None:
        """Nothing depends on it."""

    def restore(self, text: str, images: Sequence[Attachment] = ()) -> None:
        """Put a text above the draft, with the images that were pasted into it."""
        for image in images:
            self._images.add(image)
        self._buffer.text = f"{text}\n{self._buffer.text}" if self._buffer.text else text
        self._buffer.cursor_position = len(self._buffer.text)
        self._text_then = self._buffer.text

    def ignore_late_enter(self) -> None:
        """A key has answered a question. Who presses Enter behind it, as in a line, must not send the draft with it."""
        self._answered, self._text_then = time.monotonic(), self._buffer.text

    def on_enter(self) -> None:
        if time.monotonic() - self._answered < QUIET_S and self._buffer.text == self._text_then:
            self._answered = float("-inf")
            return
        document = self._buffer.document
        state = self._buffer.complete_state
        if document.text_before_cursor.endswith("\\") and document.is_cursor_at_the_end_of_line:
            self._buffer.delete_before_cursor()
            self._buffer.insert_text("\n")
        elif state and state.current_completion and not is_command_name(document.text):
            self._buffer.complete_state = None
        elif state and not is_command_name(document.text) and (name := _begun_name(state)):
            self._buffer.apply_completion(name)
        elif not is_command_name(document.text) or self._take_command():
            self._send()

    def _take_command(self) -> bool:
        """Complete the name of a command to the first one that matches; return whether it can be sent: it was typed in full, or needs no
        arguments and begins with what was typed.
        """
        buffer, typed = self._buffer, self._buffer.text
        found = buffer.completer.get_completions(Document(typed), CompleteEvent()) if self.completes else ()
        names = [completion.text for completion in found]
        buffer.complete_state = None
        if not names or any(name.rstrip() == typed for name in names):
            return True
        buffer.document = Document(names[0])
        return buffer.text.startswith(typed) and not buffer.text.endswith(" ")

    def on_tab(self) -> None:
        buffer, handler = self._buffer, self._handler()
        word = buffer.document.text_before_cursor
        completing = word.startswith("/") or "@" in word.rpartition(" ")[2]
        event = CompleteEvent(completion_requested=True)
        commands = list(buffer.completer.get_completions(buffer.document, event))
        state = buffer.complete_state
        if len(commands) == 1:
            buffer.apply_completion(commands[0])
        elif state and len(state.completions) == 1:  # nothing to choose: Enter sends
            buffer.apply_completion(state.completions[0])
        elif state:
            buffer.complete_next()
        elif not completing and self.completes and handler is not None and handler.busy:
            self._send(later=True)
        else:
            buffer.start_completion(select_first=True)

    def on_shift_tab(self) -> None:
        handler = self._handler()
        if self._buffer.complete_state:
            self._buffer.complete_previous()
        elif handler is not None:
            handler.next_approval_mode()

    def on_escape(self) -> None:
        handler = self._handler()
        if self._buffer.complete_state:
            self._buffer.cancel_completion()
        elif handler is not None and not handler.stop():
            self._rewind(handler)

    def on_up(self) -> None:
        """Take back the message that was queued last, or move in the text and in what was sent earlier that begins with it."""
        handler = self._handler()
        if not self._buffer.text and handler is not None and (queued := handler.take_back()) is not None:
            self._buffer.document = Document(queued)
        else:
            self._buffer.auto_up()

    def can_detach(self) -> bool:
        handler = self._handler()
        return handler is not None and handler.can_detach

    def on_detach(self) -> None:
        if handler := self._handler():
            handler.detach()

    def on_interrupt(self) -> bool:
        handler = self._handler()
        if handler is not None and handler.stop():
            return False
        if self._buffer.text:
            self._buffer.append_to_history()  # a draft is not lost
            self._buffer.reset()
            return True
        return False

    def _rewind(self, handler: InputHandler) -> None:
        """The second Escape in a row goes back, if nothing is being written."""
        if self._buffer.text or not handler.can_rewind:
            return
        if self._escapes.is_pending:
            self._escapes.cancel()
            handler.rewind()
        else:
            self._escapes.press()

    def _send(self, *, later: bool = False) -> None:
        text, handler = typed_text(self._buffer), self._handler()
        if text.strip() and handler is not None:
            self._buffer.append_to_history()
            self._buffer.reset()
            handler.submit(text, "later" if later else "now", self._images.of(text))


class WaitingMode(WritingMode):
    """A question is shown, and waits for a pause: the keys may be meant for the draft, so Enter does nothing."""

    completes = False

    def __init__(self, buffer: Buffer, handler: Callable[[], InputHandler | None], question: str) -> None:
        super().__init__(buffer, handler)
        self._question = question

    def above(self, columns: int, rows: int) -> AnyFormattedText:  # noqa: ARG002 — a question is short
        return [("class:question", wrap_hints(self._question, columns))]

    def hints(self) -> list[str]:
        return ["Pause typing to answer · Esc stops"]

    def on_enter(self) -> None:
        """No answer yet."""


class AnsweringMode(WaitingMode):
    """A question is answered by a line, or by one of ``keys`` at once; the draft comes back afterwards."""

    mark = "?"

    def __init__(
        self,
        buffer: Buffer,
        handler: Callable[[], InputHandler | None],
        question: str,
        *,
        has_draft: bool,
        keys: str = "",
    ) -> None:
        super().__init__(buffer, handler, question)
        self._has_draft = has_draft
        self._keys = keys
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hints(self) -> list[str]:
        how = "a key answers" if self._keys and not self._buffer.text else "Enter answers"
        return [f"{how} · Esc stops{' · your draft comes back' if self._has_draft else ''}"]

    def on_text(self) -> None:
        if len(self._buffer.text) == 1 and self._buffer.text in self._keys:
            self._answer()

    def on_enter(self) -> None:
        if self._buffer.text or not self._keys or ENTER in self._keys:
            self._answer()

    def _answer(self) -> None:
        if not self.answer.done():  # several keys can arrive before the reader of the answer runs
            self.answer.set_result(typed_text(self._buffer))


class ListMode:
    """A row is chosen from a list, which the input filters."""

    mark = PROMPT
    completes = False

    def __init__(self, buffer: Buffer, picker: Picker, keymap: Keymap) -> None:
        self._buffer = buffer
        self._picker = picker
        self._keymap = keymap

    def above(self, columns: int, rows: int) -> AnyFormattedText:
        return self._picker.fragments(columns, max(rows * 2 // 3, 4))

    def hints(self) -> list[str]:
        up, down = (self._keymap.label("list", action) for action in ("up", "down"))
        moves = (
            "↑↓ moves · " if (up, down) == ("Up", "Down") else f"{up} {down} moves · " if up or down else ""
        )
        return [f"{moves}Enter chooses · Esc cancels · letters filter"]

    def on_text(self) -> None:
        self._picker.filter(typed_text(self._buffer))

    def on_enter(self) -> None:
        if self._picker.choice is not None:
            self.on_choice(self._picker.choice)

    def on_escape(self) -> None:
        self.on_choice(None)

    def on_interrupt(self) -> bool:
        self.on_choice(None)
        return True

    def on_move(self, rows: int) -> None:
        """Select another row."""
        self._picker.move(rows)

    def on_choice(self, choice: int | None) -> None:
        """The position of a row was chosen; None for none."""
        raise NotImplementedError


class ChoosingMode(ListMode):
    """``choice`` is the position that a command waits for, ``query`` the filter with which it was chosen. ``on_end`` is for a row that the
    user wants to end.
    """

    def __init__(
        self, buffer: Buffer, picker: Picker, keymap: Keymap, on_end: Callable[[int], None] | None = None
    ) -> None:
        super().__init__(buffer, picker, keymap)
        self._on_end = on_end
        self.choice: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.query = ""

    def hints(self) -> list[str]:
        if self._on_end is None:
            return super().hints()
        ends = self._keymap.label("list", "end", "{} ends it · ")
        return [f"Enter shows its output · {ends}Esc returns · letters filter"]

    def on_end_row(self) -> None:
        if self._on_end is not None and (chosen := self._picker.choice) is not None:
            self._on_end(chosen)
            self.on_choice(None)

    def on_choice(self, choice: int | None) -> None:
        if not self.choice.done():
            self.query = typed_text(self._buffer)
            self.choice.set_result(choice)


class SearchingMode(ListMode):
    """A text that was sent earlier is looked for. The draft comes back unless one is taken; ``leave`` ends the mode."""

    def __init__(
        self, buffer: Buffer, texts: Sequence[str], keymap: Keymap, leave: Callable[[], None]
    ) -> None:
        rows = [one_line(text, 200) for text in texts]
        title = "History: what was sent, this folder's first"
        super().__init__(buffer, Picker(title, rows, search=partial(search_history, texts)), keymap)
        self._texts = texts
        self._leave = leave
        self._draft = buffer.document
        buffer.reset()

    def hints(self) -> list[str]:
        further = self._keymap.label("list", "further", "{} goes further · ")
        return [f"{further}Enter takes · Esc returns"]

    def on_choice(self, choice: int | None) -> None:
        self._leave()
        self._buffer.reset(self._draft)
        if choice is not None:
            self._buffer.save_to_undo_stack()
            self._buffer.document = Document(self._texts[choice])


def _begun_name(state: CompletionState) -> Completion | None:
    """The first row of the menu, if it is marked as that which Enter takes, and no row is what has been typed already."""
    before = state.original_document.text_before_cursor
    is_whole = any(each.text.rstrip(" /") == before[each.start_position :] for each in state.completions)
    first = next(iter(state.completions), None)
    return first if first and first.style == MARKED and not is_whole else None


class DoublePress:
    """Whether a key was pressed twice within ``DOUBLE_PRESS_S``, and nothing was typed in between."""

    def __init__(self, buffer: Buffer) -> None:
        self._pressed = float("-inf")
        buffer.on_text_changed += self._on_text

    @property
    def is_pending(self) -> bool:
        """Another press would be the second one."""
        return time.monotonic() - self._pressed < DOUBLE_PRESS_S

    def press(self) -> None:
        self._pressed = time.monotonic()

    def cancel(self) -> None:
        """Another press would be a first one."""
        self._pressed = float("-inf")

    def _on_text(self, _: Buffer) -> None:
        self.cancel()
