"""Tools as hooks see them: under Claude Code's names, with its arguments, so that hooks that were written for it work unchanged."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Final

from newel.agent.ports import ToolResult

_THEIRS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("Bash",),
    "read": ("Read",),
    "write": ("Write",),
    "edit": ("Edit", "MultiEdit"),
    "grep": ("Grep",),
    "find": ("Glob",),
    "ls": ("LS",),
    "todo": ("TodoWrite",),
    "task": ("Agent", "Task"),
    "bash_output": ("BashOutput", "TaskOutput"),
}
"""Hooks get the first name as ``tool_name``."""

_PATHS: Final = ("file_path", "path")
_OF_SERVER: Final = "__"


def hook_names(tool: str) -> Sequence[str]:
    """The names that matchers may have for a tool; hooks get the first as ``tool_name``."""
    if tool in _THEIRS:
        return [*_THEIRS[tool], tool]
    return [f"mcp__{tool}", tool] if _OF_SERVER in tool else [tool]


def hook_input(tool: str, arguments: Mapping[str, Any], *, root: str, home: str) -> dict[str, Any]:
    """The arguments of a call: paths absolute, times in milliseconds."""
    given = dict(arguments)
    if tool not in _THEIRS:
        return given
    for name in _PATHS:
        if isinstance(path := given.get(name), str) and path:
            given[name] = absolute(path, root=root, home=home)
    if tool == "bash" and isinstance(seconds := given.get("timeout"), int | float):
        given["timeout"] = round(seconds * 1_000)
    return given


def our_arguments(tool: str, changed: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as a hook wants them, for the tool's own check."""
    arguments = dict(changed)
    if tool == "bash" and isinstance(milliseconds := arguments.get("timeout"), int | float):
        arguments["timeout"] = milliseconds / 1_000
    return arguments


def hook_response(tool: str, given: Mapping[str, Any], result: ToolResult) -> dict[str, Any]:
    """The result of a call that succeeded."""
    match tool:
        case "bash":
            return {"stdout": result.output, "stderr": "", "interrupted": False, "isImage": False}
        case "write" | "edit":
            return {"filePath": given.get("file_path", ""), "success": True}
        case _:
            return {"content": [{"type": "text", "text": result.output}]}


def absolute(path: str, *, root: str, home: str) -> str:
    """A path as a tool takes it, without ``~``, ``.`` and ``..``."""
    if path == "~" or path.startswith("~/"):
        path = f"{home}{path[1:]}"
    return posixpath.normpath(posixpath.join(root, path))
