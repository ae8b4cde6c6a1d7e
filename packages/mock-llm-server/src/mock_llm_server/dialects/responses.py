"""OpenAI's Responses API: ``POST /responses``."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from mock_llm_server.answer import ARGUMENT_PIECE, Answer, Call, tokens
from mock_llm_server.conversation import ChatRequest, Problem
from mock_llm_server.dialects.base import Dialect
from mock_llm_server.dialects.chat_completions import ChatCompletions
from mock_llm_server.dialects.responses_input import (
    ENCRYPTED,
    PART_SEPARATOR,
    JsonObject,
    ResponsesRequest,
    as_object,
    as_objects,
    encrypt,
    read_request,
    reasoning_id,
    request_problem,
)
from mock_llm_server.http1 import Request
from mock_llm_server.reply import Reply

PATH = "/responses"

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons to stop that make a response incomplete."""

_FAILED = "error"
_ECHOED: JsonObject = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""The parameters that a response repeats, with their defaults."""


class Responses(Dialect):
    """See ``mock_llm_server.dialects.base.Dialect``. The lists of models are those of chat completions."""

    path = f"/v1{PATH}"
    content_type = "text/event-stream; charset=utf-8"
    end = b""
    closing = 1

    def handles(self, request: Request) -> bool:
        return request.path.removeprefix("/v1") == PATH

    def read(self, request: Request) -> ChatRequest:
        return read_request(request.body)

    def problem(self, request: Request, conversation: ChatRequest) -> Problem | None:  # noqa: ARG002 — the port's shape
        return request_problem(_body(conversation))

    def document(self, answer: Answer) -> JsonObject:
        return _ResponseWriter(answer).final()

    def events(self, answer: Answer, request: ChatRequest) -> Iterator[bytes]:  # noqa: ARG002 — the port's shape
        for number, fields in enumerate(_ResponseWriter(answer).events()):
            yield _event({"type": fields["type"], "sequence_number": number} | fields)

    def error(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        return ChatCompletions().error(status, message, param=param, code=code, headers=headers)

    def stream_error(self, message: str, kind: str, code: str | None) -> JsonObject:
        return {
            "type": "error",
            "sequence_number": 0,
            "code": code or kind,
            "message": message,
            "param": None,
        }

    def error_event(self, error: JsonObject) -> bytes:
        return _event(error)


def _event(fields: JsonObject) -> bytes:
    name = str(fields["type"]).encode()
    return b"event: " + name + b"\ndata: " + msgspec.json.encode(fields) + b"\n\n"


def _body(request: ChatRequest) -> JsonObject:
    return request.body if isinstance(request, ResponsesRequest) else {}


class _ResponseWriter:
    """Writes one answer as a response and as events."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.body = _body(answer.request)
        self.reason = _INCOMPLETE.get(answer.finish_reason)
        self.items = self._items()

    def final(self) -> JsonObject:
        """The whole response."""
        failed = self.answer.finish_reason == _FAILED
        error = {"code": "server_error", "message": "The model failed to generate a response."}
        return self._response(
            "failed" if failed else "incomplete" if self.reason else "completed",
            output=self.items,
            error=error if failed else None,
            incomplete_details={"reason": self.reason} if self.reason else None,
            usage=None if failed else _usage(self.answer.usage),
        )

    def events(self) -> Iterator[JsonObject]:
        """The events, in the order in which they are sent, without their numbers."""
        started = self._response("in_progress", output=[], error=None, incomplete_details=None, usage=None)
        yield {"type": "response.created", "response": started}
        yield {"type": "response.in_progress", "response": started}
        for index, item in enumerate(self.items):
            place = {"output_index": index}
            yield {"type": "response.output_item.added", "item": _begun(item), **place}
            place["item_id"] = item["id"]
            match item["type"]:
                case "reasoning":
                    yield from _reasoning_events(item, place)
                case "message":
                    yield from _text_events(item, place)
                case _:
                    yield from _arguments_events(item, place)
            yield {"type": "response.output_item.done", "item": item, "output_index": index}
        final = self.final()
        yield {"type": f"response.{final['status']}", "response": final}

    def _response(self, status: str, **more: Any) -> JsonObject:
        asked = as_object(self.body.get("reasoning"))
        return {
            "id": f"resp_{self.answer.id.removeprefix('mock-')}",
            "object": "response",
            "created_at": self.answer.created,
            "status": status,
            "model": self.answer.model,
            **{name: self.body.get(name, default) for name, default in _ECHOED.items()},
            "reasoning": {"effort": asked.get("effort"), "summary": asked.get("summary")},
            "tools": [
                {"strict": True, "description": None} | tool for tool in as_objects(self.body.get("tools"))
            ],
            **more,
        }

    def _items(self) -> list[JsonObject]:
        items = [self._reasoning_item(text) for text in self.answer.reasoning.values()]
        if self.answer.content is not None:
            part: JsonObject = {"type": "output_text", "annotations": [], "logprobs": []}
            part["text"] = self.answer.content
            items.append(
                {
                    "id": f"msg_{uuid.uuid4().hex}",
                    "type": "message",
                    "status": "completed",
                    "content": [part],
                    "role": "assistant",
                }
            )
        items += [_call_item(call) for call in self.answer.calls]
        if self.reason and items and "status" in items[-1]:
            items[-1]["status"] = "incomplete"
        return items

    def _reasoning_item(self, text: str) -> JsonObject:
        asked = as_object(self.body.get("reasoning"))
        shown = text if asked.get("summary") or asked.get("generate_summary") else ""
        parts = shown.split(PART_SEPARATOR) if shown else []
        item: JsonObject = {
            "id": reasoning_id(text),
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": part} for part in parts],
        }
        if ENCRYPTED in (self.body.get("include") or []):
            item["encrypted_content"] = encrypt(text)
        return item


def _call_item(call: Call) -> JsonObject:
    return {
        "id": f"fc_{uuid.uuid4().hex}",
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.id,
        "name": call.name,
    }


def _begun(item: JsonObject) -> JsonObject:
    """An item before its content."""
    empty: JsonObject = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
    return item | {name: value for name, value in empty.items() if name in item}


def _reasoning_events(item: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    for number, part in enumerate(item["summary"]):
        where = place | {"summary_index": number}
        kind = "response.reasoning_summary"
        yield {"type": f"{kind}_part.added", "part": part | {"text": ""}, **where}
        for piece in tokens(part["text"]):
            yield {"type": f"{kind}_text.delta", "delta": piece, **where}
        yield {"type": f"{kind}_text.done", "text": part["text"], **where}
        yield {"type": f"{kind}_part.done", "part": part, **where}


def _text_events(item: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    for number, part in enumerate(item["content"]):
        where = place | {"content_index": number}
        yield {"type": "response.content_part.added", "part": part | {"text": ""}, **where}
        for piece in tokens(part["text"]):
            yield {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **where}
        yield {"type": "response.output_text.done", "text": part["text"], "logprobs": [], **where}
        yield {"type": "response.content_part.done", "part": part, **where}


def _arguments_events(item: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    arguments = item["arguments"]
    for start in range(0, len(arguments), ARGUMENT_PIECE):
        piece = arguments[start : start + ARGUMENT_PIECE]
        yield {"type": "response.function_call_arguments.delta", "delta": piece, **place}
    yield {
        "type": "response.function_call_arguments.done",
        "arguments": arguments,
        "name": item["name"],
        **place,
    }


def _usage(usage: JsonObject) -> JsonObject:
    read = as_object(usage.get("prompt_tokens_details"))
    written = as_object(usage.get("completion_tokens_details"))
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {
            "cache_write_tokens": read.get("cache_write_tokens") or 0,
            "cached_tokens": read.get("cached_tokens") or 0,
        },
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": written.get("reasoning_tokens") or 0},
        "total_tokens": usage["total_tokens"],
    }
