"""How a command is called that a person is told of: in a shell, or between two prompts of a conversation."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from newel.workspace.port import Workspace

Called = Callable[[str], str]
"""From ``review cp_12`` to what the person types for it."""


def in_a_shell(workspace: Workspace) -> Called:
    """As a program, about a folder: of this machine, where the person is in it, or of a host."""
    there = "" if workspace.name == workspace.root else f" --host {shlex.quote(workspace.name)}"
    return lambda command: f"newel {command}{there}"


def between_prompts(command: str) -> str:
    return f"/{command}"
