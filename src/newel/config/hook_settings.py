"""``[hooks]``: hooks in ``config.toml``, and whether those of Claude Code run, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec


class HookEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[hooks.PostToolUse]]``: one command. The keys mean what they do in Claude Code's settings."""

    command: str
    matcher: str = ""
    args: list[str] | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0, le=3_600)] | None = None
    condition: str = msgspec.field(default="", name="if")


class HookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``claude_settings``: whether the hooks of ``~/.claude/settings.json`` run. ``disabled``: none run. The others are events."""

    claude_settings: bool = False
    disabled: bool = False
    session_start: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="SessionStart")
    session_end: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="SessionEnd")
    user_prompt_submit: list[HookEntry] = msgspec.field(
        default_factory=list[HookEntry], name="UserPromptSubmit"
    )
    pre_tool_use: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="PreToolUse")
    post_tool_use: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="PostToolUse")
    post_tool_use_failure: list[HookEntry] = msgspec.field(
        default_factory=list[HookEntry], name="PostToolUseFailure"
    )
    notification: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="Notification")
    stop: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="Stop")
    subagent_stop: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="SubagentStop")
    pre_compact: list[HookEntry] = msgspec.field(default_factory=list[HookEntry], name="PreCompact")

    def entries(self) -> dict[str, Sequence[HookEntry]]:
        """The hooks by their events, without events that have none."""
        by_event = {field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(self)}
        return {
            event: entries for event, entries in by_event.items() if isinstance(entries, list) and entries
        }
