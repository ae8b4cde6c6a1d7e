"""Encodes request bodies of the Responses API."""

from __future__ import annotations

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
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ModelRequest, ToolSpec
from newel.providers.http.message_cache import MessageCache, ToolsCache
from newel.providers.openai.encoder import image_placeholder, move_result_images
from newel.providers.signatures import own_signature
from newel.text.json import decode_json, regex, to_json

FIELD = "responses"
"""``ThinkingContent.field`` of this API's reasoning."""

MIN_OUTPUT = 16
"""The smallest output limit that the API accepts."""

MAX_ID = 64
"""Characters of an id that the API accepts."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_UNRELATED_STATUSES = (401, 403, 429)
_OTHER_API = r"(?i)chat[/ ]completions"
_REASONING_BACK = (
    r"(?i)could not be (?:verified|decrypted)|invalid_encrypted_content|required following item"
    r"|required '?reasoning|items are not persisted|\brs_\w+"
)
_SUMMARY = r"(?i)reasoning[_ .]summar|'summary'"
_INCLUDE = r"(?i)encrypted[_ ]content|['\".]include\b|include\["
_EFFORT_VALUES = r"(?i)(?:supported values are|must be one of|one of|should be)\b:?(.{1,200})"
_EFFORT = r"(?i)reasoning[_ .]?effort|\.effort\b|'(?:none|minimal|low|medium|high)'"
_REASONING = r"(?i)reasoning|does not support thinking"
_RESULT_IMAGES = r"(?i)function_call_output|\boutput\b|input_image|tool (?:result|message)"
_REFUSES = (
    r"(?i)support|cannot|can't|must|disabled|not (?:allowed|permitted|implemented|available|valid)|invalid"
    r"|unknown|unexpected|unrecognized|extra"
)
_OPTIONS = {
    "prompt_cache_key": r"prompt_cache_key",
    "parallel_tool_calls": r"(?i)parallel[_ ]tool[_ ]calls",
    "max_output_tokens": r"max_output_tokens",
    "store": r"(?i)(?:unknown|unsupported|unexpected)[^.]{0,40}\bstore\b|\bstore: extra",
    "stream": r"(?i)\bstream(?:ing|ed)?\b",
}
"""Options that a request can do without, and their mention in a rejection."""


class ResponsesCompat(msgspec.Struct, frozen=True):
    """The features of the protocol that a server supports for a model, learned from its rejections."""

    without: frozenset[str] = frozenset()
    """The options that it rejects: names of parameters, and ``reasoning.summary``."""
    efforts: tuple[str, ...] = ()
    """The reasoning efforts that it accepts; empty if unknown."""
    reasoning_back: bool = True
    """Whether it accepts its earlier reasoning."""
    result_images: bool = True
    """Whether results may contain images."""

    def adapted_to(self, error: ProviderError, request: ModelRequest) -> tuple[ResponsesCompat, str] | None:
        """Return the features to try next and a description; None if the rejection has another reason."""
        message = str(error)
        if error.status is None or error.status in _UNRELATED_STATUSES or regex(_OTHER_API).search(message):
            return None
        if isinstance(error, ContextOverflow):
            is_limit = request.model.max_output and _OPTIONS["max_output_tokens"] in message
            return self._omit("max_output_tokens") if is_limit else None
        if self.reasoning_back and regex(_REASONING_BACK).search(message) and _has_reasoning(request):
            return replace(self, reasoning_back=False), "without the earlier reasoning"
        return self._without_reasoning_option(message, request) or self._without_option(message, request)

    def _without_reasoning_option(
        self, message: str, request: ModelRequest
    ) -> tuple[ResponsesCompat, str] | None:
        if regex(_INCLUDE).search(message) and (adapted := self._omit("include")):
            return adapted
        if request.thinking == "off" or "reasoning" in self.without:
            return None
        if regex(_SUMMARY).search(message):
            return self._omit("reasoning.summary") or self._omit("reasoning")
        if regex(_EFFORT).search(message) and not self.efforts:
            listed = regex(_EFFORT_VALUES).search(message)
            efforts = tuple(effort for effort in EFFORTS if listed and f"'{effort}'" in listed[1])
            if efforts and request.thinking not in efforts:
                adapted = replace(self, efforts=efforts)
                return adapted, f"with the reasoning effort {adapted.effort(request.thinking)}"
        if regex(_REASONING).search(message) and regex(_REFUSES).search(message):
            return self._omit("reasoning")
        return None

    def _without_option(self, message: str, request: ModelRequest) -> tuple[ResponsesCompat, str] | None:
        if self.result_images and regex(_RESULT_IMAGES).search(message) and _has_result_images(request):
            return replace(self, result_images=False), "with the images of results in a message"
        if not regex(_REFUSES).search(message):
            return None
        mentioned = (name for name, pattern in _OPTIONS.items() if regex(pattern).search(message))
        return next((adapted for name in mentioned if (adapted := self._omit(name))), None)

    def _omit(self, name: str) -> tuple[ResponsesCompat, str] | None:
        if name in self.without:
            return None
        return replace(self, without=self.without | {name}), f"without {name}"

    def effort(self, asked: str) -> str:
        """Return the accepted effort that is nearest to the one asked for, a higher one rather than none."""
        if not self.efforts:
            return asked
        at = EFFORTS.index(asked)
        higher = [effort for effort in EFFORTS[at:] if effort in self.efforts]
        return higher[0] if higher else self.efforts[-1]


def _has_reasoning(request: ModelRequest) -> bool:
    return any(
        isinstance(part, ThinkingContent) and part.field == FIELD
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for part in message.content
    )


def _has_result_images(request: ModelRequest) -> bool:
    return any(isinstance(message, ToolResultMessage) and message.images for message in request.messages)


class ReasoningSignature(msgspec.Struct, frozen=True, omit_defaults=True):
    """The opaque part of a reasoning item, as JSON in ``ThinkingContent.signature``. ``is_raw`` if the server sends the reasoning
    itself, not a summary. ``message_id`` and ``phase`` are those of the text that follows: OpenAI checks that they stay
    together, and asks for the phase.
    """

    id: str
    encrypted: str = ""
    is_raw: bool = False
    message_id: str = ""
    phase: str = ""


def read_signature(part: ThinkingContent) -> ReasoningSignature | None:
    """Return the signature of reasoning that the API accepts back; None for other reasoning.

    Without encrypted content, a server that stores nothing knows the reasoning only if it sent the whole text.
    """
    if part.field != FIELD or not part.signature:
        return None
    try:
        signature = decode_json(part.signature, ReasoningSignature)
    except msgspec.DecodeError:
        return None
    return signature if signature.encrypted or (signature.is_raw and part.thinking) else None


class ResponsesEncoder:
    """Encodes the requests of one client, one conversation at a time. ``provider`` is the client's name."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._messages = MessageCache()
        self._tools = ToolsCache()

    def body(self, request: ModelRequest, compat: ResponsesCompat) -> bytes:
        """Return the JSON of a request."""
        own = (self._provider, request.model.id) if compat.reasoning_back else None
        encode = partial(_encode_messages, own=own, result_images=compat.result_images)
        items = self._messages.encode(request.messages, encode, (own, compat.result_images))
        head = to_json(_options(request, compat))[:-1]
        tools = b',"tools":' + self._tools.encode(request.tools, _encode_tool) if request.tools else b""
        system = b',"instructions":' + to_json(request.system_prompt) if request.system_prompt else b""
        return b"".join((head, tools, system, b',"input":[', items, b"]}"))


def _options(request: ModelRequest, compat: ResponsesCompat) -> dict[str, Any]:
    options: dict[str, Any] = {
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if request.messages:
        options["prompt_cache_key"] = f"newel-{request.messages[0].id}"[:MAX_ID]
    if request.thinking != "off":
        options["reasoning"] = {"effort": compat.effort(request.thinking)}
        if "reasoning.summary" not in compat.without:
            options["reasoning"]["summary"] = "auto"
    if request.model.max_output:
        options["max_output_tokens"] = max(request.model.max_output, MIN_OUTPUT)
    if request.tools:
        options["parallel_tool_calls"] = True
    return {"model": request.model.id} | {
        name: value for name, value in options.items() if name not in compat.without
    }


def _encode_tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _encode_messages(
    messages: Sequence[Message], *, own: tuple[str, str] | None, result_images: bool
) -> list[dict[str, Any]]:
    """Convert messages to items. ``own`` are the provider and model whose reasoning is sent back."""
    items: list[dict[str, Any]] = []
    for message in messages if result_images else move_result_images(messages):
        match message:
            case UserMessage():
                items.append({"type": "message", "role": "user", "content": _encode_user(message)})
            case AssistantMessage():
                items += _encode_assistant(message, is_own=(message.provider, message.model) == own)
            case ToolResultMessage():
                items.append(
                    {
                        "type": "function_call_output",
                        "call_id": _short_id(message.tool_call_id),
                        "output": _encode_result(message),
                    }
                )
            case _:
                assert_never(message)
    return items


def _encode_assistant(message: AssistantMessage, *, is_own: bool) -> Iterator[dict[str, Any]]:
    """Ids go back only with all of the reasoning: the server checks that each item comes with its own."""
    thoughts = [part for part in message.content if isinstance(part, ThinkingContent)]
    is_own = is_own and all(read_signature(part) for part in thoughts)
    waiting: list[dict[str, Any]] = []
    """Reasoning whose following item has not come: alone it would be refused."""
    signature: ReasoningSignature | None = None
    for position, part in enumerate(message.content):
        match part:
            case ThinkingContent():
                signature = read_signature(part) if is_own else None
                if signature:
                    waiting.append(_encode_reasoning(part, signature))
                continue
            case TextContent():
                if not part.text:
                    continue
                yield from waiting
                yield _encode_text(part.text, signature, f"msg_{position}_{message.id}"[:MAX_ID])
            case ToolCall():
                yield from waiting
                yield _encode_call(part, is_own=is_own)
            case _:
                assert_never(part)
        waiting, signature = [], None


def _encode_reasoning(part: ThinkingContent, signature: ReasoningSignature) -> dict[str, Any]:
    kind = "reasoning_text" if signature.is_raw else "summary_text"
    texts = [{"type": kind, "text": part.thinking}] if part.thinking else []
    item: dict[str, Any] = {"type": "reasoning", "id": signature.id, "summary": []}
    item["content" if signature.is_raw else "summary"] = texts
    if signature.encrypted:
        item["encrypted_content"] = signature.encrypted
    return item


def _encode_text(text: str, signature: ReasoningSignature | None, fallback_id: str) -> dict[str, Any]:
    """A text is a whole output message, because many servers accept ``output_text`` only there."""
    item: dict[str, Any] = {
        "type": "message",
        "id": (signature and signature.message_id) or fallback_id,
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    if signature and signature.phase:
        item["phase"] = signature.phase
    return item


def _encode_call(call: ToolCall, *, is_own: bool) -> dict[str, Any]:
    item = {
        "type": "function_call",
        "call_id": _short_id(call.id),
        "name": regex(r"[^a-zA-Z0-9_-]").sub("_", call.name)[:MAX_ID] or "unknown",
        "arguments": to_json(call.arguments).decode(),
    }
    item_id = own_signature(FIELD, call.signature)
    return item | {"id": item_id} if is_own and item_id else item


def _short_id(call_id: str) -> str:
    """Return an id that the API accepts: other servers' may be longer."""
    if 0 < len(call_id) <= MAX_ID:
        return call_id
    from hashlib import sha256

    return f"call_{sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:48]}"


def _encode_user(message: UserMessage) -> str | list[dict[str, Any]]:
    return message.content if isinstance(message.content, str) else [_encode_part(p) for p in message.content]


def _encode_result(message: ToolResultMessage) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.output
    return [_encode_part(TextContent(message.output)), *map(_encode_part, message.images)]


def _encode_part(part: TextContent | ImageContent) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "input_text", "text": part.text}
    if placeholder := image_placeholder(part):
        return {"type": "input_text", "text": placeholder}
    url = f"data:{part.mime_type};base64,{part.data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}
