"""The tools that a run offers to its model, chosen by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from newel.agent.errors import UsageError
from newel.agent.ports import Tool
from newel.text.format import join_names, one_line

OWN_NAMES: Final = (
    "read",
    "bash",
    "edit",
    "write",
    "grep",
    "find",
    "ls",
    "todo",
    "task",
    "bash_output",
    "web_fetch",
    "skill",
)
"""The coding agent's own tools. ``grep``, ``find`` and ``ls`` are offered on demand, and to an agent that may only read; ``todo``,
``task``, ``bash_output`` and ``web_fetch`` on demand, and in a conversation in the terminal; ``skill`` where there are skills.
"""

SERVED: Final = "__"
"""Between the name of an MCP server and that of its tool."""

AnyTool = TypeVar("AnyTool", bound=Tool)


class ToolSelection:
    """The tools that one of ``patterns`` names: ``bash``, ``time__convert_time``, ``time__*``. Without patterns, none. ``added`` are the
    names of extensions' tools.

    Raises ``UsageError`` for a name that is neither one of Newel's own nor of these, nor can be an MCP server's.
    """

    def __init__(self, patterns: Sequence[str], added: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self._known = (*OWN_NAMES, *added)
        for pattern in patterns:
            if SERVED not in pattern and not set(pattern) & set("*?[") and pattern not in self._known:
                raise _unknown(pattern, self._known)

    def of(self, tools: Iterable[AnyTool]) -> list[AnyTool]:
        """The selected ones of ``tools``."""
        return [tool for tool in tools if self.offers(tool.spec.name)]

    def offers(self, name: str) -> bool:
        """Whether a tool of that name is selected."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def check(self, known: Iterable[str]) -> None:
        """Raises ``UsageError`` for a pattern that selects none of the ``known`` names."""
        names = sorted({*known, *self._known})
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise _unknown(pattern, names)


def _unknown(pattern: str, names: Sequence[str]) -> UsageError:
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(pattern.lower(), by_lower, n=1)
    hint = f"Did you mean {by_lower[near[0]]}? " if near else ""
    return UsageError(
        f"--tools: there is no tool {one_line(pattern, 80)}. {hint}The tools are: {join_names(names, shown=20)}."
    )
