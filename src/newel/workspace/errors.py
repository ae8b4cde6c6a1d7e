"""What a workspace says when it cannot do something: the same words for the same cause, whatever host it is on."""

from __future__ import annotations

from typing import Final, Literal

from newel.agent.errors import StaleFile, WorkspaceError
from newel.workspace.port import ABSENT, Kind

SCHEME: Final = "ssh://"
"""Begins the name of a workspace on a host."""

Doing = Literal["look at", "list", "read", "write", "remove"]


def cannot(doing: Doing, path: str, reason: str) -> WorkspaceError:
    """What was tried, where, and why it failed; ``reason`` is the system's."""
    return WorkspaceError(f"Cannot {doing} {path}: {reason}.")


def not_regular(doing: Doing, path: str, kind: Kind) -> WorkspaceError:
    what = "a directory" if kind == "directory" else "not a regular file"
    return cannot(doing, path, f"it is {what}")


def stale(path: str, found: str, expect: str) -> StaleFile:
    """The file is not what was expected; ``found`` is what it is, both as hashes or ``ABSENT``."""
    if expect == ABSENT:
        what = "was created by someone else meanwhile."
    else:
        what = "has been deleted meanwhile." if found == ABSENT else "changed on disk meanwhile."
    return StaleFile(f"{path} {what}")


def leads_elsewhere(path: str) -> StaleFile:
    return StaleFile(
        f"{path} leads elsewhere: a link stands in it that was not there before. Nothing was changed."
    )


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
