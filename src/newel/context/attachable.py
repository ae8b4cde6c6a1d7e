"""What a person's prompt may attach."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from newel.workspace.port import Workspace

WhyNot = Callable[[str, str], str]
"""Of a file that was named by its first, absolute path and really is at the second: why it is not attached, in words that
follow its name. Nothing if it may be.
"""


def _nothing_against(named: str, path: str) -> str:
    del named, path
    return ""


class Attachable(NamedTuple):
    """Where the files that a prompt names are, and which of them may be attached."""

    workspace: Workspace
    why_not: WhyNot = _nothing_against
