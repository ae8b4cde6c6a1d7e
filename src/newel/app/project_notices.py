"""Notices at the start about files of the project that have no say, or less than their author may expect."""

from __future__ import annotations

import sys

from newel.config.settings import ONLY_DOTENV, Settings
from newel.text.sanitize import escape_line, redact_url, sanitize


def warn_of_project(settings: Settings) -> None:
    for message in project_notices(settings):
        print(f"newel: {message}", file=sys.stderr)  # noqa: T201 — for the user


def project_notices(settings: Settings) -> list[str]:
    return [message for message in (_of_server(settings), _of_settings(settings)) if message]


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
