"""``[terminal]`` of the user's settings. A project has no say in it: programs run as the user, and keys do what the user knows."""

from __future__ import annotations

from typing import Literal

import msgspec

from newel.config.keymap import KeySettings

EditingKeys = Literal["emacs", "vi"]


class TerminalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``notify`` is a program with its arguments, which gets a message as a further one when the user is wanted. ``status_line`` is a
    program that gets the facts of the conversation as JSON on its standard input, and prints the line below the input. ``editing`` is whose
    keys edit the input, ``theme`` the name of a theme, ``keys`` what the keys do.
    """

    notify: list[str] = []
    status_line: list[str] = []
    editing: EditingKeys = "emacs"
    theme: str = "auto"
    keys: KeySettings = KeySettings()
