"""Other agents' names for our tools and arguments.

Models are trained on many agents and use the names of their tools. Such calls are accepted, and reported under our names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TOOLS: Final = {
    "read": "read_file readFile Read ReadFile view view_file cat open_file get_file",
    "write": "write_file writeFile Write WriteFile create_file save_file write_to_file",
    "edit": "edit_file editFile Edit MultiEdit multi_edit str_replace string_replace search_replace apply_edit "
    "replace replace_in_file",
    "bash": "Bash shell run run_command run_shell_command run_terminal_cmd run_in_terminal execute_command "
    "execute_bash exec_command exec terminal",
    "bash_output": "BashOutput TaskOutput get_command_output read_output check_command_status command_status",
    "grep": "Grep grep_search search search_files search_file_content ripgrep rg",
    "find": "Glob glob find_files file_search glob_file_search",
    "ls": "LS list_dir list_directory list_files",
    "todo": "TodoWrite todo_write todowrite write_todos update_plan update_todo_list",
    "skill": "Skill use_skill load_skill read_skill activate_skill get_skill",
    "task": "Task Agent agent spawn_agent subagent dispatch_agent delegate",
    "web_fetch": "WebFetch webfetch fetch fetch_url fetch_webpage read_web_page open_url url_fetch",
    "search_project": "grep Grep search search_files",
    "list_files": "list_dir ls glob Glob",
    "clarify_user": "ask_user ask_question",
}
_PATH: Final = "path filePath filepath filename file_name fileName file target_file"
_REPLACEMENT: Final = {
    "old_string": "old_str oldStr old_text oldText oldString old search find",
    "new_string": "new_str newStr new_text newText newString new replacement",
    "replace_all": "replaceAll allow_multiple",
}
_ARGUMENTS: Final = {
    "read": {
        "file_path": _PATH,
        "offset": "start_line startLine line_start",
        "limit": "max_lines num_lines line_count",
    },
    "write": {"file_path": _PATH, "content": "text contents file_text file_content data"},
    "edit": {"file_path": _PATH, **_REPLACEMENT, "edits": "changes replacements"},
    "bash": {
        "command": "cmd script code shell_command bash_command",
        "timeout": "timeout_seconds timeoutSeconds timeout_secs",
        "run_in_background": "background is_background isBackground runInBackground",
    },
    "bash_output": {
        "id": "bash_id shell_id task_id session_id command_id",
        "wait": "wait_seconds",
        "stop": "kill",
    },
    "grep": {
        "pattern": "query regex regexp text",
        "path": "directory folder dir file_path include_path",
        "glob": "include file_pattern",
        "ignore_case": "ignoreCase case_insensitive -i",
        "literal": "fixed_strings fixedStrings",
        "context": "-C context_lines",
        "output": "output_mode",
        "limit": "head_limit max_results",
    },
    "find": {"pattern": "glob query", "path": "directory folder dir", "limit": "head_limit max_results"},
    "ls": {"path": "directory folder dir dir_path"},
    "todo": {"items": "todos plan todo_list tasks steps"},
    "task": {"prompt": "task instructions message", "description": "title name", "can_write": "write"},
    "web_fetch": {"url": "uri link address website", "offset": "start_index start"},
    "skill": {
        "name": "skill skill_name command",
        "file": _PATH.replace(" file ", " ") + " resource",
        "arguments": "args input",
    },
    "read_file": {"file_path": _PATH},
    "search_project": {"query": "pattern text"},
    "list_files": {"prefix": "path directory folder"},
}


def _by_alias(names: Mapping[str, str]) -> dict[str, str]:
    return {alias: name for name, aliases in names.items() for alias in aliases.split()}


TOOL_ALIASES: Final = {tool: tuple(aliases.split()) for tool, aliases in _TOOLS.items()}

REPLACEMENT_ALIASES: Final = _by_alias(_REPLACEMENT)
"""Arguments of one replacement: top-level in an ``edit`` call, or in its list."""

TODO_ALIASES: Final = _by_alias({"text": "content step description task title", "status": "state"})
"""Fields of an item of a ``todo`` call."""

ARGUMENT_ALIASES: Final = {tool: _by_alias(names) for tool, names in _ARGUMENTS.items()}

COMMENTARY: Final = frozenset({"description", "explanation", "reason", "rationale"})
"""Arguments of other agents in which the model gives a reason. They have no effect and are ignored."""
