"""Anthropic's Messages API: ``POST /messages``, ``GET /models`` with the header ``anthropic-version``."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from itertools import chain
from typing import Any
from urllib.parse import parse_qs, unquote
from uuid import uuid4

import msgspec

from mock_llm_server.answer import ARGUMENT_PIECE, Answer, Call, tokens
from mock_llm_server.conversation import ChatRequest, Message, Part, Problem, ToolCallRef
from mock_llm_server.dialects.anthropic_problems import find_problem
from mock_llm_server.dialects.base import Dialect
from mock_llm_server.http1 import Request
from mock_llm_server.reply import Reply, json_reply
from mock_llm_server.scenarios import Script

PATH = "/messages"
VERSION_HEADER = "anthropic-version"
STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
DEFAULT_PAGE = 20
"""Models on one page of the list."""

CONTEXT_WINDOW = 200_000
MAX_OUTPUT = 64_000


class WireMessage(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]]


class WireRequest(msgspec.Struct):
    """The fields of a request that select its answer."""

    messages: list[WireMessage]
    model: str = "mock-model"
    system: str | list[Part] | None = None
    stream: bool | None = None


class AnthropicMessages(Dialect):
    """See ``mock_llm_server.dialects.base.Dialect``."""

    path = f"/v1{PATH}"
    content_type = "text/event-stream; charset=utf-8"
    closing = 2

    def __init__(self) -> None:
        self.end = _event("message_stop")

    def handles(self, request: Request) -> bool:
        return _route(request) == PATH

    def read(self, request: Request) -> ChatRequest:
        body = msgspec.json.decode(request.body, type=WireRequest)
        messages = list(chain.from_iterable(map(_read_message, body.messages)))
        if body.system:
            messages.insert(0, Message("system", body.system))
        return ChatRequest(messages if body.messages else [], body.model, body.stream)

    def problem(self, request: Request, conversation: ChatRequest) -> Problem | None:  # noqa: ARG002 — the port's shape
        if VERSION_HEADER not in request.headers:
            return VERSION_HEADER, "header is required"
        return find_problem(msgspec.json.decode(request.body), sign)

    def query(self, request: Request, script: Script) -> Reply | None:
        route = unquote(_route(request))
        if VERSION_HEADER not in request.headers:
            return None
        models = [model.name for model in script.served_models]
        if route == "/models":
            return json_reply(200, _page(models, parse_qs(request.query)))
        if not route.startswith("/models/"):
            return None
        name = route.removeprefix("/models/")
        return json_reply(200, _model(name)) if name in models else self.error(404, f"model: {name}")

    def document(self, answer: Answer) -> dict[str, Any]:
        return _message(answer) | {"content": list(_blocks(answer))}

    def events(self, answer: Answer, request: ChatRequest) -> Iterator[bytes]:  # noqa: ARG002 — the port's shape
        usage = _usage(answer)
        start = _message(answer) | {"stop_reason": None, "usage": usage | {"output_tokens": 1}}
        yield _event("message_start", message=start)
        for index, block in enumerate(_blocks(answer)):
            yield _event("content_block_start", index=index, content_block=_empty(block))
            if index == 0:
                yield _event("ping")
            for delta in _deltas(block, answer.calls):
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        delta = {"stop_reason": STOP_REASONS[answer.finish_reason], "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage=usage)

    def error(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,  # noqa: ARG002 — the port's shape
        headers: dict[str, str] | None = None,
    ) -> Reply:
        kind = ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        body = error_body(f"{param}: {message}" if param else message, kind)
        return json_reply(status, body, {"request-id": body["request_id"]} | (headers or {}))

    def stream_error(self, message: str, kind: str, code: str | None) -> dict[str, Any]:  # noqa: ARG002 — the port's shape
        return error_body(message, kind if kind in ERROR_TYPES.values() else "api_error")

    def error_event(self, error: dict[str, Any]) -> bytes:
        return _event(**error)


def sign(thinking: str) -> str:
    """The signature of a thought, which must come back with it unchanged."""
    return b64encode(hashlib.sha256(b"mock-llm-server:" + thinking.encode()).digest()).decode()


def error_body(message: str, kind: str) -> dict[str, Any]:
    """An error object of the API."""
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": f"req_{uuid4().hex[:24]}"}


def _route(request: Request) -> str:
    return request.path.removeprefix("/v1")


def _event(type: str, **fields: Any) -> bytes:  # noqa: A002 — the field's name
    return f"event: {type}\ndata: ".encode() + msgspec.json.encode({"type": type, **fields}) + b"\n\n"


def _read_message(message: WireMessage) -> Iterator[Message]:
    """Split a message into the tool results at its start and the rest, as scenarios see a conversation."""
    if isinstance(message.content, str):
        yield Message(message.role, message.content)
        return
    for block in message.content:
        if block.get("type") == "tool_result":
            yield Message("tool", _parts(block.get("content")), tool_call_id=str(block.get("tool_use_id")))
    calls = [
        ToolCallRef(str(block.get("id"))) for block in message.content if block.get("type") == "tool_use"
    ]
    rest = [block for block in message.content if block.get("type") != "tool_result"]
    if rest:
        yield Message(message.role, _parts(rest), calls or None)


def _parts(content: object) -> str | list[Part] | None:
    """Content as text and other parts; thoughts are not text."""
    return msgspec.convert(content, str | list[Part] | None)


def _message(answer: Answer) -> dict[str, Any]:
    return {
        "id": answer.id.replace("mock-", "msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": STOP_REASONS[answer.finish_reason],
        "stop_sequence": None,
        "usage": _usage(answer),
    }


def _blocks(answer: Answer) -> Iterator[dict[str, Any]]:
    """The content blocks of an answer. Thoughts come first, as the API requires them back."""
    for text in answer.reasoning.values():
        yield {"type": "thinking", "thinking": text, "signature": sign(text)}
    if answer.content:
        yield {"type": "text", "text": answer.content}
    for call in answer.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}


def _input(call: Call) -> Any:
    """The arguments as an object. What is not JSON can only be streamed."""
    try:
        return msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return call.arguments


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    """A block at its start, before its deltas."""
    empty: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}
    return block | {name: value for name, value in empty.items() if name in block}


def _deltas(block: dict[str, Any], calls: list[Call]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": token} for token in tokens(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": token} for token in tokens(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            arguments = next(call.arguments for call in calls if call.id == block["id"])
            for start in range(0, max(1, len(arguments)), ARGUMENT_PIECE):
                piece = arguments[start : start + ARGUMENT_PIECE]
                yield {"type": "input_json_delta", "partial_json": piece}


def _usage(answer: Answer) -> dict[str, int]:
    """The token counts, with cached tokens apart from the others."""
    details: dict[str, int | None] = answer.usage.get("prompt_tokens_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    return {
        "input_tokens": max(0, answer.usage["prompt_tokens"] - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": answer.usage["completion_tokens"],
    }


def _page(models: list[str], query: dict[str, list[str]]) -> dict[str, Any]:
    """A page of the list of models."""
    after = query.get("after_id", [""])[-1]
    rest = models[models.index(after) + 1 :] if after in models else models
    limit = query.get("limit", [""])[-1]
    page = rest[: int(limit) if limit.isdecimal() else DEFAULT_PAGE]
    return {
        "data": [_model(name) for name in page],
        "has_more": len(page) < len(rest),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def _model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": CONTEXT_WINDOW,
        "max_tokens": MAX_OUTPUT,
    }
