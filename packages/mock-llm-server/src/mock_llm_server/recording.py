"""Recordings: one JSON line per exchange, without secrets."""

from __future__ import annotations

import codecs
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import field

from mock_llm_server.http1 import Request
from mock_llm_server.reply import Reply

MAX_TEXT = 16 * 1024 * 1024
_SECRET = re.compile(r"auth|key|token|secret|cookie|credential|password", re.IGNORECASE)


class RecordedChunk(msgspec.Struct):
    ms: float
    """Milliseconds since the request arrived."""
    data: str


class RequestRecord(msgspec.Struct):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ResponseRecord(msgspec.Struct):
    status: int
    headers: dict[str, str]
    ending: str = "client left"
    """``complete``, ``reset``, or ``client left``."""
    chunks: list[RecordedChunk] = field(default_factory=list[RecordedChunk])
    """The body, as it was sent."""
    cut: bool = False
    """Whether the body exceeded ``MAX_TEXT``; the rest is missing."""

    @property
    def text(self) -> str:
        return "".join(chunk.data for chunk in self.chunks)


class Exchange(msgspec.Struct, omit_defaults=True):
    """One line of a recording."""

    time: str
    request: RequestRecord
    response: ResponseRecord
    note: dict[str, Any] = field(default_factory=dict[str, Any])


def mask_secrets(headers: dict[str, str]) -> dict[str, str]:
    """Replace the values of headers that may be secrets."""
    return {name: "***" if _SECRET.search(name) else value for name, value in headers.items()}


def request_record(request: Request) -> RequestRecord:
    """The record of a request: without secrets and query, its body decoded if it is JSON."""
    try:
        body: Any = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError):
        body = request.body.decode(errors="replace")
    return RequestRecord(request.method, request.path, mask_secrets(request.headers), body)


class ExchangeRecorder:
    """Records one exchange."""

    def __init__(self, request: RequestRecord, reply: Reply) -> None:
        self._start = time.monotonic()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._size = 0
        response = ResponseRecord(reply.status, mask_secrets(reply.headers))
        self.exchange = Exchange(
            datetime.now(UTC).isoformat(timespec="milliseconds"), request, response, reply.note
        )

    def on_sent(self, data: bytes) -> None:
        response = self.exchange.response
        self._size += len(data)
        if self._size > MAX_TEXT:
            response.cut = True
        if not response.cut:
            elapsed = round((time.monotonic() - self._start) * 1000, 1)
            response.chunks.append(RecordedChunk(elapsed, self._decoder.decode(data)))


class Recorder:
    """Appends exchanges to a file that only its owner can read, and flushes each. Raises ``OSError``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "wb")

    def write(self, exchange: Exchange) -> None:
        try:
            self._file.write(msgspec.json.encode(exchange) + b"\n")
            self._file.flush()
        except OSError as error:
            sys.stderr.write(f"{self._path}: an exchange was not recorded: {error.strerror}\n")

    def close(self) -> None:
        self._file.close()
