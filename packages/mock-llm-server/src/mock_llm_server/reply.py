"""A reply: status, headers, and a body in timed pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from msgspec import field

from mock_llm_server.completion import Answer, chunks, completion, error_body, tokens

DONE = b"data: [DONE]\n\n"


class Piece(msgspec.Struct, frozen=True):
    data: bytes
    wait: float = 0
    """Seconds before it is sent; infinite keeps the connection silent until the client disconnects."""


class Reply(msgspec.Struct, frozen=True):
    """Without the header ``content-length``, the body is sent chunked."""

    status: int
    headers: dict[str, str]
    pieces: list[Piece]
    more: AsyncGenerator[Piece] | None = None
    """The rest of the body, if it is not known beforehand."""
    wait: float = 0
    """Seconds before the first byte."""
    reset: bool = False
    """End with a TCP reset; without pieces, before the first byte."""
    note: dict[str, Any] = field(default_factory=dict[str, Any])
    """The source of the reply, for recordings."""


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def json_reply(status: int, value: Any, headers: dict[str, str] | None = None) -> Reply:
    body = msgspec.json.encode(value)
    own = {"content-type": "application/json", "content-length": str(len(body))}
    return Reply(status, own | (headers or {}), [Piece(body)])


def error_reply(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    return json_reply(status, error_body(message, _error_type(status), param=param, code=code), headers)


def _error_type(status: int) -> str:
    names = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return names.get(status, "server_error" if status >= 500 else "invalid_request_error")


def plain(answer: Answer, *, delay: float, token_delay: float) -> Reply:
    """The answer as one JSON document, sent after the time that streaming it takes. Delays are in seconds."""
    words = sum(len(tokens(text)) for text in [answer.content or "", *answer.reasoning.values()])
    reply = json_reply(200, completion(answer))
    return msgspec.structs.replace(reply, wait=delay + token_delay * words)


def stream(answer: Answer, *, include_usage: bool, delay: float, token_delay: float) -> Reply:
    """The answer as server-sent events, one per piece. Delays are in seconds."""
    events = [event(chunk) for chunk in chunks(answer, include_usage=include_usage)]
    pieces = [Piece(events[0]), *(Piece(data, token_delay) for data in events[1:]), Piece(DONE)]
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return Reply(200, headers, pieces, wait=delay)
