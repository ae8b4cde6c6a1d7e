"""A server on loopback that sends one file, like Hugging Face or a mirror of it, with the faults that a test chooses."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ModelMirror:
    """Sends ``data`` at every path.

    ``statuses`` are those of the first answers that are no file. ``cuts`` are the bytes of the next bodies after which the
    connection closes. ``ranges`` is false for a server that ignores ``Range``. ``size`` replaces the announced size, and
    ``location`` redirects. With ``hang``, an answer that is cut keeps its connection open instead.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.statuses: list[int] = []
        self.cuts: list[int] = []
        self.ranges = True
        self.hang = False
        self.size: int | None = None
        self.location = ""
        self.requests: list[tuple[str, dict[str, str]]] = []
        """The paths and headers, in lower case."""
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name is the library's
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def ranges_asked(self) -> list[str]:
        return [headers.get("range", "") for _, headers in self.requests]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.path, headers))
        if self.location:
            request.send_response(302)
            request.send_header("Location", self.location)
        elif self.statuses:
            request.send_response(self.statuses.pop(0))
        else:
            self._send_file(request, headers.get("range", ""))
            return
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _send_file(self, request: BaseHTTPRequestHandler, asked: str) -> None:
        size = self.size or len(self.data)
        found = re.fullmatch(r"bytes=(\d+)-", asked) if self.ranges else None
        start = int(found[1]) if found else 0
        if start >= size:
            request.send_response(416)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if found else 200)
        if found:
            request.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        request.send_header("Content-Length", str(size - start))
        request.end_headers()
        end = start + self.cuts.pop(0) if self.cuts else len(self.data)
        with contextlib.suppress(OSError):
            request.wfile.write(self.data[start:end])
            request.wfile.flush()
        if end < size:
            if self.hang:
                self.released.wait()
            request.close_connection = True


@contextmanager
def model_mirror(data: bytes) -> Generator[ModelMirror]:
    mirror = ModelMirror(data)
    thread = threading.Thread(target=mirror.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        mirror.released.set()
        mirror.server.shutdown()
        mirror.server.server_close()
        thread.join()
