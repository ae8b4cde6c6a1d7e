"""Which files a prompt may attach."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from newel.workspace.port import Workspace

WhyNot = Callable[[str, str], str]
"""Why a file that was named by the first path, and really is at the second, is not attached: a clause that follows its name,
or nothing if it may be. Both paths are absolute.
"""


def _nothing_against(named: str, path: str) -> str:
    del named, path
    return ""


class Attachable(NamedTuple):
    """Where the files that a prompt names are, and which of them may be attached."""

    workspace: Workspace
    why_not: WhyNot = _nothing_against
