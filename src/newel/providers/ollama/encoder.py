"""Request bodies of Ollama's ``/api/chat`` (``docs/api.md`` and ``api/types.go`` at v0.33.0).

Arguments of calls are objects there, images a list of base64 beside the text, and a tool's result names the tool.
Servers pass over fields that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ModelRequest
from newel.providers.ollama.model_info import Served
from newel.providers.openai.encoder import images_behind_results, instead_of, wire_tool
from newel.providers.parsing import text_protocol
from newel.text.json import to_json

BLIND = "[Image omitted: this model does not accept images.]"
LEVELS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}


def messages_json(request: ModelRequest, served: Served) -> bytes:
    """The conversation, with the system prompt before it."""
    system = request.system_prompt
    if not served.tools:
        system = text_protocol.told_of_tools(system, request.tools)
    first = [{"role": "system", "content": system}] if system else []
    return to_json([*first, *_wire_messages(request.messages, served)])


def body(
    messages: bytes,
    request: ModelRequest,
    served: Served,
    *,
    schema: object = None,
) -> bytes:
    """The JSON of a request; ``messages`` as made above."""
    options: dict[str, Any] = {"num_ctx": served.num_ctx}
    if request.model.max_output:
        options["num_predict"] = request.model.max_output
    fields: dict[str, Any] = {
        "model": request.model.id,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": options,
    }
    if served.think != "none":
        level = LEVELS.get(request.thinking, False)
        fields["think"] = bool(level) if served.think == "switch" else level
    if request.tools and served.tools:
        fields["tools"] = [wire_tool(tool) for tool in request.tools]
    if schema is not None:
        fields["format"] = schema
    return b"".join((to_json(fields)[:-1], b',"messages":', messages, b"}"))


def _wire_messages(messages: Sequence[Message], served: Served) -> Iterator[dict[str, Any]]:
    for message in images_behind_results(messages):
        match message:
            case UserMessage():
                yield {"role": "user"} | _user_content(message, served)
            case AssistantMessage():
                if message.text or message.tool_calls:
                    yield {"role": "assistant"} | _assistant_content(message, served)
            case ToolResultMessage() if served.tools:
                result = {"role": "tool", "content": message.output, "tool_name": message.tool_name}
                yield result | {"tool_call_id": message.tool_call_id}
            case ToolResultMessage():
                yield {"role": "user", "content": text_protocol.of_result(message)}
            case _:
                assert_never(message)


def _assistant_content(message: AssistantMessage, served: Served) -> dict[str, Any]:
    if not served.tools:
        return {"content": text_protocol.of_assistant(message)}
    content: dict[str, Any] = {"content": message.text}
    if thoughts := "".join(part.thinking for part in message.content if isinstance(part, ThinkingContent)):
        content["thinking"] = thoughts
    if message.tool_calls:
        content["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return content


def _user_content(message: UserMessage, served: Served) -> dict[str, Any]:
    parts = [TextContent(message.content)] if isinstance(message.content, str) else message.content
    texts: list[str] = []
    images: list[str] = []
    for part in parts:
        match part:
            case TextContent():
                texts.append(part.text)
            case ImageContent():
                if words := instead_of(part) if served.images else BLIND:
                    texts.append(words)
                else:
                    images.append(part.data)
            case _:
                assert_never(part)
    content: dict[str, Any] = {"content": "".join(texts)}
    return content | {"images": images} if images else content
