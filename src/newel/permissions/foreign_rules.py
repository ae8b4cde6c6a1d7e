"""Rules of other agents for tools that Newel has under another name, and what to write instead."""

from __future__ import annotations

import re
from typing import Final

_TOOLS: Final = {
    "read": "read_file view cat notebookread read_many_files",
    "write": "write_file create create_file multiedit notebookedit replace search_replace str_replace apply_patch patch",
    "bash": "shell run_shell_command exec exec_command execute_command run_command terminal powershell",
    "grep": "search_file_content search rg",
    "find": "glob",
    "ls": "list list_directory list_dir list_files",
    "web_fetch": "fetch url read_web_page",
}
_OURS: Final = {name: ours for ours, names in _TOOLS.items() for name in (ours, *names.split())}
_SEARCHES: Final = frozenset({"grep", "find", "ls"})
_WEB_SEARCHES: Final = frozenset({"websearch", "web_search", "google_web_search"})
_BY_PREFIX: Final = frozenset({"run_shell_command"})
"""Tools whose rules stand for all commands that begin with these words."""


def is_of_mcp_server(tool: str) -> bool:
    """Whether other agents call a tool of an MCP server so: ``mcp__github__create_issue``, ``mcp__github`` for all of its tools."""
    return tool.startswith("mcp__") or tool.lower() == "mcp"


def our_rule(tool: str, pattern: str | None) -> str:
    """The rule that probably does what this one does elsewhere; empty if there is none. It may be invalid."""
    if is_of_mcp_server(tool):
        server, _, name = tool[5:].partition("__") if "__" in tool else (pattern or "").partition(":")
        return _offered(f"{server}__{name or '*'}") if server else ""
    if "__" in tool:
        return _offered(tool)
    ours = _OURS.get(tool.lower(), "")
    if not ours or pattern is None or pattern.strip() in {"*", "**"}:
        return ours
    if ours in _SEARCHES:
        return f"read({pattern})"  # a rule for a file holds for searches, too
    if ours == "bash":
        pattern = re.sub(r":\*\s*$", " *", pattern)
        pattern += " *" if tool.lower() in _BY_PREFIX and not pattern.endswith("*") else ""
    return f"{ours}({pattern})"


def searches_web(tool: str) -> bool:
    """Whether other agents search the web with a tool of this name."""
    return tool.lower() in _WEB_SEARCHES


def _offered(name: str) -> str:
    """The name of an MCP tool as it is offered: other characters are replaced, and part of a hash follows then."""
    plain = re.sub(r"[^A-Za-z0-9_*-]", "_", name)
    return plain if plain == name or plain.endswith("*") else f"{plain}_*"
