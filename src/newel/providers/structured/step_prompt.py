"""The conversation as a model sees it that works in steps: how a step looks, and every earlier one in that form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from newel.agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ToolSpec
from newel.providers.parsing.text_protocol import format_tool_result
from newel.providers.structured.step_schema import ANSWER, ANSWER_MEANS, TEXT, TOOL, small_parameters
from newel.text.json import to_json

_FORMAT: Final = """\
# Steps
You work in steps. Each of your messages is one step as JSON: a short thought, then one action. You then get its result, and \
take the next step. Do only what was asked. When it is done, stop with the action `answer`: its text tells the user what you did \
or found out.

# Actions"""

_ANSWER_LINE: Final = f'- {{"tool": "{ANSWER}", "{TEXT}": "…"}}: {ANSWER_MEANS}'

_EXAMPLES_HEAD: Final = "# Examples of steps for other tasks"

_SMALL_DESCRIPTIONS: Final = {
    "read": "Show a file, or list a folder.",
    "write": "Create a new file. Never use it to change a file that exists.",
    "edit": "Replace a text in a file: old_string is copied exactly from the file.",
    "bash": "Run a shell command: also to rename, move, copy and delete files, to add lines, to search and to run programs.",
}
"""Of Newel's own tools. The descriptions of other tools are cut to their first sentence."""

_EXAMPLES: Final[tuple[tuple[str, str, str, dict[str, Any]], ...]] = (
    (
        "Rename old.md to new.md",
        "Renaming a file is a shell command.",
        "bash",
        {"command": "mv old.md new.md"},
    ),
    ("Delete cache.tmp", "Deleting a file is a shell command.", "bash", {"command": "rm cache.tmp"}),
    (
        "Add the line 'eggs' to the end of shopping.txt",
        "I append the line, so the other lines stay.",
        "bash",
        {"command": "echo 'eggs' >> shopping.txt"},
    ),
    (
        "Add a function stop() to engine.py",
        "I append the function, so the other code stays.",
        "bash",
        {"command": "cat >> engine.py <<'EOF'\n\n\ndef stop():\n    return 0\nEOF"},
    ),
    (
        "`make check` fails. Fix the bug in list.c",
        "The bug is in list.c, so I read that file first.",
        "read",
        {"file_path": "list.c"},
    ),
    (
        "`make check` fails. Fix the bug in list.c (you have read it)",
        "first() returns `items[1]`, but the first is `items[0]`. I replace only that.",
        "edit",
        {"file_path": "list.c", "old_string": "return items[1];", "new_string": "return items[0];"},
    ),
    (
        "Where is load_users defined?",
        "I search all files.",
        "bash",
        {"command": "grep -rn 'load_users' ."},
    ),
    (
        "Write a script bye.py that prints Bye",
        "The file is new.",
        "write",
        {"file_path": "bye.py", "content": "print('Bye')\n"},
    ),
    (
        "Where is load_users defined? (you have searched)",
        "The search shows it.",
        ANSWER,
        {TEXT: "load_users is defined in users.py, line 12."},
    ),
    (
        "Rename old.md to new.md (you have renamed it)",
        "It is renamed.",
        ANSWER,
        {TEXT: "I renamed old.md to new.md."},
    ),
)
"""The last are answers: without one, a very small model copies the description of that action."""


def describe_steps(system_prompt: str, tools: Sequence[ToolSpec]) -> str:
    """Return the form of a step, the actions, worked examples of those that are offered, and the system prompt.

    The prompt is last because it names the folder: a server that has read the rest for another folder need not read it again,
    which takes a processor half a minute.
    """
    lines = [_FORMAT]
    lines += [_describe_tool(tool) for tool in tools if tool.name != ANSWER]
    lines.append(_ANSWER_LINE)
    names = {tool.name for tool in tools}
    examples = [
        f"Task: {task}\n{_step(thought, tool, arguments)}"
        for task, thought, tool, arguments in _EXAMPLES
        if tool in names or (tool == ANSWER and names)
    ]
    if examples:
        lines += ["", _EXAMPLES_HEAD, *examples]
    return "\n\n".join(part for part in ("\n".join(lines), system_prompt.strip()) if part)


def as_steps(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation with each call as a step, and each result as a message of the user."""
    return merge_users(_steps(messages))


def merge_users(messages: Iterable[Message]) -> list[Message]:
    """Join messages of the user that follow each other: many chat templates demand turns."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            merged[-1] = UserMessage([*_parts(last), TextContent("\n\n"), *_parts(message)], id=last.id)
        else:
            merged.append(message)
    return merged


def _steps(messages: Sequence[Message]) -> Iterator[Message]:
    results = {each.tool_call_id: each for each in messages if isinstance(each, ToolResultMessage)}
    for message in messages:
        match message:
            case UserMessage():
                yield message
            case AssistantMessage():
                thought = "".join(
                    part.thinking for part in message.content if isinstance(part, ThinkingContent)
                )
                if not message.tool_calls:
                    if message.text:
                        yield _said(_step(thought, ANSWER, {TEXT: message.text}))
                    continue
                for call in message.tool_calls:  # of another model there may be several
                    yield _said(_step(thought or message.text, call.name, call.arguments))
                    yield _result(call, results.get(call.id))
            case ToolResultMessage():
                continue  # it stands behind its call


def _said(text: str) -> AssistantMessage:
    return AssistantMessage([TextContent(text)])


def _result(call: ToolCall, result: ToolResultMessage | None) -> UserMessage:
    if result is None:
        return UserMessage(f"No result of {call.name} is known.")
    head = f"{call.name} failed:" if result.is_error else f"Result of {call.name}:"
    return UserMessage([TextContent(f"{head}\n{format_tool_result(result)}"), *result.images])


def _parts(message: UserMessage) -> list[Any]:
    return [TextContent(message.content)] if isinstance(message.content, str) else message.content


def _step(thought: str, tool: str, arguments: dict[str, Any]) -> str:
    return to_json({"thought": thought, "action": {TOOL: tool} | arguments | {TOOL: tool}}).decode()


def _describe_tool(tool: ToolSpec) -> str:
    arguments = dict.fromkeys(small_parameters(tool), "…")
    description = _SMALL_DESCRIPTIONS.get(tool.name) or tool.description.split(". ")[0].rstrip(".") + "."
    return f"- {to_json({TOOL: tool.name} | arguments).decode()}: {description}"
