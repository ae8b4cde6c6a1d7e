"""A hook: a command, and when it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

Level = Literal["user", "project"]

EVENTS: Final = {
    "SessionStart": "source",
    "SessionEnd": "reason",
    "UserPromptSubmit": "",
    "PreToolUse": "tool_name",
    "PostToolUse": "tool_name",
    "PostToolUseFailure": "tool_name",
    "Notification": "notification_type",
    "Stop": "",
    "SubagentStop": "agent_type",
    "PreCompact": "trigger",
}
"""The events that exist here, each with the field that its matchers are about, if it has one."""

TOOL_EVENTS: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})

TIMEOUT_S: Final = 60.0
LAST_TIMEOUT_S: Final = 5.0
"""For ``SessionEnd``: the user is leaving."""
MAX_TIMEOUT_S: Final = 3_600.0

_EXACT: Final = re.compile(r"[A-Za-z0-9_\-, |]*", re.ASCII)


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """``command`` is for a shell, or with ``args`` a program. ``condition`` is its ``if``. ``file`` and ``line`` are where it is
    written.
    """

    event: str
    command: str
    matcher: str = ""
    args: tuple[str, ...] | None = None
    timeout: float | None = None
    condition: str = ""
    file: Path
    line: int
    level: Level

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}"

    @property
    def limit(self) -> float:
        """Seconds after which it is ended."""
        return self.timeout or (LAST_TIMEOUT_S if self.event == "SessionEnd" else TIMEOUT_S)

    @property
    def what(self) -> tuple[str, str, str, tuple[str, ...] | None]:
        """Equal for two hooks that do the same at the same time: only one of them runs."""
        return self.event, self.command, self.condition, self.args


def is_exact(matcher: str) -> bool:
    """Whether a matcher is a list of names, rather than a regular expression."""
    return matcher.strip() == "*" or _EXACT.fullmatch(matcher) is not None


def problem_of_matcher(matcher: str) -> str:
    """Why a matcher is neither a list of names nor a regular expression; empty if it is one."""
    if is_exact(matcher):
        return ""
    try:
        re.compile(matcher)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return ""


def matches(matcher: str, names: Sequence[str]) -> bool:
    """Whether a matcher is about something that has these names: first the one that Claude Code has for it, then ours.

    A list of names may be in either spelling. A regular expression is about our names only if it is in our spelling, which has no upper
    case: `^(?!Bash)` must not match ``bash``. An invalid one matches nothing.
    """
    if matcher.strip() in {"", "*"}:
        return True
    if is_exact(matcher):
        return not {each.strip() for each in re.split(r"[|,]", matcher)}.isdisjoint(names)
    is_ours = not re.search(r"[A-Z]|mcp_", matcher)
    try:
        return any(re.search(matcher, name) for name in (names if is_ours else names[:1]))
    except re.error:
        return False
