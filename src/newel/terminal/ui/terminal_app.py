"""The application of prompt_toolkit at the bottom of the terminal: its styles, its keys, and the time that it waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import DynamicStyle, Style
from rich.color import Color

from newel.config.terminal import EditingKeys
from newel.config.themes import RoleStyle
from newel.terminal.renderers.styles import Styles
from newel.terminal.ui.keyboard import ESCAPE_S, KeyParser, marks_pastes

PREFIX_S: Final = 0.15
"""Time after Escape in which another key makes both of them one: Escape and Enter are Alt+Enter."""

_CLASSES: Final = {
    "prompt": "prompt",
    "state": "status",
    "news": "question",
    "question": "question",
    "picker.selected": "selected",
}
"""Roles of prompt_toolkit's names."""


def application_style(roles: Mapping[str, RoleStyle]) -> Style:
    """The style of an application of prompt_toolkit in the styles of a theme."""
    status = _style(roles["status"])
    return Style.from_dict(
        {"": _style(roles["text"])}
        | {name: _style(roles[role]) for name, role in _CLASSES.items()}
        | {
            "completion-menu": "noinherit",
            "completion-menu.completion": "noinherit",
            "completion-menu.completion.current": "noinherit reverse",
            "completion-menu.meta.completion": f"noinherit {status}",
            "completion-menu.meta.completion.current": f"noinherit {status}",
            "scrollbar.background": "noinherit",
            "scrollbar.button": f"noinherit {status}",
        }
    )


def _style(style: RoleStyle) -> str:
    parts = [_colour(style.foreground), *({"faint": "dim"}.get(each, each) for each in style.attributes)]
    parts += [f"bg:{_colour(style.background)}" if style.background else ""]
    return " ".join(filter(None, parts))


def _colour(colour: str) -> str:
    if colour.isdigit():
        return Color.from_ansi(int(colour)).get_truecolor().hex
    if colour in {"", "default"} or colour.startswith("#"):
        return colour
    return {"white": "ansigray", "bright_white": "ansiwhite"}.get(colour, f"ansi{colour.replace('_', '')}")


def color_depth(styles: Styles) -> ColorDepth:
    """The colours that rich uses on this terminal, too."""
    return {
        "none": ColorDepth.DEPTH_1_BIT,
        "standard": ColorDepth.DEPTH_4_BIT,
        "256": ColorDepth.DEPTH_8_BIT,
        "truecolor": ColorDepth.DEPTH_24_BIT,
    }[styles.colours]


class TerminalOutput(Vt100_Output):
    def erase_down(self) -> None:
        """The cursor is in the first column. From the first place of the screen, tmux would put what it erases into its scroll-back."""
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")


class TerminalApp(Application[None]):
    def __init__(
        self, layout: Layout, keys: KeyBindings, output: Output, styles: Styles, editing: EditingKeys
    ) -> None:
        super().__init__(
            layout,
            key_bindings=keys,
            style=DynamicStyle(lambda: self._drawn_style),
            output=output,
            color_depth=color_depth(styles),
            erase_when_done=True,
            max_render_postpone_time=None,  # a key is shown at once, whatever else there is to do
            editing_mode=EditingMode.VI if editing == "vi" else EditingMode.EMACS,
        )
        self.restyle(styles)
        if isinstance(self.input, Vt100Input):
            on_key = self.input.vt100_parser.feed_key_callback
            self.input.vt100_parser = KeyParser(on_key, marks_pastes=marks_pastes())
        self.ttimeoutlen, self.timeoutlen = ESCAPE_S, PREFIX_S

    def restyle(self, styles: Styles) -> None:
        """Draw in the styles that are used now."""
        self._drawn_style = application_style(styles.roles)
        self.invalidate()

    def _on_resize(self) -> None:
        """Not while another program has the terminal: this would erase its output."""
        if not self._running_in_terminal:
            super()._on_resize()
