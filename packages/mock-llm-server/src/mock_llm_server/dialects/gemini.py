"""Google's Gemini API: ``POST /v1beta/models/NAME:generateContent`` and ``:streamGenerateContent?alt=sse``, ``GET /v1beta/models``."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec

from mock_llm_server.answer import Answer, Call, tokens
from mock_llm_server.conversation import ChatRequest, Message, Part, Problem, ToolCallRef
from mock_llm_server.dialects.base import Dialect
from mock_llm_server.dialects.gemini_strict import (
    Signatures,
    as_fields,
    as_items,
    request_problem,
    thinking_config,
)
from mock_llm_server.http1 import Request
from mock_llm_server.reply import Reply, event, json_reply
from mock_llm_server.scenarios import Script

_METHOD = re.compile(r"/v1(?:alpha|beta)?/(?:models|tunedModels)/([^/:]+):(stream)?[gG]enerateContent")
_MODELS = "/v1beta/models"
_PAGE_SIZE = 50

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_FINISH_REASONS = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}


class GeminiRequest(ChatRequest):
    """A conversation, and whether the answer includes the summary of its reasoning."""

    thoughts: bool = False


class Gemini(Dialect):
    """See ``mock_llm_server.dialects.base.Dialect``."""

    path = f"{_MODELS}/NAME:generateContent"
    content_type = "text/event-stream"
    end = b""
    closing = 1

    def handles(self, request: Request) -> bool:
        return _METHOD.fullmatch(unquote(request.path)) is not None

    def query(self, request: Request, script: Script) -> Reply | None:
        route = unquote(request.path)
        models = [model.name for model in script.served_models]
        if route == _MODELS:
            return self._page(parse_qs(request.query), models)
        if not route.startswith(f"{_MODELS}/"):
            return None
        name = route.removeprefix(f"{_MODELS}/")
        if name in models:
            return json_reply(200, _model(name))
        return self.error(404, f"Model is not found: models/{name} for api version v1beta")

    def _page(self, query: dict[str, list[str]], models: list[str]) -> Reply:
        try:
            start = int(query.get("pageToken", ["0"])[0])
            size = int(query.get("pageSize", [str(_PAGE_SIZE)])[0])
        except ValueError:
            return self.error(400, "The page size or token is invalid.", param="page_size")
        end = start + (size or _PAGE_SIZE)
        page: dict[str, Any] = {"models": [_model(name) for name in models[start:end]]}
        if end < len(models):
            page["nextPageToken"] = str(end)
        return json_reply(200, page)

    def read(self, request: Request) -> GeminiRequest:
        match = _METHOD.fullmatch(unquote(request.path))
        name, stream = match.groups() if match else ("", None)
        if stream and "sse" not in parse_qs(request.query).get("alt", []):
            raise msgspec.DecodeError("this server streams only events; add ?alt=sse to the URL")
        body = msgspec.json.decode(request.body, type=dict[str, Any])
        messages: list[Message] = []
        if system := _texts(as_fields(body.get("systemInstruction")).get("parts")):
            messages.append(Message("system", content=system))
        for content in as_items(body.get("contents")):
            messages += _messages(as_fields(content))
        return GeminiRequest(
            messages=messages,
            model=name,
            stream=bool(stream),
            thoughts=thinking_config(body).get("includeThoughts") is True,
        )

    def problem(self, request: Request, conversation: ChatRequest) -> Problem | None:
        body = msgspec.json.decode(request.body, type=dict[str, Any])
        return request_problem(body, conversation.model, Signatures(call_signature, text_signature))

    def document(self, answer: Answer) -> dict[str, Any]:
        return _response(answer, list(_parts(answer, thoughts=True, whole=True)), last=True)

    def events(self, answer: Answer, request: ChatRequest) -> Iterator[bytes]:
        thoughts = isinstance(request, GeminiRequest) and request.thoughts
        for part in _parts(answer, thoughts=thoughts, whole=False):
            yield event(_response(answer, [part], last=False))
        closing: dict[str, Any] = {"text": ""}
        if answer.content and not answer.calls:
            closing["thoughtSignature"] = text_signature(answer.content)
        yield event(_response(answer, [closing], last=True))

    def error(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        details: list[dict[str, Any]] = []
        if param:
            violation = {"field": param, "description": message}
            details.append({"@type": _type("BadRequest"), "fieldViolations": [violation]})
        if code:
            reason = {"reason": code.upper(), "domain": "googleapis.com"}
            details.append({"@type": _type("ErrorInfo"), **reason})
        if pause := (headers or {}).get("retry-after"):
            details.append({"@type": _type("RetryInfo"), "retryDelay": f"{pause}s"})
        return json_reply(status, _error(status, message, details), headers)

    def stream_error(self, message: str, kind: str, code: str | None) -> dict[str, Any]:
        names = {kind, code}
        return _error(next((status for status, name in _STATUSES.items() if name in names), 500), message, [])

    def error_event(self, error: dict[str, Any]) -> bytes:
        return event(error)


# -- requests --------------------------------------------------------------------------------------


def _texts(parts: Any) -> str:
    return "".join(
        str(part.get("text") or "") for part in map(as_fields, as_items(parts)) if not part.get("thought")
    )


def _messages(content: dict[str, Any]) -> list[Message]:
    """The messages of one content: results are messages of their own, and media beside them belong to them."""
    parts = [as_fields(part) for part in as_items(content.get("parts"))]
    text = _texts(parts)
    if content.get("role") == "model":
        calls = [as_fields(part["functionCall"]) for part in parts if "functionCall" in part]
        refs = [ToolCallRef(str(call.get("id") or "")) for call in calls]
        return [Message("assistant", content=text or None, tool_calls=refs or None)]
    results = [as_fields(part["functionResponse"]) for part in parts if "functionResponse" in part]
    messages = [
        Message("tool", content=_output(result.get("response")), tool_call_id=str(result.get("id") or ""))
        for result in results
    ]
    if text or not results:
        media = [Part() for part in parts if "text" not in part]
        messages.append(Message("user", content=[Part(text), *media] if media else text))
    return messages


def _output(response: Any) -> str:
    """The text of a result: the value of a response that is one text, else its JSON."""
    values = list(as_fields(response).values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return msgspec.json.encode(response).decode()


# -- answers ---------------------------------------------------------------------------------------


def call_signature(name: str, arguments: Any) -> str:
    """The signature of a call's reasoning."""
    return _signature("call", name, msgspec.json.encode(arguments, order="sorted").decode())


def text_signature(text: str) -> str:
    """The signature of the reasoning behind an answer."""
    return _signature("text", text)


def _signature(*texts: str) -> str:
    return base64.b64encode(hashlib.sha256("\0".join(texts).encode()).digest()).decode()


def _parts(answer: Answer, *, thoughts: bool, whole: bool) -> Iterator[dict[str, Any]]:
    """The parts of an answer; texts are whole, with the signature, or in pieces without it."""
    split = _whole if whole else tokens
    for text in answer.reasoning.values() if thoughts else ():
        yield from ({"text": piece, "thought": True} for piece in split(text))
    if answer.content:
        signed = whole and not answer.calls
        signature = {"thoughtSignature": text_signature(answer.content)} if signed else {}
        yield from ({"text": piece, **signature} for piece in split(answer.content))
    for index, call in enumerate(answer.calls):
        arguments = _arguments(call)
        if arguments is None:
            continue
        part: dict[str, Any] = {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
        if index == 0:
            part["thoughtSignature"] = call_signature(call.name, arguments)
        yield part


def _whole(text: str) -> Sequence[str]:
    return [text]


def _arguments(call: Call) -> dict[str, Any] | None:
    """The arguments of a call; None if they are not a JSON object, which this API never sends."""
    try:
        return msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return None


def _response(answer: Answer, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    response: dict[str, Any] = {"candidates": [candidate]}
    if last:
        candidate["finishReason"] = _FINISH_REASONS.get(answer.finish_reason, "STOP")
        if broken := [call for call in answer.calls if _arguments(call) is None]:
            candidate["finishReason"] = "MALFORMED_FUNCTION_CALL"
            candidate["finishMessage"] = (
                f"Malformed function call: print(default_api.{broken[0].name}({broken[0].arguments}))"
            )
        response["usageMetadata"] = _usage(answer.usage)
    return response | {"modelVersion": answer.model, "responseId": answer.id}


def _usage(usage: dict[str, Any]) -> dict[str, int]:
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    cached = as_fields(usage.get("prompt_tokens_details")).get("cached_tokens")
    thoughts = as_fields(usage.get("completion_tokens_details")).get("reasoning_tokens")
    counts: dict[str, int | None] = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": max(0, completion - (thoughts or 0)),
        "totalTokenCount": usage["total_tokens"],
        "cachedContentTokenCount": cached,
        "thoughtsTokenCount": thoughts,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": True,
    }


def _error(status: int, message: str, details: list[dict[str, Any]]) -> dict[str, Any]:
    name = _STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    error: dict[str, Any] = {"code": status, "message": message, "status": name}
    return {"error": error | ({"details": details} if details else {})}


def _type(name: str) -> str:
    return f"type.googleapis.com/google.rpc.{name}"
