"""Request bodies of Ollama's ``/api/chat`` (``docs/api.md`` and ``api/types.go`` at v0.33.0).

Arguments of calls are objects, images a list of base64 beside the text, and a tool result names its tool. Servers
ignore unknown fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
from newel.providers.http.message_cache import MessageCache
from newel.providers.ollama.model_info import ModelProfile
from newel.providers.openai.encoder import encode_tool, image_placeholder, move_result_images
from newel.providers.parsing import text_protocol
from newel.text.json import to_json

NO_IMAGES = "[Image omitted: this model does not accept images.]"
THINKING_FIELDS = ("thinking", None)
"""Where Ollama's models put their reasoning: in a field, or in tags within the text."""

THINK_LEVELS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}


class MessageEncoder:
    """Encodes the messages of one client, one conversation at a time. ``provider`` is the client's name."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._cache = MessageCache()

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """Return the messages of a conversation as a JSON array, with the system prompt first."""
        system = request.system_prompt
        if not profile.tools:
            system = text_protocol.describe_tools(system, request.tools)
        first = [to_json({"role": "system", "content": system})] if system else []
        author = (self._provider, request.model.id)
        encode = partial(_encode_messages, profile=profile, author=author)
        messages = self._cache.encode(request.messages, encode, (profile.tools, profile.images, author))
        return b"[" + b",".join([*first, messages] if messages else first) + b"]"


def body(
    messages: bytes,
    request: ModelRequest,
    profile: ModelProfile,
) -> bytes:
    """The JSON of a request; ``messages`` are those of ``MessageEncoder``."""
    options: dict[str, Any] = {"num_ctx": profile.num_ctx}
    if request.model.max_output:
        options["num_predict"] = request.model.max_output
    fields: dict[str, Any] = {
        "model": request.model.id,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": options,
    }
    if profile.think != "none":
        level = THINK_LEVELS.get(request.thinking, False)
        fields["think"] = bool(level) if profile.think == "switch" else level
    if request.tools and profile.tools:
        fields["tools"] = [encode_tool(tool) for tool in request.tools]
    if request.response_schema is not None:
        fields["format"] = request.response_schema
    return b"".join((to_json(fields)[:-1], b',"messages":', messages, b"}"))


def _encode_messages(
    messages: Sequence[Message], *, profile: ModelProfile, author: tuple[str, str]
) -> list[dict[str, Any]]:
    """Convert messages. ``author`` is the provider and the model, which gets only its own reasoning back."""
    wire: list[dict[str, Any]] = []
    for message in move_result_images(messages):
        match message:
            case UserMessage():
                wire.append({"role": "user"} | _encode_user(message, profile))
            case AssistantMessage():
                if message.text or message.tool_calls:
                    is_own = (message.provider, message.model) == author
                    wire.append({"role": "assistant"} | _encode_assistant(message, profile, is_own=is_own))
            case ToolResultMessage() if profile.tools:
                result = {"role": "tool", "content": message.output, "tool_name": message.tool_name}
                wire.append(result | {"tool_call_id": message.tool_call_id})
            case ToolResultMessage():
                wire.append({"role": "user", "content": text_protocol.format_tool_result(message)})
            case _:
                assert_never(message)
    return wire


def _encode_assistant(message: AssistantMessage, profile: ModelProfile, *, is_own: bool) -> dict[str, Any]:
    if not profile.tools:
        return {"content": text_protocol.format_assistant(message)}
    content: dict[str, Any] = {"content": message.text}
    thoughts = [
        part.thinking
        for part in message.content
        if is_own and isinstance(part, ThinkingContent) and part.field in THINKING_FIELDS
    ]
    if any(thoughts):
        content["thinking"] = "".join(thoughts)
    if message.tool_calls:
        content["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return content


def _encode_user(message: UserMessage, profile: ModelProfile) -> dict[str, Any]:
    parts = [TextContent(message.content)] if isinstance(message.content, str) else message.content
    texts: list[str] = []
    images: list[str] = []
    for part in parts:
        match part:
            case TextContent():
                texts.append(part.text)
            case ImageContent():
                if placeholder := image_placeholder(part) if profile.images else NO_IMAGES:
                    texts.append(placeholder)
                else:
                    images.append(part.data)
            case _:
                assert_never(part)
    content: dict[str, Any] = {"content": "".join(texts)}
    return content | {"images": images} if images else content
