"""Notices at the start about files of the project that have no say, or less than their author may expect."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from newel.agent.formatting import pluralize
from newel.config.settings import ONLY_DOTENV, Settings
from newel.storage.files import read_regular
from newel.text.sanitize import escape_line, redact_url, sanitize

_CLAUDE_FILES = (".claude/settings.json", ".claude/settings.local.json")
_PROJECT_RULES = ".newel/permissions.toml"


class _ClaudeRules(msgspec.Struct):
    deny: list[str] = []
    ask: list[str] = []


class _ClaudeSettings(msgspec.Struct):
    permissions: _ClaudeRules = msgspec.field(default_factory=_ClaudeRules)


def warn_of_project(settings: Settings) -> None:
    for message in project_notices(settings):
        print(f"newel: {message}", file=sys.stderr)  # noqa: T201 — for the user


def project_notices(settings: Settings) -> list[str]:
    found = (_of_server(settings), _of_settings(settings), _of_claude_rules(settings))
    return [message for message in found if message]


def _of_server(settings: Settings) -> str:
    """About a server that is ignored, or that makes calls need approval because only the project names it."""
    if settings.ignored is not None:
        from newel.app.trusting import has_undecided_server, ignored_message

        return ignored_message(settings.ignored) if has_undecided_server(settings) else ""
    if settings.origins.get("approve") == ONLY_DOTENV and settings.endpoint:
        url = redact_url(settings.endpoint.base_url)
        message = f"only the .env of this folder names the server {url}, so calls need your approval"
        return f"{sanitize(message)} (--approve auto lifts that)"
    return ""


def _of_settings(settings: Settings) -> str:
    """About settings in the project, where other programs have them."""
    file, own = settings.cwd / ".newel" / "config.toml", settings.home / "config.toml"
    try:
        is_ignored = not settings.host and file.is_file() and file.resolve() != own.resolve()
    except OSError:
        return ""
    return (
        f"{escape_line(str(file))} is ignored: settings are read from {escape_line(str(own))} only, as those of a cloned project "
        "could send your files to another server, or allow every command. A project can tighten your rules, in .newel/permissions.toml."
        if is_ignored
        else ""
    )


def _of_claude_rules(settings: Settings) -> str:
    if settings.host or (settings.cwd / _PROJECT_RULES).exists():
        return ""
    notices = (claude_rules_notice(settings.cwd / file, _PROJECT_RULES) for file in _CLAUDE_FILES)
    return next(filter(None, notices), "")


def claude_rules_notice(file: Path, own: str) -> str:
    """That the rules in a file of Claude Code which forbid calls, or ask about them, do not apply: nothing else tells. ``own`` is where
    to write such rules. Empty if there are none.
    """
    rules = _tightening_rules(file)
    if not rules:
        return ""
    kind, rule = rules[0]
    written = escape_line(msgspec.json.encode([rule]).decode(), 100)
    return (
        f"{pluralize(len(rules), 'rule')} under permissions in {escape_line(str(file))}, which forbid or ask, do not apply here. "
        f"To have such rules, write them into {own}: {kind} = {written}"
    )


def _tightening_rules(file: Path) -> list[tuple[str, str]]:
    """The rules of a file of Claude Code that forbid a call, or ask about it; none if it cannot be read."""
    try:
        permissions = msgspec.json.decode(read_regular(file), type=_ClaudeSettings).permissions
    except (OSError, ValueError, RecursionError):
        return []
    return [("deny", rule) for rule in permissions.deny] + [("ask", rule) for rule in permissions.ask]
