"""A server of somebody else on this machine: it records all that browsers send to it, and answers as a workbench would."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

_UPGRADE = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


class Stranger:
    """``heard`` is all that was received. ``welcome`` is the message with which its socket begins, ``status`` its answer to a login."""

    def __init__(self, port: int, welcome: str, status: int) -> None:
        self.heard = bytearray()
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name in the base
                pass

            def do_GET(self) -> None:
                self._record()
                if self.headers.get("Upgrade"):
                    self._talk()
                elif self.path == "/":
                    self._answer(b"<!doctype html><title>Hello</title>", kind="text/html")
                else:
                    self._answer(b'{"tabs": [], "servers": [], "nonce": "a-nonce-of-the-stranger"}')

            def do_POST(self) -> None:
                self._record()
                stranger.heard += self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer(json.dumps({"proof": "0" * 64}).encode(), stranger.status)

            def _record(self) -> None:
                stranger.heard += f"{self.requestline}\n{self.headers}".encode()

            def _answer(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _talk(self) -> None:
                key = self.headers["Sec-WebSocket-Key"].encode()
                offered = self.headers.get("Sec-WebSocket-Protocol", "").split(",")[0].strip()
                self.send_response(101)
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
                self.send_header(
                    "Sec-WebSocket-Accept",
                    base64.b64encode(hashlib.sha1(key + _UPGRADE).digest()).decode(),  # noqa: S324 — RFC 6455
                )
                if offered:
                    self.send_header("Sec-WebSocket-Protocol", offered)
                self.end_headers()
                text = welcome.encode()
                self.wfile.write(b"\x81\x7e" + len(text).to_bytes(2, "big") + text)
                while head := self.rfile.read(2):
                    length = head[1] & 0x7F
                    if length > 125:
                        length = int.from_bytes(self.rfile.read(2 if length == 126 else 8), "big")
                    mask, masked = self.rfile.read(4), self.rfile.read(length)
                    stranger.heard += bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked))

        self.status = status
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    @property
    def words(self) -> str:
        return self.heard.decode(errors="replace")

    def cookies(self) -> list[str]:
        """The values of all cookies that it got."""
        lines = [line for line in self.words.split("\n") if line.lower().startswith("cookie:")]
        return [pair.strip().partition("=")[2] for line in lines for pair in line[7:].split(";")]


@contextmanager
def strange_server(port: int = 0, *, welcome: str = "{}", status: int = 200) -> Generator[Stranger]:
    stranger = Stranger(port, welcome, status)
    thread = Thread(target=stranger.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield stranger
    finally:
        stranger.server.shutdown()
        thread.join()
        stranger.server.server_close()


def headers_with(secret: str, port: int) -> list[dict[str, Any]]:
    """The ways in which a program could try to get in with something that it has seen."""
    origin = {"Origin": f"http://127.0.0.1:{port}"}
    return [
        {"Authorization": f"Bearer {secret}"},
        {"Cookie": f"newel-{port}={secret}", **origin},
        {"Newel-Page-Proof": secret, **origin},
    ]
