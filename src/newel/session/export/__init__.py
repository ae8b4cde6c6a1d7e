"""Exports of sessions to Markdown and HTML."""

from __future__ import annotations

from pathlib import Path

from newel.agent.errors import SessionError
from newel.session.reader import SessionData
from newel.storage.files import replace_file
from newel.workspace.port import Workspace


def export_session(data: SessionData, target: Path) -> None:
    """Write the session as Markdown (``.md``) or HTML (``.html``), by the target's suffix. The file is readable by its owner only;
    an existing file is never overwritten. Raises ``SessionError``.
    """
    if target.exists():
        raise SessionError(f"{target} exists already. Name another file.")
    match target.suffix.lower():
        case ".md" | ".markdown":
            from newel.session.export.markdown import to_markdown as render
        case ".html" | ".htm":
            from newel.session.export.html import to_html as render
        case _:
            raise SessionError(f"{target} names no format to export to. End it with .md or .html.")
    try:
        replace_file(target, render(data).encode())
    except OSError as error:
        raise SessionError(f"The session cannot be exported to {target}: {error.strerror}.") from error


def local_target(workspace: Workspace, name: str) -> Path:
    """A file of this machine by a name relative to the workspace; if that is on a host, relative to the current folder."""
    folder = Path(workspace.root) if workspace.name == workspace.root else Path.cwd()
    return (folder / Path(name).expanduser()).resolve()
