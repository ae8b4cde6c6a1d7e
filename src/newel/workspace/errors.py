"""Error messages of workspaces, the same for the local disk and for hosts."""

from __future__ import annotations

from typing import Final, Literal

from newel.agent.errors import StaleFile, WorkspaceError
from newel.workspace.port import ABSENT, Kind

SCHEME: Final = "ssh://"
"""Begins the name of a workspace on a host."""

Doing = Literal["look at", "list", "read", "write", "remove"]


def cannot(doing: Doing, path: str, reason: str) -> WorkspaceError:
    """A failed operation; ``reason`` is the system's."""
    return WorkspaceError(f"Cannot {doing} {path}: {reason}.")


def not_regular(doing: Doing, path: str, kind: Kind) -> WorkspaceError:
    what = "a directory" if kind == "directory" else "not a regular file"
    return cannot(doing, path, f"it is {what}")


def stale(path: str, found: str, expect: str) -> StaleFile:
    """The file differs from the expected state; both are hashes or ``ABSENT``."""
    if expect == ABSENT:
        what = "was created by another program in the meantime."
    else:
        what = "was deleted in the meantime." if found == ABSENT else "changed on disk in the meantime."
    return StaleFile(f"{path} {what}")


def leads_elsewhere(path: str) -> StaleFile:
    return StaleFile(f"{path} now contains a symbolic link and leads elsewhere. Nothing was changed.")


def check_path(path: str) -> None:
    """Raises ``WorkspaceError`` for an impossible file name."""
    if not path:
        raise WorkspaceError("The path is empty. Specify a file.")
    if "\0" in path:
        raise WorkspaceError("The path contains a NUL character.")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise WorkspaceError(f"{path!r} is not a valid file name.") from error
