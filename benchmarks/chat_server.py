"""A model's server on loopback whose answers a benchmark chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ChatServer(ThreadingHTTPServer):
    """``answer`` gets the body of each request, and returns the delta that is the whole answer: its content, or calls of tools."""

    daemon_threads = True

    def __init__(self, answer: Callable[[bytes], dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(b'{"data":[{"id":"m","object":"model"}]}', "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, ChatServer)
        delta = self.server.answer(body)
        finish = "tool_calls" if "tool_calls" in delta else "stop"
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        self._send(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — its name there
        pass
