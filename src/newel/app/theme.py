"""The theme and keys that the user has chosen, for every front end in a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from newel.agent.errors import ConfigError
from newel.config.settings import TerminalSettings, load_terminal_settings
from newel.config.themes import Theme, load_theme
from newel.text.sanitize import escape_line

SHOWN: Final = 3
"""Problems of a theme that are shown."""


def usable_terminal_settings(home: Path) -> TerminalSettings:
    """The settings, or the defaults where a mistake in the file would keep the user from an undo, or from the page about it."""
    try:
        return load_terminal_settings(home)
    except ConfigError as error:
        print(f"newel: {escape_line(str(error))}", file=sys.stderr)  # noqa: T201 — for the user
        return TerminalSettings()


def chosen_theme(name: str, home: Path) -> tuple[Theme, list[str]]:
    """The theme, and the warnings about it."""
    loaded = load_theme(name, home, os.environ)
    problems = [escape_line(problem) for problem in loaded.problems]
    more = len(problems) - SHOWN
    return loaded.theme, [*problems[:SHOWN], *([f"… {more} more about the theme"] if more > 0 else [])]


def theme_for_output(name: str, home: Path) -> Theme:
    """The theme, whose warnings go to standard error."""
    theme, warnings = chosen_theme(name, home)
    for warning in warnings:
        print(f"newel: {warning}", file=sys.stderr)  # noqa: T201 — for the user
    return theme
