"""Names of files in messages, and the error for a missing one."""

from __future__ import annotations

from pathlib import PurePath

from newel.agent.errors import ToolError
from newel.workspace.port import DirectoryEntry, Workspace


def named(entry: DirectoryEntry) -> str:
    """A directory entry as text; bytes that are not UTF-8 become question marks."""
    return entry.name.encode(errors="replace").decode() + ("/" if entry.kind == "directory" else "")


async def not_found(workspace: Workspace, path: str, given: str) -> ToolError:
    """The error for a missing file: which part of its path is missing, and similar names."""
    import difflib

    folder, missing = PurePath(path).parent, PurePath(path).name
    while (info := await workspace.stat(str(folder))) is None and folder != folder.parent:
        folder, missing = folder.parent, folder.name
    shown = str(folder.relative_to(root) if folder.is_relative_to(root := workspace.root) else folder)
    if info is None or info.kind != "directory":
        return ToolError(f"File not found: {given}. '{shown}' is not a directory.")
    names = {entry.name.lower(): named(entry) for entry in await workspace.list(str(folder))}
    near = [names[name] for name in difflib.get_close_matches(missing.lower(), names, n=5)]
    hint = f" Similar names: {', '.join(near)}." if near else ""
    return ToolError(f"File not found: {given}. There is no '{missing}' in '{shown}'.{hint}")
