"""The list of themes, with the screen in the one that is selected."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, to_formatted_text

from newel.config.keymap import Keymap
from newel.terminal.renderers.styles import Styles
from newel.terminal.renderers.theme_sample import paint_sample
from newel.terminal.ui.input_modes import ChoosingMode
from newel.terminal.ui.picker import Picker

LEAST_ROWS = 4
"""Of a list above a sample."""


class ThemeMode(ChoosingMode):
    """``use`` puts the theme at a position on the screen, for which ``styles`` paints."""

    def __init__(
        self, buffer: Buffer, picker: Picker, keymap: Keymap, *, styles: Styles, use: Callable[[int], None]
    ) -> None:
        super().__init__(buffer, picker, keymap)
        self._styles = styles
        self._use = use
        self._shown: int | None = None

    def above(self, columns: int, rows: int) -> AnyFormattedText:
        selected = self._picker.choice
        if selected is not None and selected != self._shown:
            self._shown = selected
            self._use(selected)
        sample = paint_sample(self._styles, columns - 1)
        height = max(rows * 2 // 3, LEAST_ROWS)
        if height - len(sample) - 1 < LEAST_ROWS:
            return self._picker.fragments(columns, height)
        listed = self._picker.fragments(columns, height - len(sample) - 1)
        return [*listed, ("", "\n\n"), *to_formatted_text(ANSI("\n".join(sample)))]
