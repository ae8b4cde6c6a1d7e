"""Other agents' names for our tools and arguments.

Models are trained on many agents and use the names of their tools. Such calls are accepted, and reported under our names.
"""

from __future__ import annotations

from typing import Final

TOOL_ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "read": (
        "read_file",
        "readFile",
        "Read",
        "ReadFile",
        "view",
        "view_file",
        "cat",
        "open_file",
        "get_file",
    ),
    "write": ("write_file", "writeFile", "Write", "WriteFile", "create_file", "save_file", "write_to_file"),
    "edit": (
        "edit_file",
        "editFile",
        "Edit",
        "MultiEdit",
        "multi_edit",
        "str_replace",
        "string_replace",
        "search_replace",
        "apply_edit",
        "replace",
        "replace_in_file",
    ),
    "bash": (
        "Bash",
        "shell",
        "run",
        "run_command",
        "run_shell_command",
        "run_terminal_cmd",
        "run_in_terminal",
        "execute_command",
        "execute_bash",
        "exec_command",
        "exec",
        "terminal",
    ),
    "search_project": ("grep", "Grep", "search", "search_files"),
    "list_files": ("list_dir", "ls", "glob", "Glob"),
    "clarify_user": ("ask_user", "ask_question"),
}

_PATH: Final = ("path", "filePath", "filepath", "filename", "file_name", "fileName", "file", "target_file")

REPLACEMENT_ALIASES: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("old_str", "oldStr", "old_text", "oldText", "oldString", "old", "search", "find"), "old_string"
    ),
    **dict.fromkeys(
        ("new_str", "newStr", "new_text", "newText", "newString", "new", "replacement"), "new_string"
    ),
    **dict.fromkeys(("replaceAll", "allow_multiple"), "replace_all"),
}
"""Arguments of one replacement: top-level in an ``edit`` call, or in its list."""

ARGUMENT_ALIASES: Final[dict[str, dict[str, str]]] = {
    "read": {
        **dict.fromkeys(_PATH, "file_path"),
        **dict.fromkeys(("start_line", "startLine", "line_start"), "offset"),
        **dict.fromkeys(("max_lines", "num_lines", "line_count"), "limit"),
    },
    "write": {
        **dict.fromkeys(_PATH, "file_path"),
        **dict.fromkeys(("text", "contents", "file_text", "file_content", "data"), "content"),
    },
    "edit": {
        **dict.fromkeys(_PATH, "file_path"),
        **REPLACEMENT_ALIASES,
        **dict.fromkeys(("changes", "replacements"), "edits"),
    },
    "bash": {
        **dict.fromkeys(("cmd", "script", "code", "shell_command", "bash_command"), "command"),
        **dict.fromkeys(("timeout_seconds", "timeoutSeconds", "timeout_secs"), "timeout"),
    },
    "read_file": dict.fromkeys(_PATH, "file_path"),
    "search_project": dict.fromkeys(("pattern", "text"), "query"),
    "list_files": dict.fromkeys(("path", "directory", "folder"), "prefix"),
}

COMMENTARY: Final = frozenset({"description", "explanation", "reason", "rationale"})
"""Arguments of other agents in which the model gives a reason. They have no effect and are ignored."""
