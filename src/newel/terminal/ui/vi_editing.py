"""The mode of vi's keys, while they edit the input."""

from __future__ import annotations

from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.vi_state import InputMode


class ViEditing:
    """Nothing here has an effect while emacs' keys edit the input."""

    def __init__(self, app: Application[Any]) -> None:
        self._app = app

    @property
    def is_normal(self) -> bool:
        """Whether letters are commands."""
        return self._is_used and self._app.vi_state.input_mode != InputMode.INSERT

    @property
    def mode(self) -> str:
        """The mode as it is shown; empty if there is none."""
        if not self._is_used:
            return ""
        if self._app.current_buffer.selection_state:
            return "VISUAL"
        mode = self._app.vi_state.input_mode
        return {InputMode.NAVIGATION: "NORMAL", InputMode.REPLACE: "REPLACE"}.get(mode, "INSERT")

    def insert(self) -> None:
        """Begin as with a new line."""
        self._app.vi_state.reset()

    def escape(self) -> bool:
        """Leave for normal mode; False if that is the mode, and nothing is selected or begun."""
        state, buffer = self._app.vi_state, self._app.current_buffer
        begun = state.operator_func or state.waiting_for_digraph or buffer.selection_state
        if not self._is_used or (state.input_mode == InputMode.NAVIGATION and not begun):
            return False
        if state.input_mode in (InputMode.INSERT, InputMode.REPLACE):
            buffer.cursor_position += buffer.document.get_cursor_left_position()
        state.reset()
        state.input_mode = InputMode.NAVIGATION
        if buffer.selection_state:
            buffer.exit_selection()
        return True

    @property
    def _is_used(self) -> bool:
        return self._app.editing_mode == EditingMode.VI
