"""A substitute for Ollama's server where the mock server is not enough: in any version, at a Unix socket, and with state: models
are loaded, pulled and removed. No model runs.

From Ollama's ``docs/api.md``, ``api/types.go``, ``server/routes.go``, ``server/prompt.go`` and ``server/sched.go`` at
v0.33.0, and from the versions named:

- ``POST /api/chat`` streams JSON objects, one per line, in chunks of HTTP, as ``application/x-ndjson``; the last has
  ``done``, ``done_reason`` and the counts. Thoughts arrive as ``thinking``, calls whole as ``tool_calls``.
- A failure before the first line has a status and ``{"error": "…"}``; a later one is a line ``{"error": "…"}``.
- 404 ``model 'x' not found``; 400 for tools, thinking or a level of it that the model does not support.
- ``think`` is a boolean before v0.11.0; a string cannot be decoded there: 400.
- A conversation longer than ``num_ctx`` (default 4096) silently loses its oldest messages, except the system message and
  the last one; with ``truncate: false`` (since v0.12.6) it is refused with 400. Four bytes are a token here.
- Another ``num_ctx`` than the loaded model's loads it again; ``/api/ps`` shows the loaded one (since v0.10.0).
- ``/api/show`` has ``capabilities`` since v0.6.4.
- 403 for a ``Host`` that is not this machine.

Not imitated: models, sampling, ``/api/generate``, templates, the OpenAI routes.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

PHI3 = {"capabilities": ["completion"], "context_length": 131_072}
LLAMA = {"capabilities": ["completion", "tools"], "context_length": 131_072}
PIECE = 5
LONGEST_HANG = 30.0


class OllamaServer:
    """Listens on loopback, or at the Unix socket ``path``, until ``close``. ``models`` are named in full. The step of
    ``script`` answers whose ``trigger`` occurs last in the conversation that the model sees::

        {"trigger": "…", "answer": "…", "constrained": "the answer to a format", "thinking": "…", "tool_calls": […],
         "fault": "hang", "times": how often the fault occurs}

    A model that ``stalls`` is never described. ``requests`` are the bodies of chats, ``seen`` the messages that the model saw in each,
    ``loads`` counts how often a model was loaded; ``registry`` names the models that can be pulled.
    """

    def __init__(
        self,
        models: dict[str, dict[str, Any]] | None = None,
        script: list[dict[str, Any]] | None = None,
        *,
        version: str = "0.33.0",
        path: str = "",
    ) -> None:
        self.models = dict({"phi3:latest": PHI3, "llama3.2:latest": LLAMA} if models is None else models)
        self.script = script or []
        self.version = version
        self.requests: list[dict[str, Any]] = []
        self.seen: list[list[dict[str, Any]]] = []
        self.loaded: dict[str, int] = {}
        self.loads = 0
        self.registry: list[str] = []
        self.connections: list[socket.socket] = []
        self._faults: dict[int, int] = {}
        tcp = None if path else ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server = tcp or _UnixServer(path, _UnixHandler)
        self._server.stand_in = self  # type: ignore[attr-defined]
        self.port = tcp.server_port if tcp else 0
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        """Stop the server; open connections break."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    def step(self, text: str) -> dict[str, Any]:
        steps = [step for step in self.script if step["trigger"] in text]
        step = max(steps, key=lambda step: text.rfind(step["trigger"]), default={"answer": "Nothing to say."})
        if "fault" in step:
            happened = self._faults[id(step)] = self._faults.get(id(step), 0) + 1
            if happened > int(step.get("times", happened)):
                return step | {"fault": ""}
        return step


class _UnixServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # without it, each answer waits for a timer

    @property
    def stand_in(self) -> OllamaServer:
        return self.server.stand_in  # type: ignore[attr-defined,no-any-return]

    def setup(self) -> None:
        super().setup()
        self.stand_in.connections.append(self.connection)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the base's name
        pass

    def do_GET(self) -> None:
        server = self.stand_in
        if self._forbidden():
            return
        match self.path:
            case "/api/version":
                self._whole({"version": server.version})
            case "/api/tags":
                self._whole({"models": [{"name": name, "model": name} for name in server.models]})
            case "/api/ps":
                told = server.numbers >= (0, 10)
                running = [
                    {"name": name} | ({"context_length": size} if told else {})
                    for name, size in server.loaded.items()
                ]
                self._whole({"models": running})
            case _:
                self._text("404 page not found", 404)

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self._forbidden():
            return
        if self.path == "/api/pull":
            self._pull(sent["model"])
            return
        name = sent["model"] if ":" in sent["model"] else f"{sent['model']}:latest"
        model = self.stand_in.models.get(name)
        if self.path not in {"/api/show", "/api/chat"}:
            self._text("404 page not found", 404)
        elif model is None:
            self._whole({"error": f"model '{sent['model']}' not found"}, 404)
        elif self.path == "/api/show":
            self._show(model)
        elif refused := self._refused(sent, model):
            self._whole({"error": refused}, 400)
        else:
            self._chat(sent, name, model)

    def _forbidden(self) -> bool:
        allowed = self.headers.get("host", "").partition(":")[0] in {"127.0.0.1", "localhost"}
        if not allowed:
            self._text("", 403)
        return not allowed

    def _pull(self, name: str) -> None:
        self._begin()
        self._line({"status": "pulling manifest"})
        if name not in self.stand_in.registry:
            self._line({"error": "pull model manifest: file does not exist"})
        else:
            for completed in (0, 1_100_000_000, 2_200_000_000):
                told = {"status": "pulling 4f2222927938", "digest": "4f2222927938", "total": 2_200_000_000}
                self._line(told | {"completed": completed})
            self.stand_in.models[name if ":" in name else f"{name}:latest"] = PHI3
            self._line({"status": "success"})
        self.wfile.write(b"0\r\n\r\n")

    def _show(self, model: dict[str, Any]) -> None:
        if "stalls" in model:
            with suppress(OSError):
                self._hang()
            return
        shown: dict[str, Any] = {"model_info": {"general.architecture": "llama"}}
        if "context_length" in model:
            shown["model_info"]["llama.context_length"] = model["context_length"]
        if "num_ctx" in model:
            shown["parameters"] = f'num_ctx                        {model["num_ctx"]}\nstop    "<|end|>"'
        if self.stand_in.numbers >= (0, 6, 4):
            shown["capabilities"] = model["capabilities"]
        self._whole(shown)

    def _refused(self, sent: dict[str, Any], model: dict[str, Any]) -> str:
        """The message of a refusal, empty for none."""
        able, think, numbers = model["capabilities"], sent.get("think"), self.stand_in.numbers
        if isinstance(think, str) and (0, 9) <= numbers < (0, 11):
            return "json: cannot unmarshal string into Go struct field ChatRequest.think of type bool"
        if numbers < (0, 9):
            think = None
        if think and "thinking" not in able:
            return f'"{sent["model"]}" does not support thinking'
        if isinstance(think, str) and model.get("levels") is False:
            return f'think value "{think}" is not supported for this model'
        if sent.get("tools") and "tools" not in able:
            return f"registry.ollama.ai/library/{sent['model']} does not support tools"
        return ""

    def _chat(self, sent: dict[str, Any], name: str, model: dict[str, Any]) -> None:
        server = self.stand_in
        server.requests.append(sent)
        size = sent.get("options", {}).get("num_ctx") or model.get("num_ctx") or 4096
        if server.loaded.get(name) != size:
            server.loads += 1
            server.loaded[name] = size
        messages = _fitting(sent["messages"], size)
        if messages != sent["messages"] and sent.get("truncate") is False and server.numbers >= (0, 12, 6):
            self._whole({"error": f"the prompt is longer than the context length of {size} tokens"}, 400)
            return
        server.seen.append(messages)
        step = server.step("\n".join(each["content"] for each in messages))
        thinks = "thinking" in model["capabilities"] and sent.get("think", True)
        answer = step.get("answer", "")
        if sent.get("format") is not None:
            answer = step.get("constrained", answer)
        head: dict[str, Any] = {"model": sent["model"], "created_at": "2026-01-01T00:00:00Z"}
        lines = [{"thinking": part} for part in _pieces(step.get("thinking", "") if thinks else "")]
        lines += [{"content": part} for part in _pieces(answer)]
        lines += [{"content": "", "tool_calls": [call]} for call in step.get("tool_calls", [])]
        self._begin()
        try:
            for line in lines:
                self._line(head | {"message": {"role": "assistant", "content": ""} | line, "done": False})
            if step.get("fault"):
                self._hang()
            counts = {"prompt_eval_count": sum(map(_tokens, messages)), "eval_count": len(lines)}
            end = {"done": True, "done_reason": "stop", "total_duration": 1} | counts
            self._line(head | {"message": {"role": "assistant", "content": ""}} | end)
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _hang(self) -> None:
        """Be silent in the middle of an answer, until the client disconnects."""
        until = time.monotonic() + LONGEST_HANG
        while time.monotonic() < until:
            if select.select([self.connection], [], [], 0.02)[0] and not self.connection.recv(1):
                break
        self.close_connection = True
        raise ConnectionResetError

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _line(self, value: dict[str, Any]) -> None:
        self._chunk(json.dumps(value, ensure_ascii=False).encode() + b"\n")

    def _chunk(self, line: bytes) -> None:
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def _whole(self, value: dict[str, Any], status: int = 200) -> None:
        self._text(json.dumps(value), status, "application/json; charset=utf-8")

    def _text(self, text: str, status: int, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


class _UnixHandler(_Handler):
    disable_nagle_algorithm = False  # no such model


def _fitting(messages: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """The part of a conversation that a model with a context of ``size`` tokens gets."""
    while len(messages) > 1 and sum(map(_tokens, messages)) > size:
        oldest = next((each for each in messages[:-1] if each["role"] != "system"), messages[0])
        messages = [each for each in messages if each is not oldest]
    return messages


def _tokens(message: dict[str, Any]) -> int:
    return len(json.dumps(message, ensure_ascii=False).encode()) // 4


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
