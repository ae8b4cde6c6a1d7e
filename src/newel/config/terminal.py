"""``[terminal]`` of the user's settings. A project has no say in it: these programs run as the user."""

from __future__ import annotations

from typing import Literal

import msgspec

EditingKeys = Literal["emacs", "vi"]


class TerminalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``notify`` is a program with its arguments, which gets a message as a further one when the user is wanted. ``status_line`` is a program
    that gets the facts of the conversation as JSON on its standard input, and prints the line below the input. ``editing`` is whose keys edit
    the input.
    """

    notify: list[str] = []
    status_line: list[str] = []
    editing: EditingKeys = "emacs"
