"""The hooks of a conversation or a folder, as a list for the user."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from newel.hooks.hook import Hook
from newel.text.sanitize import escape_line

RowState = Literal["on", "off", "untrusted", "declined"]

NO_HOOKS: Final = "No hooks here. `newel hooks --help` says where to write them."
_TRUST: Final = "runs once you trust it: newel hooks trust, then start Newel again"


class HookResult(msgspec.Struct, frozen=True):
    """How the last run of a hook went: ``problem`` is empty if nothing was wrong with it."""

    seconds: float
    decision: str = ""
    problem: str = ""
    runs: int = 1

    def described(self) -> str:
        how = f"failed: {self.problem}" if self.problem else self.decision or "ok"
        count = f", {self.runs} runs" if self.runs > 1 else ""
        return f"last: {how}, {self.seconds:.1f} s{count}"


class HookRow(msgspec.Struct, frozen=True):
    hook: Hook
    state: RowState
    last: HookResult | None = None


def command_of(hook: Hook) -> str:
    """The command of a hook, and its condition, on one line."""
    words = hook.command if hook.args is None else shlex.join([hook.command, *hook.args])
    more = f"  (if {hook.condition})" if hook.condition else ""
    return escape_line(f"{words}{more}")


def hook_lines(rows: Sequence[HookRow], *, of_conversation: bool = False) -> Iterator[str]:
    """Two lines for each hook: when it runs, its state and its command; its file, and in a conversation how its last run went."""
    for row in rows:
        hook = row.hook
        yield f"{hook.event:<19} {escape_line(hook.matcher or '*'):<20} {row.state:<10} {command_of(hook)}"
        notes = [hook.where]
        if of_conversation and row.state == "untrusted":
            notes.append(_TRUST)
        elif of_conversation and row.state == "on":
            notes.append(row.last.described() if row.last else "has not run yet")
        yield f"{'':51} {escape_line(' · '.join(notes))}"
