"""What a path may be, whatever host it is for."""

from __future__ import annotations

from typing import Final

from newel.agent.errors import WorkspaceError

SCHEME: Final = "ssh://"
"""Begins the name of a workspace on a host."""


def check_path(path: str) -> None:
    """Raises ``WorkspaceError`` for what no file can be called."""
    if not path:
        raise WorkspaceError("The path is empty. Name a file.")
    if "\0" in path:
        raise WorkspaceError("The path holds a NUL character, which no file name can.")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise WorkspaceError(f"{path!r} cannot be a file name.") from error
