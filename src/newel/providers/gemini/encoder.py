"""Encodes request bodies of the Gemini API."""

from __future__ import annotations

from collections.abc import Sequence
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
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ModelRequest, ToolSpec
from newel.providers.gemini.thinking import ThinkingSetting, requires_signatures, style_of
from newel.providers.http.message_cache import MessageCache, ToolsCache
from newel.providers.openai.encoder import image_placeholder
from newel.providers.signatures import own_signature
from newel.text.json import regex, to_json

REASONING = "gemini"
"""The ``field`` of this API's reasoning. Without text it is the signature of the text before it."""

SKIP_SIGNATURE = "skip_thought_signature_validator"
"""The documented signature for calls that another model made."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

_UNKNOWN_ID = 'Unknown name "id"'
_MENTIONS_SIGNATURE = r"(?i)thought_?\s?signature"
_MENTIONS_THINKING = r"(?i)(?<!-)\bthinking(?!-)|budget -?\d+ is invalid"
_MENTIONS_SCHEMA = r"(?i)parameters_?json_?schema"
_MENTIONS_LIMIT = r"(?i)max_?output_?tokens"
_MENTIONS_STREAM = r"(?i)\bstream(?:ing|ed)?\b"
_REFUSES = r"(?i)support|cannot|not (?:found|allowed|implemented|available)|disabled|unknown"
_UNRELATED_STATUSES = (401, 403, 429)
_NOT_IN_NAMES = r"[^A-Za-z0-9_.:-]"


class GeminiCompat(msgspec.Struct, frozen=True):
    """The features that a server supports for a model, learned from its rejections. None: as the model's name says."""

    stream: bool = True
    limit: bool = True
    json_schema: bool = True
    """Whether the schemas of tools may be JSON Schemas."""
    call_ids: bool = True
    thinking: ThinkingSetting | None = None
    signatures: bool | None = None
    """Whether calls of other models need a signature in place of their own."""

    def style(self, model: str) -> ThinkingSetting:
        """Return how a model is asked to think."""
        return style_of(model) if self.thinking is None else self.thinking

    def signs(self, model: str) -> bool:
        """Return whether a model's calls need a signature."""
        return requires_signatures(model) if self.signatures is None else self.signatures

    def adapted_to(self, error: ProviderError, request: ModelRequest) -> tuple[GeminiCompat, str] | None:
        """Return the features to try next and a description; None if the rejection has another reason."""
        message, model = str(error), model_name(request)
        if error.status in (None, *_UNRELATED_STATUSES) or isinstance(error, ContextOverflow):
            return None
        if regex(_MENTIONS_SIGNATURE).search(message):
            return None if self.signs(model) else (replace(self, signatures=True), "with signatures of calls")
        if self.call_ids and _UNKNOWN_ID in message:
            return replace(self, call_ids=False), "without ids of calls"
        if self.json_schema and request.tools and regex(_MENTIONS_SCHEMA).search(message):
            return replace(self, json_schema=False), "with simpler schemas of the tools"
        if regex(_MENTIONS_THINKING).search(message) and (style := self.style(model).fallback()):
            return replace(self, thinking=style), "with another setting of thinking"
        if self.limit and request.model.max_output and regex(_MENTIONS_LIMIT).search(message):
            return replace(self, limit=False), "without maxOutputTokens"
        if self.stream and regex(_MENTIONS_STREAM).search(message) and regex(_REFUSES).search(message):
            return replace(self, stream=False), "without streaming"
        return None


def model_name(request: ModelRequest) -> str:
    """Return the name of the model, without the prefix that lists of models have."""
    return request.model.id.removeprefix("models/")


class GeminiEncoder:
    """Encodes the requests of one client, one conversation at a time. ``provider`` is the client's name in messages."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._messages = MessageCache()
        self._tools = ToolsCache()

    def body(self, request: ModelRequest, compat: GeminiCompat) -> bytes:
        """Return the JSON of a ``generateContent`` request."""
        model = model_name(request)
        key = (request.model.id, compat.signs(model), compat.call_ids)
        encode = partial(_encode_contents, history=_History(self._provider, *key))
        contents = self._messages.encode(request.messages, encode, key)
        config: dict[str, Any] = {}
        if thinking := compat.style(model).config(request.thinking):
            config["thinkingConfig"] = thinking
        if request.model.max_output and compat.limit:
            config["maxOutputTokens"] = request.model.max_output
        members: list[bytes] = []
        if config:
            members.append(b'"generationConfig":' + to_json(config))
        if request.tools:
            encode_tool = partial(_encode_tool, json_schema=compat.json_schema)
            declarations = self._tools.encode(request.tools, encode_tool, compat.json_schema)
            members.append(b'"tools":[{"functionDeclarations":' + declarations + b"}]")
        if request.system_prompt:
            members.append(b'"systemInstruction":' + to_json({"parts": [{"text": request.system_prompt}]}))
        members.append(b'"contents":[' + contents + b"]")
        return b"{" + b",".join(members) + b"}"


def _encode_tool(tool: ToolSpec, *, json_schema: bool) -> dict[str, Any]:
    declaration: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if json_schema:
        return declaration | {"parametersJsonSchema": tool.parameters}
    from newel.providers.gemini.schema import plain_schema

    return declaration | {"parameters": plain_schema(tool.parameters)}


# -- messages --------------------------------------------------------------------------------------


class _History(msgspec.Struct, frozen=True):
    """For whom a history is encoded, and what the model accepts."""

    provider: str
    model: str
    signs: bool
    call_ids: bool


def _encode_contents(messages: Sequence[Message], *, history: _History) -> list[dict[str, Any]]:
    """Convert messages to contents. The results of one message's calls become one content, as the API demands."""
    contents: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if not results:
                contents.append({"role": "user", "parts": results})
            results += _encode_result(message, history)
            continue
        results = []
        match message:
            case UserMessage():
                contents.append({"role": "user", "parts": _encode_user(message)})
            case AssistantMessage():
                if parts := _encode_assistant(message, history):
                    contents.append({"role": "model", "parts": parts})
            case _:
                assert_never(message)
    return contents


def _encode_user(message: UserMessage) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"text": message.content}]
    parts = [
        {"text": part.text} if isinstance(part, TextContent) else _encode_image(part)
        for part in message.content
    ]
    return parts or [{"text": ""}]


def _encode_assistant(message: AssistantMessage, history: _History) -> list[dict[str, Any]]:
    is_own = (message.provider, message.model) == (history.provider, history.model)
    parts: list[dict[str, Any]] = []
    lacks_signature = history.signs  # the first call of a message carries the signature for all
    for part in message.content:
        match part:
            case TextContent():
                if part.text:
                    parts.append({"text": part.text})
            case ThinkingContent():
                if is_own and part.field == REASONING and part.signature:
                    _add_signature(parts, part.thinking, part.signature)
            case ToolCall():
                encoded = _encode_call(part, history)
                if is_own and (signature := own_signature(REASONING, part.signature)):
                    encoded["thoughtSignature"] = signature
                elif lacks_signature:
                    encoded["thoughtSignature"] = SKIP_SIGNATURE
                lacks_signature = False
                parts.append(encoded)
            case _:
                assert_never(part)
    return parts


def _add_signature(parts: list[dict[str, Any]], thought: str, signature: str) -> None:
    """Add a signed thought; one without text signs the text before it."""
    if thought:
        parts.append({"text": thought, "thought": True, "thoughtSignature": signature})
    elif parts and set(parts[-1]) == {"text"}:
        parts[-1]["thoughtSignature"] = signature
    else:
        parts.append({"text": "", "thoughtSignature": signature})


def _encode_call(call: ToolCall, history: _History) -> dict[str, Any]:
    function = _function(call.id, call.name, history)
    return {"functionCall": function | {"args": call.arguments}}


def _encode_result(result: ToolResultMessage, history: _History) -> list[dict[str, Any]]:
    """Return the parts of a result. Its images follow it: only the newest models take them inside."""
    placeholders = [text for image in result.images if (text := image_placeholder(image, IMAGE_TYPES))]
    output = "\n".join([result.output, *placeholders])
    function = _function(result.tool_call_id, result.tool_name, history)
    response = {"error" if result.is_error else "output": output}
    images = [_encode_image(image) for image in result.images if not image_placeholder(image, IMAGE_TYPES)]
    return [{"functionResponse": function | {"response": response}}, *images]


def _function(call_id: str, name: str, history: _History) -> dict[str, Any]:
    """Return what a call and its result have in common. A name that a model invented may not be a valid one."""
    valid_name = regex(_NOT_IN_NAMES).sub("_", name)[:128] or "unknown"
    return ({"id": call_id} if history.call_ids else {}) | {"name": valid_name}


def _encode_image(image: ImageContent) -> dict[str, Any]:
    if placeholder := image_placeholder(image, IMAGE_TYPES):
        return {"text": placeholder}
    return {"inlineData": {"mimeType": image.mime_type, "data": image.data}}
