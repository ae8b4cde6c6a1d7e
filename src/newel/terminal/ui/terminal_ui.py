"""The user interface of a terminal, and the handler of its input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Literal, Protocol

from newel.agent.messages import Attachment
from newel.config.themes import Theme
from newel.terminal.renderers.base import Renderer
from newel.terminal.renderers.transcript import Section
from newel.workspace.port import CommandTerminal

THEMES: Final = "Theme"
"""The title of their list."""

When = Literal["now", "later"]
"""A message to a running prompt reaches the model after the current tools, or at the end of the run."""


class ViewText(Protocol):
    async def __call__(self, text: str, short: str = "", /) -> None:
        """Show a text with diffs in it, in the pager if it is longer than the screen. Where there is no pager, ``short`` is shown
        instead, if it is not empty.
        """
        ...


class EditFile(Protocol):
    async def __call__(self, path: Path, /) -> None:
        """Open a file in the user's editor, and wait for its end. Raises ``UsageError`` if there is no editor, or if it fails."""
        ...


class InputHandler(Protocol):
    """Handles the input of a user interface."""

    def submit(self, text: str, when: When = "now", images: Sequence[Attachment] = ()) -> None:
        """The user sent this text, with these pasted images."""
        ...

    def take_back(self) -> str | None:
        """Remove the message that was queued last, and return it as it was typed; None if none is queued."""
        ...

    @property
    def busy(self) -> bool: ...

    def expand(self) -> None:
        """Show everything that was abbreviated."""
        ...

    def next_approval_mode(self) -> None:
        """Switch to the next approval mode, where there are any."""
        ...

    @property
    def can_detach(self) -> bool:
        """Whether a command runs that can go to the background."""
        ...

    def detach(self) -> None:
        """Let the command that runs go on in the background."""
        ...

    def next_thinking_level(self) -> None:
        """Switch to the next level of the model's reasoning, where there are any."""
        ...

    def choose_model(self) -> None:
        """Offer the models, where there is a choice."""
        ...

    def stop(self) -> bool:
        """Stop what runs; False if nothing does."""
        ...

    @property
    def can_rewind(self) -> bool:
        """Whether there is an earlier prompt to go back to."""
        ...

    def rewind(self) -> None:
        """Offer to go back to an earlier prompt."""
        ...

    async def wait_idle(self) -> None:
        """Returns when nothing is running or queued."""
        ...

    def state_lines(self, typed: str = "") -> list[str]:
        """Lines for beside the input: queued messages, and the keys that work now. ``typed`` is the message that is being written."""
        ...

    def status_line(self, columns: int) -> str:
        """What is always shown below the input; empty for nothing."""
        ...


class CommandUI(Protocol):
    """What the slash commands of a conversation need of a user interface. ``reads_keys``: the keys of the keymap act there."""

    reads_keys: bool

    @property
    def renderer(self) -> Renderer: ...

    def columns(self) -> int:
        """The current width of the screen."""
        ...

    def leave(self) -> None:
        """End the conversation."""
        ...

    async def ask(
        self, question: str, about: str, initial: str = "", *, interrupting: bool = False, keys: str = ""
    ) -> str | None:
        """An ``AskLine``. ``initial`` is the line to edit, where lines can be edited. Where keys are read one by one, one of ``keys``
        answers at once, and an empty line is no answer unless ``ENTER`` is one of them.
        """
        ...

    async def pick(
        self,
        title: str,
        rows: Sequence[str],
        selected: int = 0,
        *,
        on_end: Callable[[int], None] | None = None,
    ) -> int | None:
        """The position of the row that the user chose; None for none. ``selected`` is the one that is chosen at first. Where keys are read
        one by one, Ctrl+X chooses none, and calls ``on_end`` with the position of the row.
        """
        ...

    async def page(self, title: str, sections: Sequence[Section], *, at_end: bool = False) -> None:
        """Show a long text on a screen of its own, until the user closes it; ``at_end`` shows its end first."""
        ...

    @property
    def view(self) -> ViewText | None:
        """Shows a long text; None where only yes or no can be answered."""
        ...

    @property
    def edit_file(self) -> EditFile | None:
        """Opens the user's editor; None where none can be shown."""
        ...

    def restore_input(self, text: str, images: Sequence[Attachment] = ()) -> None:
        """Put a text back into the input, with the images that were pasted into it."""
        ...

    def use_theme(self, theme: Theme) -> None:
        """Show what follows in the styles of this theme, where there are any."""
        ...

    async def pick_theme(
        self, rows: Sequence[str], theme_of: Callable[[int], Theme], selected: int
    ) -> int | None:
        """As ``pick``. Where themes are shown, the screen has that of the selected row, with a sample, until one is chosen."""
        ...


class TerminalUI(CommandUI, Protocol):
    """A terminal with a user. ``leave`` ends ``run``."""

    @property
    def is_suspended(self) -> bool:
        """Whether another program has the terminal, and Ctrl+C is for that one."""
        ...

    async def run(self, handler: InputHandler) -> None:
        """Pass input to ``handler`` until the user leaves."""
        ...

    def show_answer(self, text: str) -> None:
        """Show an answer that would disappear with its question."""
        ...

    def suspend(self) -> AbstractAsyncContextManager[None]:
        """Inside, another program has the terminal, and output is held back."""
        ...

    def hand_over(self) -> AbstractAsyncContextManager[CommandTerminal | None]:
        """Inside, the terminal is a command's; None if this interface has none that a program could draw on."""
        ...

    def clear(self) -> None:
        """Clear the screen, if it can be cleared."""
        ...

    def refresh(self) -> None:
        """The handler's ``state_lines`` have changed."""
        ...

    def set_working(self, is_working: bool) -> None:
        """Work for the user has begun, or has ended."""
        ...

    def echo(self, text: str) -> None:
        """Show a command that was sent, if the interface clears what was typed."""
        ...
