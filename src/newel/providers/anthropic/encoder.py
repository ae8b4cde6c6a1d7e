"""Encodes request bodies of the Messages API."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any

from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ModelRequest, ToolSpec
from newel.providers.anthropic.compat import REDACTED_FIELD, THINKING_FIELD, MessagesCompat, last_user_id
from newel.providers.anthropic.thinking import thinking_options, thinking_style
from newel.providers.http.message_cache import MessageCache, ToolsCache
from newel.providers.openai.encoder import image_placeholder
from newel.text.json import regex, to_json

CACHED = {"type": "ephemeral"}
MARK = b',"cache_control":{"type":"ephemeral"}'
BLOCK_END = b"}]}"
"""The end of a message whose content is a list of blocks."""

CONTINUE = b'{"role":"user","content":[{"type":"text","text":"Continue."}]}'
EMPTY_MESSAGE = "(empty message)"
NO_OUTPUT = "(no output)"
"""Texts in place of blank ones, which the API refuses."""

UNSUPPORTED_SCHEMA_KEYS = ("oneOf", "anyOf", "allOf")
"""Keywords that the API refuses at the top of a tool's schema."""

_VALID_ID = r"[a-zA-Z0-9_-]{1,64}"
_INVALID_IN_NAMES = r"[^a-zA-Z0-9_-]"
MAX_NAME = 128


class MessagesEncoder:
    """Encodes the requests of one client, one conversation at a time. ``provider`` is the client's name in messages."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._messages = MessageCache()
        self._tools = ToolsCache()

    def body(self, request: ModelRequest, compat: MessagesCompat) -> bytes:
        """Return the JSON of a request."""
        refused, max_tokens = compat.refused, compat.limit(request)
        options: dict[str, Any] = {"model": request.model.id, "max_tokens": max_tokens}
        if "stream" not in refused:
            options["stream"] = True
        thoughts = Thoughts(self._provider, request, compat.stale_until)
        level = request.thinking if _may_think(request, compat, thoughts) else "off"
        options |= thinking_options(thinking_style(request.model.id), level, refused, max_tokens)
        if "automatic caching" not in refused:
            # The server marks the last block itself, so that the bytes of earlier messages stay the same.
            options["cache_control"] = CACHED
        tools = b',"tools":' + self._tools.encode(request.tools, _encode_tool) if request.tools else b""
        system = b""
        if request.system_prompt.strip():
            block: dict[str, Any] = {"type": "text", "text": request.system_prompt}
            if "explicit caching" not in refused:
                block["cache_control"] = CACHED
            system = b',"system":' + to_json([block])
        messages = self._messages_json(request.messages, compat, thoughts)
        return b"".join((to_json(options)[:-1], tools, system, b',"messages":[', messages, b"]}"))

    def _messages_json(self, messages: list[Message], compat: MessagesCompat, thoughts: Thoughts) -> bytes:
        encode = partial(_encode_messages, thoughts=thoughts)
        if "consecutive roles" in compat.refused:
            encoded = b",".join(map(to_json, _merge_roles(encode(messages))))
        else:
            encoded = self._messages.encode(messages, encode, thoughts.key)
        if messages and isinstance(messages[-1], AssistantMessage):
            encoded += (b"," if encoded else b"") + CONTINUE  # newer models refuse to continue their own text
        marked_by_server = "automatic caching" not in compat.refused
        if marked_by_server or "explicit caching" in compat.refused or not encoded.endswith(BLOCK_END):
            return encoded
        return encoded.removesuffix(BLOCK_END) + MARK + BLOCK_END


class Thoughts:
    """Selects the thoughts that are sent back: those of the requested model at this provider, up to no change of the
    conversation that would invalidate their signatures.
    """

    def __init__(self, provider: str, request: ModelRequest, stale_until: str) -> None:
        self.key = (request.model.id, stale_until)
        """What the selection depends on, besides the messages."""
        self._origin = (provider, request.model.id)
        ids = [message.id for message in request.messages] if stale_until else []
        stale = ids.index(stale_until) + 1 if stale_until in ids else 0
        self._stale: Collection[str] = set(ids[:stale])

    def of(self, message: AssistantMessage) -> Iterator[ThinkingContent]:
        """Yield the thoughts of a message that are sent back."""
        if (message.provider, message.model) != self._origin or message.id in self._stale:
            return
        # Some servers sign nothing; Claude's thoughts lack a signature only if they broke off.
        is_complete = message.stop_reason in _COMPLETE
        for part in message.content:
            if not isinstance(part, ThinkingContent) or part.field not in _THOUGHT_FIELDS:
                continue
            if part.signature or is_complete:
                yield part


_THOUGHT_FIELDS = (THINKING_FIELD, REDACTED_FIELD)
_COMPLETE = ("stop", "toolUse")


def _may_think(request: ModelRequest, compat: MessagesCompat, thoughts: Thoughts) -> bool:
    """Whether the model may think now. A turn with calls that began without thinking, with another model, must end without it
    wherever thinking has a budget.
    """
    if compat.unthinking_turn and compat.unthinking_turn == last_user_id(request.messages):
        return False
    style = thinking_style(request.model.id)
    if next((each for each in style.on if each not in compat.refused), None) != "enabled":
        return True
    first = _first_of_turn(request.messages)
    return first is None or next(thoughts.of(first), None) is not None


def _first_of_turn(messages: Sequence[Message]) -> AssistantMessage | None:
    """Return the message that began the current chain of calls and results; None if no result is the latest word.

    Messages of the user right behind results belong to the chain.
    """
    first = None
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            if not message.tool_calls:
                break
            first = message
        elif isinstance(message, UserMessage) and first is not None:
            break
    return first


def _encode_messages(messages: Sequence[Message], *, thoughts: Thoughts) -> list[dict[str, Any]]:
    """Convert messages to the API's format. Results in a row become one message, as the API wants."""
    wire: list[dict[str, Any]] = []
    for is_result, group in groupby(messages, lambda message: isinstance(message, ToolResultMessage)):
        if is_result:
            blocks = [_encode_result(each) for each in group if isinstance(each, ToolResultMessage)]
            wire.append({"role": "user", "content": blocks})
            continue
        for message in group:
            if isinstance(message, UserMessage):
                wire.append({"role": "user", "content": _encode_user(message)})
            elif isinstance(message, AssistantMessage) and (blocks := _encode_assistant(message, thoughts)):
                wire.append({"role": "assistant", "content": blocks})
    return wire


def _merge_roles(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge messages of one role in a row, which the API itself accepts, and some servers that imitate it do not."""
    return [
        {"role": role, "content": [block for message in group for block in message["content"]]}
        for role, group in groupby(messages, lambda message: message["role"])
    ]


def _encode_assistant(message: AssistantMessage, thoughts: Thoughts) -> list[dict[str, Any]]:
    kept = {id(part) for part in thoughts.of(message)}
    blocks: list[dict[str, Any]] = []
    said = 0
    for part in message.content:
        match part:
            case TextContent():
                if not part.text.strip():
                    continue
                blocks.append({"type": "text", "text": part.text})
            case ToolCall():
                call = {"type": "tool_use", "id": wire_id(part.id), "name": wire_name(part.name)}
                blocks.append(call | {"input": part.arguments})
            case ThinkingContent():
                if id(part) in kept:
                    blocks.append(_encode_thought(part))
                continue
        said = len(blocks)
    return blocks[:said]  # thoughts at the end, with nothing after them, are refused


def _encode_thought(part: ThinkingContent) -> dict[str, Any]:
    if part.field == REDACTED_FIELD:
        return {"type": "redacted_thinking", "data": part.signature}
    return {"type": "thinking", "thinking": part.thinking, "signature": part.signature or ""}


def _encode_user(message: UserMessage) -> list[dict[str, Any]]:
    parts = [TextContent(message.content)] if isinstance(message.content, str) else message.content
    return list(_encode_parts(parts)) or [_text(EMPTY_MESSAGE)]


def _encode_result(result: ToolResultMessage) -> dict[str, Any]:
    blocks = list(_encode_parts([TextContent(result.output), *result.images])) or [_text(NO_OUTPUT)]
    wire: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": wire_id(result.tool_call_id),
        "content": blocks,
    }
    return wire | {"is_error": True} if result.is_error else wire


def _encode_parts(parts: Sequence[TextContent | ImageContent]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if isinstance(part, ImageContent):
            yield _encode_image(part)
        elif part.text.strip():
            yield _text(part.text)


def _encode_image(image: ImageContent) -> dict[str, Any]:
    if placeholder := image_placeholder(image):
        return _text(placeholder)
    source = {"type": "base64", "media_type": image.mime_type, "data": image.data}
    return {"type": "image", "source": source}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def wire_id(call_id: str) -> str:
    """Return the id of a call as the API accepts it: other providers use characters that it refuses."""
    if regex(_VALID_ID).fullmatch(call_id):
        return call_id
    return f"toolu_{sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:24]}"


def wire_name(name: str) -> str:
    """Return the name of a tool that a model called as the API accepts it, also if there is no such tool."""
    return regex(_INVALID_IN_NAMES).sub("_", name)[:MAX_NAME] or "_"


def _encode_tool(tool: ToolSpec) -> dict[str, Any]:
    schema = {key: value for key, value in tool.parameters.items() if key not in UNSUPPORTED_SCHEMA_KEYS}
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": schema | {"type": "object"},
    }
