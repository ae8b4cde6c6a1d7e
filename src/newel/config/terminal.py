"""``[terminal]`` of the user's settings. A project has no say in it: programs run as the user, and keys do what the user knows."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from newel.config.keymap import KeySettings

Command = Annotated[list[str], msgspec.Meta(extra={"command": True})]
"""A program and its arguments."""

EditingKeys = Literal["emacs", "vi"]


class TerminalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``notify`` is a program with its arguments, which gets a message as a further one when the user is wanted. ``status_line`` is a
    program that gets the facts of the conversation as JSON on its standard input, and prints the line below the input. ``editing`` is whose
    keys edit the input, ``theme`` the name of a theme, ``keys`` what the keys do.
    """

    notify: Command = []
    status_line: Command = []
    editing: EditingKeys = "emacs"
    theme: str = "auto"
    keys: KeySettings = KeySettings()
