"""Renderers for a terminal: finished text is printed once, and unfinished parts are redrawn below it.

What is printed goes into the terminal's own scroll-back and is never touched again. The live part ends with a line of state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from newel.agent.events import AgentEvent, MessageUpdate, ToolExecutionUpdate
from newel.agent.messages import AssistantMessage
from newel.terminal.renderers.base import Renderer
from newel.terminal.renderers.markdown_blocks import MarkdownBlocks
from newel.terminal.renderers.screen import Screen
from newel.text.format import format_elapsed, one_line, spinner
from newel.text.sanitize import SanitizedStream


class MarkdownStream:
    """Markdown that arrives in pieces: made inert, and cut into blocks that later pieces cannot change."""

    def __init__(self) -> None:
        self.is_printed = False
        """Whether a block of it has been printed; set by the renderer."""
        self._text = SanitizedStream()
        self._blocks = MarkdownBlocks()
        self.preview = self._blocks.preview

    def feed(self, piece: str) -> list[str]:
        return self._blocks.feed(self._text.feed(piece))

    def finish(self) -> list[str]:
        return self._blocks.feed(self._text.finish()) + self._blocks.finish()


class LiveRenderer(Renderer):
    """Draws on ``screen``: subclasses append lines to ``_above`` to print them, and return the live part from ``_live``.

    ``hint`` says how to stop; ``clock`` counts seconds.
    """

    animated = True

    def __init__(
        self, screen: Screen, *, hint: str = "Esc stops", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.screen = screen
        self._hint = hint
        self._clock = clock
        self._above: list[str] = []
        self._activity = ""
        self._activity_since = 0.0
        self._frame = 0

    def handle(self, event: AgentEvent, /) -> None:
        super().handle(event)
        # Deltas come by the hundred: what they change is drawn with the next tick.
        if self._above or not isinstance(event, MessageUpdate | ToolExecutionUpdate):
            self._draw()

    def tick(self) -> None:
        self._frame += 1
        if self._activity:
            self._draw()

    def paused(self) -> AbstractContextManager[None]:
        return self.screen.paused()

    def close(self) -> None:
        self._activity = ""
        self._draw()

    def echo(self, text: str) -> None:
        """Show what the user sent that is no message to the model."""
        raise NotImplementedError

    def reset(self) -> None:
        """The screen was cleared."""

    def set_activity(self, activity: str) -> None:
        """Name what is going on, in inert text; empty when idle."""
        if activity != self._activity:
            self._activity, self._activity_since = activity, self._clock()

    def on_answer_start(self, message: AssistantMessage) -> None:
        self.set_activity(f"waiting for {one_line(message.model, 40) or 'the model'}")

    def _live(self) -> list[str]:
        raise NotImplementedError

    def _draw(self) -> None:
        above = "".join(f"{line}\n" for line in self._above)
        self._above.clear()
        self.screen.draw(above, self._live() if self._activity and self.animated else [])

    def _state(self) -> tuple[str, str, str]:
        """The line of state: a spinner, the activity, and how long it has lasted with how to stop it."""
        elapsed = format_elapsed(self._clock() - self._activity_since)
        return f"{spinner(self._frame)} ", self._activity, f"{elapsed} · {self._hint}"
