"""Tools and conversations as text: for models without tool calling, and for programs that accept only a prompt.

A call is enclosed in tags that ``text_tool_calls`` parses. Content cannot close these tags: a backslash in it
escapes tags of the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ModelRequest, ToolSpec
from newel.text.json import regex, to_json

NO_IMAGE = "[Image omitted: this model receives text only.]"

_OWN_TAG = r"<(?=/?(?:user|assistant|tool_call|tool_response)\b)"
_TOOLS = """\
You can use tools. To call one, write only

<tool_call>
{"name": "the tool's name", "arguments": {"argument": "value"}}
</tool_call>

and stop; the result comes in the next message. Available tools, with the JSON Schemas of their arguments:
"""
_CONTINUE = "This is the conversation so far. Write the assistant's next message as plain text, without enclosing tags."


def describe_tools(system_prompt: str, tools: Sequence[ToolSpec]) -> str:
    """The system prompt, followed by a description of the tools."""
    if not tools:
        return system_prompt
    lines = [
        to_json({"name": tool.name, "description": tool.description, "parameters": tool.parameters}).decode()
        for tool in tools
    ]
    return "\n\n".join(part for part in (system_prompt, "\n".join((_TOOLS, *lines))) if part)


def format_assistant(message: AssistantMessage) -> str:
    """The model's message, with its calls in the requested format."""
    return "\n".join(part for part in (message.text, *map(_format_call, message.tool_calls)) if part)


def format_tool_result(message: ToolResultMessage) -> str:
    return f"<tool_response>\n{_escape_tags(message.output)}\n</tool_response>"


def format_prompt(request: ModelRequest) -> str:
    """The conversation as one text; tools are not offered. A single message is passed on unchanged."""
    system = request.system_prompt
    match request.messages:
        case [UserMessage() as only]:
            parts = [system, _user_text(only)]
        case messages:
            parts = [system, *_format_messages(messages), _CONTINUE]
    return "\n\n".join(part for part in parts if part)


def _format_messages(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        match message:
            case UserMessage():
                yield f"<user>\n{_escape_tags(_user_text(message))}\n</user>"
            case AssistantMessage():
                text = "\n".join((_escape_tags(message.text), *map(_format_call, message.tool_calls)))
                yield f"<assistant>\n{text.strip()}\n</assistant>"
            case ToolResultMessage():
                yield format_tool_result(message) + NO_IMAGE * len(message.images)
            case _:
                assert_never(message)


def _user_text(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(NO_IMAGE if isinstance(part, ImageContent) else part.text for part in message.content)


def _format_call(call: ToolCall) -> str:
    encoded = to_json({"name": call.name, "arguments": call.arguments}).decode()
    return f"<tool_call>\n{_escape_tags(encoded)}\n</tool_call>"


def _escape_tags(text: str) -> str:
    return regex(_OWN_TAG).sub(r"<\\", text)
