"""How a command is called that a person is told of: in a shell, or between two prompts of a conversation."""

from __future__ import annotations

import shlex
from collections.abc import Callable

Called = Callable[[str], str]
"""From ``review cp_12`` to what the person types for it."""


def between_prompts(command: str) -> str:
    return f"/{command}"


def in_the_folder(command: str) -> str:
    return f"newel {command}"


def in_a_shell(place: str | None) -> Called:
    """About the folder that the person is in, or about a place on a host: as they write it, since it is by an alias of theirs
    that ssh may know its key.
    """
    if place is None:
        return in_the_folder
    return lambda command: f"newel {command} --host {shlex.quote(place)}"


def whole_review(called: Called, checkpoint: str = "") -> str:
    """The command that shows a diff whole, however long it is: in a conversation, too, it is one of a shell."""
    command = f"review {checkpoint}".rstrip()
    return in_the_folder(command) if called is between_prompts else called(command)
