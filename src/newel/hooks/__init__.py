"""Hooks: commands of the user and the project that run at named points of a conversation, and the files that configure them.

The files are named here, so that a start without any of them loads no other module of this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = "hooks.json"
PROJECT_FILES: Final = (".newel/hooks.json", ".claude/settings.json", ".claude/settings.local.json")
CLAUDE_SETTINGS: Final = ".claude/settings.json"
"""Below the user's home folder."""


def user_files(*, home: Path, claude_settings: bool) -> list[Path]:
    """The user's files, beside ``config.toml``: with ``claude_settings`` also Claude Code's."""
    return [home / FILE, *([Path.home() / CLAUDE_SETTINGS] if claude_settings else [])]


def project_files(project: Path, *, of_user: list[Path]) -> list[Path]:
    """The project's files. In the home folder, some are the user's own."""
    return [project / name for name in PROJECT_FILES if project / name not in of_user]
