"""Where a person sits: types, reads, and is asked."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from newel.terminal.renderers.base import Renderer

When = Literal["now", "later"]
"""A message to a running prompt reaches the model after the current tools, or when it would be done."""


class InputHandler(Protocol):
    """What a desk passes on of the person at it."""

    def submit(self, text: str, when: When = "now") -> None:
        """Something was typed and sent."""
        ...

    @property
    def busy(self) -> bool: ...

    def expand(self) -> None:
        """Show in full what was shown in short last."""
        ...

    def stop(self) -> bool:
        """Stop what runs; False if nothing does."""
        ...

    async def wait_idle(self) -> None:
        """Returns when nothing runs and nothing waits."""
        ...

    def state_lines(self) -> list[str]:
        """Lines about what waits and what can be done now, for beside the input."""
        ...


class TerminalUI(Protocol):
    """A terminal with somebody at it."""

    @property
    def renderer(self) -> Renderer: ...

    def columns(self) -> int:
        """How wide the screen is, now."""
        ...

    async def run(self, handler: InputHandler) -> None:
        """Serve the person until they leave."""
        ...

    def leave(self) -> None:
        """End ``run``."""
        ...

    async def ask(
        self, question: str, about: str, initial: str = "", *, interrupting: bool = False
    ) -> str | None:
        """An ``AskLine``. ``initial`` is a line to begin with, where lines can be edited."""
        ...

    def suspend(self) -> AbstractAsyncContextManager[None]:
        """Inside, the terminal belongs to another program; what is to be shown waits."""
        ...

    def clear(self) -> None:
        """Empty the screen, where it can be."""
        ...

    def refresh(self) -> None:
        """What the person's ``state`` says has changed."""
        ...

    def echo(self, text: str) -> None:
        """Keep a command that was sent in view, where what is typed vanishes."""
        ...

    def restore_input(self, text: str) -> None:
        """Offer a text to be edited and sent again."""
        ...
