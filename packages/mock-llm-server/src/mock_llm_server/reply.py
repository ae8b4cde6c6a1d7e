"""A reply: status, headers, and a body in timed pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from msgspec import field


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
    methods: str = "GET, HEAD"
    """The methods that the path of a query allows, separated by commas."""
    note: dict[str, Any] = field(default_factory=dict[str, Any])
    """The source of the reply, for recordings."""


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def json_reply(status: int, value: Any, headers: dict[str, str] | None = None) -> Reply:
    body = msgspec.json.encode(value)
    own = {"content-type": "application/json", "content-length": str(len(body))}
    return Reply(status, own | (headers or {}), [Piece(body)])
