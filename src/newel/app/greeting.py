"""The first lines of a conversation."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

from newel.config.keymap import Keymap
from newel.config.settings import Settings
from newel.hooks import CLAUDE_SETTINGS
from newel.permissions.rules import RuleSet
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.terminal.repl.permission_commands import describe_mode
from newel.text.format import short_folder
from newel.text.sanitize import escape_line
from newel.version import VERSION

NEW_UNTIL: Final = 5
"""Saved sessions after which the approval mode needs no explanation any more."""

_CHANGES_FILES: Final = ("auto", "ask")


def header(agent: CodingAgent, settings: Settings, keymap: Keymap) -> str:
    """The version, folder, model and settings on one line; for newcomers what the approval mode means, and what of their settings
    of Claude Code does not apply; below, damage to the session's file.
    """
    is_recorded = isinstance(agent.workspace, RecordingWorkspace)
    is_newcomer = len(list(islice((settings.home / "sessions").glob("*/*.jsonl"), NEW_UNTIL))) < NEW_UNTIL
    facts = [
        f"newel {VERSION}",
        short_folder(agent.workspace.name),
        " ".join(filter(None, (agent.state.model.id, agent.models.where)))
        + (" (/model)" if is_newcomer else ""),
        "" if is_newcomer else f"approve: {agent.approve}",
        f"sandbox: {agent.info.sandbox}",
        agent.info.instructions,
        "" if is_recorded else "changes are not recorded",
    ]
    explained = (
        [explain_mode(agent, keymap, is_recorded=is_recorded), *_unused_claude_settings(settings)]
        if is_newcomer
        else []
    )
    return "\n".join([" · ".join(fact for fact in facts if fact), *explained, *agent.session.damage])


def _unused_claude_settings(settings: Settings) -> list[str]:
    """Most users of Claude Code expect their hooks and rules to apply; without its file, nothing is loaded."""
    file = Path.home() / CLAUDE_SETTINGS
    if not file.is_file():
        return []
    from newel.app.hooks import unused_claude_hooks
    from newel.app.project_notices import claude_rules_notice

    has_rules = settings.rules != RuleSet()
    own = f"[permissions] of {escape_line(str(settings.home / 'config.toml'))}"
    rules = "" if has_rules else claude_rules_notice(file, own)
    return [notice for notice in (unused_claude_hooks(settings), rules) if notice]


def explain_mode(agent: CodingAgent, keymap: Keymap, *, is_recorded: bool) -> str:
    """What the approval mode means, and how to undo what it lets happen."""
    undo = "; /undo undoes it" if is_recorded and agent.approve in _CHANGES_FILES else ""
    key = keymap.label("input", "approval_mode", " ({})")
    return f"{agent.approve}{key}: {describe_mode(agent, agent.approve)}{undo}"
