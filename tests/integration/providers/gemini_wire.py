"""Scenarios of the mock server, and the exact responses of the Gemini API, for the tests of its client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from newel.providers.gemini.client import Gemini
from tests.integration.providers.raw import http

Connect = Callable[..., Gemini]


def script(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [{"name": "it", "trigger": "", "steps": list(steps)}]}


def bash(command: str) -> dict[str, Any]:
    return {"function": {"name": "bash", "arguments": {"command": command}}}


def answer(*parts: dict[str, Any], finish: str = "STOP", **fields: Any) -> bytes:
    return http(json.dumps(chunk(*parts, finish=finish, **fields)).encode())


def chunk(*parts: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {}) | fields]}


def events(*chunks: object) -> bytes:
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in chunks)
    return http(body, content_type="text/event-stream")


def error(status: int, message: str, name: str, *details: dict[str, Any]) -> bytes:
    body = {"error": {"code": status, "message": message, "status": name, "details": list(details)}}
    return http(json.dumps(body).encode(), f"{status} No")
