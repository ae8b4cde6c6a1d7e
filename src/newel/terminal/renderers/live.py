"""Renderers for a terminal: finished text is printed once, and unfinished parts are redrawn below it.

What is printed goes into the terminal's own scroll-back and is never touched again. The live part ends with a line of state.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Self

from newel.agent.events import AgentEvent, MessageUpdate, ToolExecutionUpdate
from newel.agent.messages import AssistantMessage
from newel.terminal.renderers.base import Renderer
from newel.terminal.renderers.screen import Screen
from newel.text.format import format_elapsed, one_line, spinner
from newel.text.sanitize import SanitizedStream

SLICE_S: Final = 0.002
"""Seconds of painting after which keys are looked for."""

_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(?P<marks>`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_CONTAINER = re.compile(r" {0,3}(?:[-*+]\s|[-*+]$|\d{1,9}[.)]\s|\d{1,9}[.)]$|>)")
"""The first line of a list's item or a quotation."""
_DELIMITER = re.compile(r" {0,3}(?=.*\|)(?=.*-)[-:|\s]+")
"""The line between the header and the rows of a table."""


class MarkdownBlocks:
    """Cuts a growing Markdown text into blocks that later text cannot change.

    A paragraph is finished by an empty line, a code block by its closing fence, a list by the first line that cannot belong
    to it. In doubt a block stays open, so that a finished one is final.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial: list[str] = []
        self._fence = ""
        self._opening = ""
        self._after_blank = False
        self._holds_others = False

    @property
    def tail(self) -> str:
        """The block that may still change."""
        return "".join(self._lines) + "".join(self._partial)

    def preview(self, limit: int, rows: int) -> str:
        """The last ``rows`` lines of the tail, at most ``limit`` characters: code still as code, a table with its header, a list from the
        beginning of an item on.
        """
        start = max(len(self._lines) - rows, 0)
        while start and self._holds_others and not _CONTAINER.match(self._lines[start]):
            start -= 1
        whole = "".join(self._lines[start:]) + "".join(self._partial)
        end = whole[-limit:]
        if end == whole and (self._holds_others or not start):
            return whole
        if self._fence:
            return f"{self._opening}\n{end if end == whole else end.partition(chr(10))[2] or end}"
        return self._header(start) + end

    def _header(self, start: int) -> str:
        """The header of a table whose rows begin before the line ``start``."""
        is_table = start >= 2 and _DELIMITER.fullmatch(self._lines[1])
        return "".join(self._lines[:2]) if is_table else ""

    def feed(self, text: str) -> list[str]:
        """Add to the text; return the blocks that this finished, as written."""
        *ends, rest = text.split("\n")
        finished: list[str] = []
        for end in ends:
            finished += self._add_line("".join(self._partial) + end)
            self._partial.clear()
        self._partial.append(rest)
        return finished

    def finish(self) -> list[str]:
        """End the text: return the rest of it and reset."""
        rest = self.tail
        self.__init__()
        return [rest] if rest.strip() else []

    def _add_line(self, line: str) -> list[str]:
        finished: list[str] = []
        if self._fence:
            self._add(line)
            if self._closes(line):
                self._fence = ""
                finished += self._cut_block(unless_holding=True)
            return finished
        if not line.strip():
            self._add(line)
            self._after_blank = True
            return [] if self._holds_others or self._is_indented() else self._cut_block()
        fence = _FENCE.match(line)
        if (self._after_blank and not self._continues(line)) or (fence and not self._after_blank):
            finished += self._cut_block(unless_holding=not self._after_blank)
        self._after_blank = False
        self._holds_others = self._holds_others or bool(_CONTAINER.match(line))
        self._add(line)
        if fence:
            self._fence, self._opening = fence["marks"], line.strip()
        elif _HEADING.match(line):
            finished += self._cut_block(unless_holding=True)
        return finished

    def _add(self, line: str) -> None:
        self._lines.append(line + "\n")

    def _cut_block(self, *, unless_holding: bool = False) -> list[str]:
        if unless_holding and self._holds_others:
            return []
        block, self._lines = "".join(self._lines), []
        self._after_blank = self._holds_others = False
        return [block] if block.strip() else []

    def _continues(self, line: str) -> bool:
        """Whether a line after an empty one may belong to the open block."""
        if line[0] in " \t":
            return True
        return self._holds_others and (bool(_CONTAINER.match(line)) or not self._begins_block(line))

    def _is_indented(self) -> bool:
        """Whether the open block may be indented code, which an empty line does not end."""
        return any(line[0] in " \t" for line in self._lines[:-1])

    def _begins_block(self, line: str) -> bool:
        """Whether the line starts a new block. Rules by line cannot decide that inside containers, so this runs the parser."""
        from markdown_it import MarkdownIt

        tokens = MarkdownIt().enable("table").parse("".join(self._lines) + line)
        return any(
            token.map == [len(self._lines), len(self._lines) + 1] and not token.level for token in tokens
        )

    def _closes(self, line: str) -> bool:
        marks = line.strip()
        return len(marks) >= len(self._fence) and not marks.strip(self._fence[0])


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


class UnprintedLines:
    """Painted lines that are to be printed, in order. Iterators among them paint when they are asked, so that a long text can be painted
    with pauses.
    """

    def __init__(self) -> None:
        self._painted: list[str] = []
        self._unpainted: deque[Iterator[str]] = deque()

    def __bool__(self) -> bool:
        return bool(self._painted or self._unpainted)

    def __iadd__(self, lines: Iterable[str]) -> Self:
        self._unpainted.append(iter(lines))
        return self

    def append(self, line: str) -> None:
        self._unpainted.append(iter((line,)))

    @property
    def is_painted(self) -> bool:
        return not self._unpainted

    def paint(self, seconds: float = math.inf) -> None:
        """Paint for about this time, or all."""
        until = time.monotonic() + seconds
        while self._unpainted:
            for line in self._unpainted[0]:
                self._painted.append(line)
                if time.monotonic() > until:
                    return
            self._unpainted.popleft()

    def take(self) -> list[str]:
        """Take all painted lines out."""
        lines, self._painted = self._painted, []
        return lines


SUMMARIZING: Final = "summarizing the conversation"


class LiveRenderer(Renderer):
    """Draws on ``screen``: subclasses add lines to ``_above`` to print them, and return the live part from ``_live``.

    What an event prints is drawn at once, but for what a model writes: it comes by the hundred. That and the live part are drawn with the
    next tick.

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
        self._above: UnprintedLines = UnprintedLines()
        self._activity = self._activity_before = ""
        self._activity_since = 0.0
        self._frame = 0
        self._is_live = False

    def handle(self, event: AgentEvent, /) -> None:
        super().handle(event)
        if self._above and not (self.animated and isinstance(event, MessageUpdate | ToolExecutionUpdate)):
            self._draw()

    def tick(self) -> bool:
        if not self._above.is_painted:
            self._above.paint(SLICE_S)
            return False
        self._frame += 1
        if self._activity or self._above or self._is_live:
            self._draw()
        return True

    def show_stopping(self) -> None:
        """Shown with the next tick: most of what runs has been stopped by then."""
        if self._activity:
            self.set_activity("stopping")

    def paused(self) -> AbstractContextManager[None]:
        return self.screen.paused()

    def close(self) -> None:
        self._activity = ""
        self._draw()

    def echo(self, text: str) -> None:
        """Show input that is no message to the model."""
        raise NotImplementedError

    def reset(self) -> None:
        """The screen was cleared."""

    def set_activity(self, activity: str) -> None:
        """Set the current activity, an inert text; empty when idle."""
        if activity != self._activity:
            self._activity, self._activity_since = activity, self._clock()

    def show_progress(self, activity: str) -> None:
        if activity and self._activity:
            self._activity = activity  # its time goes on
        else:
            self.set_activity(activity)
        if not activity:
            self._draw()

    def show_summarizing(self, is_writing: bool) -> None:
        """A model writes a summary of the conversation, or has written it."""
        if is_writing:
            self._activity_before = self._activity
            self.set_activity(SUMMARIZING)
        elif self._activity == SUMMARIZING or not self._activity_before:
            # of /compact, no run's end clears it
            self.set_activity(self._activity_before)
            self._draw()

    def on_answer_start(self, message: AssistantMessage) -> None:
        self.set_activity(f"waiting for {one_line(message.model, 40) or 'the model'}")

    def _live(self) -> list[str]:
        raise NotImplementedError

    def _draw(self) -> None:
        self._above.paint()
        above = "".join(f"{line}\n" for line in self._above.take())
        self._is_live = bool(self._activity) and self.animated
        self.screen.draw(above, self._live() if self._is_live else [])

    def _state(self) -> tuple[str, str, str]:
        """The line of state: a spinner, the activity, and how long it has lasted with how to stop it."""
        elapsed = format_elapsed(self._clock() - self._activity_since)
        return f"{spinner(self._frame)} ", self._activity, f"{elapsed} · {self._hint}"
