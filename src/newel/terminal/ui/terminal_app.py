"""The application of prompt_toolkit at the bottom of the terminal: its colours, its keys, and the time that it waits for them."""

from __future__ import annotations

import os
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from newel.config.terminal import EditingKeys
from newel.terminal.ui.keyboard import ESCAPE_S, KeyParser

PREFIX_S: Final = 0.15
"""Time after Escape in which another key makes both of them one: Escape and Enter are Alt+Enter."""

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


class TerminalApp(Application[None]):
    def __init__(self, layout: Layout, keys: KeyBindings, output: Output, editing: EditingKeys) -> None:
        super().__init__(
            layout,
            key_bindings=keys,
            style=STYLE,
            output=output,
            color_depth=ColorDepth.DEPTH_1_BIT if "NO_COLOR" in os.environ else None,
            erase_when_done=True,
            max_render_postpone_time=None,  # a key is shown at once, whatever else there is to do
            editing_mode=EditingMode.VI if editing == "vi" else EditingMode.EMACS,
        )
        if isinstance(self.input, Vt100Input):
            self.input.vt100_parser = KeyParser(self.input.vt100_parser.feed_key_callback)
        self.ttimeoutlen, self.timeoutlen = ESCAPE_S, PREFIX_S

    def _on_resize(self) -> None:
        """Not while another program has the terminal: this would erase its output."""
        if not self._running_in_terminal:
            super()._on_resize()
