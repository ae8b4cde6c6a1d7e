"""What a panel shows while it still comes: whole parts are printed for good, the rest stays live."""

from __future__ import annotations

from typing import Final

from newel.terminal.jexida.panel_style import PanelStyle
from newel.terminal.renderers.markdown_blocks import MarkdownBlocks
from newel.text.sanitize import SanitizedStream, sanitize

LIVE: Final = 4_000
"""Characters of an unfinished part that are drawn."""
LONGEST: Final = 10_000
"""Characters of an unfinished line of output that are kept back."""


class StreamingAnswer:
    """An answer in Markdown; ``said`` is all of it as it came."""

    def __init__(self, dress: PanelStyle) -> None:
        self.said = ""
        self._dress = dress
        self._stream = SanitizedStream()
        self._blocks = MarkdownBlocks()
        self._printed = False

    def feed(self, piece: str, width: int) -> list[str]:
        self.said += piece
        return self._paint(self._blocks.feed(self._stream.feed(piece)), width)

    def finish(self, width: int) -> list[str]:
        return self._paint(self._blocks.feed(self._stream.finish()) + self._blocks.finish(), width)

    def growing(self, width: int) -> list[str]:
        """The last block as far as it has been written."""
        text = self._blocks.preview(LIVE)
        return self._dress.prose(text, width) if text.strip() else []

    def _paint(self, blocks: list[str], width: int) -> list[str]:
        lines: list[str] = []
        for block in blocks:
            if self._printed:
                lines += self._dress.lines("", width)
            lines += self._dress.prose(block, width)
            self._printed = True
        return lines


class StreamingOutput:
    """What a command prints, in whole lines."""

    def __init__(self) -> None:
        self.has_printed = False
        self._stream = SanitizedStream()
        self._rest = ""
        self._last = ""

    def feed(self, piece: str) -> str | None:
        """The lines that are whole by now, without the last line's end; None if there is none."""
        text = self._rest + self._stream.feed(piece)
        self.has_printed = self.has_printed or bool(text.strip())
        whole, end, self._rest = text.rpartition("\n")
        if not end and len(self._rest) > LONGEST:
            whole, end, self._rest = self._rest, "\n", ""
        self._last = (self._last + whole + end)[-LIVE:]
        return whole if end else None

    def finish(self) -> str:
        rest, self._rest = self._rest + self._stream.finish(), ""
        self._last += rest
        return rest.rstrip("\n")

    def ends_with(self, text: str) -> bool:
        """Whether these were the last words, as far as that is known: of what is longer it is not."""
        return len(text) < LIVE and self._last.rstrip().endswith(sanitize(text).rstrip())

    def growing(self) -> str:
        """The line that is not whole yet, its end."""
        return self._rest[-LIVE // 8 :]
