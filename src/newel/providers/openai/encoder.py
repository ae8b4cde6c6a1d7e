"""Encodes request bodies of chat completions."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from newel.agent.errors import ContextOverflow, ProviderError
from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ModelRequest, ToolSpec
from newel.providers.http.message_cache import MessageCache, ToolsCache
from newel.text.json import regex, to_json

_MENTIONS_LIMIT = r"max_(?:completion_)?tokens"
_MENTIONS_EFFORT = r"(?i)reasoning[_ .]effort|does not support thinking"
_MENTIONS_STREAM = r"(?i)\bstream(?:ing|ed)?\b"
_MENTIONS_SCHEMA = r"(?i)response_format|json_schema|grammar|structured output"
_REFUSES = (
    r"(?i)support|cannot|can't|must|disabled|not (?:allowed|permitted|implemented|available|valid)|invalid"
    r"|unknown|unexpected|unrecognized|extra"
)
_REQUIRES = r"(?i)missing|required|must be|passed back"
_REASONING = "reasoning_content"
_UNRELATED_STATUSES = (401, 403, 429)
_FOR_RESPONSES = (
    r"(?i)(?:supported in|use|via|through|with) (?:the )?`?/?v1/responses|not a chat model|responses api"
    r"|not accessible via the /chat/completions"
)


def is_for_responses(error: ProviderError) -> bool:
    """Whether a server rejected a request because the model, or its options, need the Responses API."""
    return error.status in (400, 404) and regex(_FOR_RESPONSES).search(str(error)) is not None


class ServerCompat(msgspec.Struct, frozen=True):
    """The features of the protocol that a server supports for a model, learned from its rejections."""

    stream: bool = True
    stream_options: bool = True
    reasoning_effort: bool = True
    limit: str | None = "max_tokens"
    """The name of the output limit. All servers know this one; only the newest models reject it."""
    reasoning_back: str | None = None
    """The field in which the model's earlier reasoning is sent back. Most servers want none, and some
    reject it, so it is sent only to one that has asked for it."""
    response_schema: bool = True

    def adapted_to(self, error: ProviderError, request: ModelRequest) -> tuple[ServerCompat, str] | None:
        """Return the features to try next and a description; None if the rejection has another reason."""
        message = str(error)
        if error.status is None or error.status in _UNRELATED_STATUSES or is_for_responses(error):
            return None
        if request.model.max_output and self.limit and regex(_MENTIONS_LIMIT).search(message):
            other_name = "max_completion_tokens" if self.limit == "max_tokens" else None
            limit = None if isinstance(error, ContextOverflow) else other_name
            return msgspec.structs.replace(self, limit=limit), f"without {self.limit}"
        if isinstance(error, ContextOverflow):
            return None
        if self.stream and self.stream_options and "stream_options" in message:
            return msgspec.structs.replace(self, stream_options=False), "without stream_options"
        if self.reasoning_effort and request.thinking != "off" and regex(_MENTIONS_EFFORT).search(message):
            return msgspec.structs.replace(self, reasoning_effort=False), "without reasoning_effort"
        if self.response_schema and request.response_schema and regex(_MENTIONS_SCHEMA).search(message):
            return msgspec.structs.replace(self, response_schema=False), "without a schema for the answer"
        if not self.reasoning_back and _REASONING in message and regex(_REQUIRES).search(message):
            return msgspec.structs.replace(self, reasoning_back=_REASONING), f"with the earlier {_REASONING}"
        if self.stream and regex(_MENTIONS_STREAM).search(message) and regex(_REFUSES).search(message):
            return msgspec.structs.replace(self, stream=False), "without streaming"
        return None


IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

MAX_TYPE_LENGTH = 40
"""Characters of a wrong type that are shown."""


class Encoder:
    """Encodes the requests of one client, one conversation at a time."""

    def __init__(self) -> None:
        self._messages = MessageCache()
        self._tools = ToolsCache()

    def body(self, request: ModelRequest, compat: ServerCompat) -> bytes:
        """Return the JSON of a chat completions request."""
        encode = partial(_encode_messages, reasoning_back=compat.reasoning_back)
        messages = self._messages.encode(request.messages, encode, compat.reasoning_back)
        options: dict[str, Any] = {"model": request.model.id}
        if compat.stream:
            options["stream"] = True
            if compat.stream_options:
                options["stream_options"] = {"include_usage": True}
        if request.thinking != "off" and compat.reasoning_effort:
            options["reasoning_effort"] = request.thinking
        if request.model.max_output and compat.limit:
            options[compat.limit] = request.model.max_output
        if request.response_schema and compat.response_schema:
            named = {"name": "answer", "strict": True, "schema": request.response_schema}
            options["response_format"] = {"type": "json_schema", "json_schema": named}
        tools = b',"tools":' + self._tools.encode(request.tools, encode_tool) if request.tools else b""
        system = b""
        if request.system_prompt:
            system = to_json({"role": "system", "content": request.system_prompt})
            if messages:
                system += b","
        return b"".join((to_json(options)[:-1], tools, b',"messages":[', system, messages, b"]}"))


def _encode_messages(messages: Sequence[Message], *, reasoning_back: str | None) -> list[dict[str, Any]]:
    """Convert messages to the protocol's format."""
    wire: list[dict[str, Any]] = []
    for message in move_result_images(messages):
        match message:
            case UserMessage():
                wire.append({"role": "user", "content": _encode_user(message)})
            case AssistantMessage():
                if message.text or message.tool_calls:
                    wire.append(_encode_assistant(message, reasoning_back))
            case ToolResultMessage():
                wire.append({"role": "tool", "tool_call_id": message.tool_call_id, "content": message.output})
            case _:
                assert_never(message)
    return wire


def move_result_images(messages: Sequence[Message]) -> Iterator[Message]:
    """Move the images of tool results into a user message after the last result, for protocols whose results are text only
    and must not be separated by other messages.
    """
    images: list[ImageContent] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            images += message.images
            yield replace(message, images=[]) if message.images else message
            continue
        if images:
            yield _images_message(images)
            images = []
        yield message
    if images:
        yield _images_message(images)


def _encode_assistant(message: AssistantMessage, reasoning_back: str | None) -> dict[str, Any]:
    calls = message.tool_calls
    wire: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if reasoning_back:
        thoughts = [part.thinking for part in message.content if isinstance(part, ThinkingContent)]
        wire[reasoning_back] = "".join(thoughts)
    if calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": to_json(call.arguments).decode()},
            }
            for call in calls
        ]
    return wire


def _encode_user(message: UserMessage) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextContent) else _encode_image(part)
        for part in message.content
    ]


def _images_message(images: Sequence[ImageContent]) -> UserMessage:
    return UserMessage([TextContent("Images from the tool results above:"), *images])


def _encode_image(image: ImageContent) -> dict[str, Any]:
    if placeholder := image_placeholder(image):
        return {"type": "text", "text": placeholder}
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


def image_placeholder(image: ImageContent, types: Sequence[str] = IMAGE_TYPES) -> str:
    """Return a text in place of an image that servers reject, which accept ``types``; it would fail every later request of the
    conversation.
    """
    if image.mime_type not in types:
        kind = image.mime_type[:MAX_TYPE_LENGTH]
        listed = f"{', '.join(types[:-1])} or {types[-1]}"
        return f"[Image omitted: its type '{kind}' is not {listed}.]"
    return "" if _is_base64(image.data) else "[Image omitted: its data is not valid base64.]"


def _is_base64(data: str) -> bool:
    try:
        return bool(a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


def encode_tool(tool: ToolSpec) -> dict[str, Any]:
    """Convert a tool to the protocol's format."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }
