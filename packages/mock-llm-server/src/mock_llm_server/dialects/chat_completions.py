"""OpenAI's chat completions: ``POST /chat/completions``, ``GET /models``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from mock_llm_server.answer import ARGUMENT_PIECE, Answer, tokens
from mock_llm_server.conversation import ChatRequest, Problem, history_problem
from mock_llm_server.dialects.base import Dialect
from mock_llm_server.http1 import Request
from mock_llm_server.reply import Reply, event, json_reply
from mock_llm_server.scenarios import Script

PATH = "/chat/completions"
RESPONSES_ONLY = "This model is only supported in v1/responses and not in v1/chat/completions."


class ChatCompletions(Dialect):
    """See ``mock_llm_server.dialects.base.Dialect``."""

    path = f"/v1{PATH}"
    content_type = "text/event-stream; charset=utf-8"
    end = b"data: [DONE]\n\n"
    closing = 2

    def handles(self, request: Request) -> bool:
        return _route(request) == PATH

    def read(self, request: Request) -> ChatRequest:
        return msgspec.json.decode(request.body, type=ChatRequest)

    def problem(self, request: Request, conversation: ChatRequest) -> Problem | None:  # noqa: ARG002 — the port's shape
        return history_problem(conversation.messages)

    def refusal(self, request: Request, conversation: ChatRequest, script: Script) -> Reply | None:  # noqa: ARG002
        if conversation.model in script.responses_only:
            return self.error(404, RESPONSES_ONLY, param="model")
        return None

    def query(self, request: Request, script: Script) -> Reply | None:
        route = unquote(_route(request))
        names = [model.name for model in script.served_models]
        if route == "/models":
            return json_reply(200, {"object": "list", "data": [_model(name) for name in names]})
        if not route.startswith("/models/"):
            return None
        name = route.removeprefix("/models/")
        if name in names:
            return json_reply(200, _model(name))
        return self.error(404, f"This server has no model {name}.", code="model_not_found")

    def document(self, answer: Answer) -> dict[str, Any]:
        return completion(answer)

    def events(self, answer: Answer, request: ChatRequest) -> Iterator[bytes]:
        return (event(chunk) for chunk in chunks(answer, include_usage=request.include_usage))

    def error(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        return json_reply(status, error_body(message, _error_type(status), param=param, code=code), headers)

    def stream_error(self, message: str, kind: str, code: str | None) -> dict[str, Any]:
        return error_body(message, kind, code=code)

    def error_event(self, error: dict[str, Any]) -> bytes:
        return event(error)


def _route(request: Request) -> str:
    return request.path.removeprefix("/v1")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mock-llm-server"}


def _error_type(status: int) -> str:
    names = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return names.get(status, "server_error" if status >= 500 else "invalid_request_error")


def completion(answer: Answer) -> dict[str, Any]:
    """An answer as a ``chat.completion``."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
    message |= answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [choice],
        "usage": answer.usage,
    }


def chunks(answer: Answer, *, include_usage: bool) -> Iterator[dict[str, Any]]:
    """An answer as ``chat.completion.chunk`` objects, in the order in which they are sent."""
    head: dict[str, Any] = {
        "id": answer.id,
        "object": "chat.completion.chunk",
        "created": answer.created,
        "model": answer.model,
    }
    tail = {"usage": None} if include_usage else {}

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**head, "choices": [choice], **tail}

    yield chunk({"role": "assistant", "content": None if answer.content is None else "", "refusal": None})
    for name, text in answer.reasoning.items():
        yield from (chunk({name: token}) for token in tokens(text))
    yield from (chunk({"content": token}) for token in tokens(answer.content or ""))
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
        )
        for start in range(0, len(call.arguments), ARGUMENT_PIECE):
            piece = call.arguments[start : start + ARGUMENT_PIECE]
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, answer.finish_reason)
    if include_usage:
        yield {**head, "choices": [], "usage": answer.usage}


def error_body(
    message: str, kind: str, *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error object of the OpenAI API."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
