"""A program that is typed at and timed, and a model's server for it on loopback."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.pseudo_terminal import PseudoTerminal

BATCH_S: Final = 0.01
END: Final = "The end of the answer."
RUNNING_S: Final = 30
"""Seconds that a command runs if it is not stopped."""

PROSE: Final = (
    "The importer reads the file line by line, and **each line** becomes an order: `parse(line)` returns a record, "
    "or raises an error that names the line and the column.\n\n"
) * 3 + "".join(f"- item {number} of a list, with `code` and a few more words in it\n" for number in range(8))
CODE: Final = "".join(
    f"def function_{n}(a: int) -> str:\n    return f'{{a}} {n}'  # {n}\n\n\n" for n in range(150)
)
TEXTS: Final = {
    "prose": f"{PROSE}\n```python\n{CODE[:800]}\n```\n\n",
    "code": f"```python\n{CODE}```\n\n",
    "table": "| name | what it is | size |\n|---|---|---:|\n"
    + "".join(f"| item {n} | some words about it, with `code` | {n * n} |\n" for n in range(200))
    + "\n",
    "line": "word " * 4_000 + "\n\n",
}
"""What the server streams for a prompt that is one of these words, again and again. The last one has lines of 20 KB."""
CALLS: Final = {
    "flood": ("bash", {"command": "timeout {seconds} yes 'a line of the output of a command'"}),
    "sleep": ("bash", {"command": f"sleep {RUNNING_S}"}),
    "subagent": ("task", {"description": "look around", "prompt": "prose"}),
}
"""What the server calls for another prompt."""


class StreamingServer:
    """Answers a prompt by what its word in ``TEXTS`` or ``CALLS`` says, at ``rate`` tokens of four characters per second for ``seconds``,
    and every other request by ``END``. ``asked`` has the time of each request for an answer.
    """

    def __init__(self, rate: int, seconds: float) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        self.asked: list[float] = []
        self._rate, self._seconds = rate, seconds
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            request = lines.readline()
            heads = dict(line.lower().split(b": ", 1) for line in iter(lines.readline, b"\r\n"))
            body = lines.read(int(heads.get(b"content-length", b"0")))
            kind = b"application/json" if request.startswith(b"GET") else b"text/event-stream"
            head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nConnection: close\r\n\r\n"
            if request.startswith(b"GET"):
                connection.sendall(head + b'{"object":"list","data":[{"id":"m","object":"model"}]}')
                return
            self.asked.append(time.monotonic())
            try:
                connection.sendall(head)
                self._reply(connection, json.loads(body)["messages"][-1])
            except OSError:  # it was stopped
                pass

    def _reply(self, connection: socket.socket, message: dict[str, Any]) -> None:
        prompt = str(message["content"]) if message["role"] == "user" else ""
        if prompt in CALLS:
            name, arguments = CALLS[prompt]
            written = json.dumps(arguments).replace("{seconds}", str(self._seconds))
            call = {
                "index": 0,
                "id": "call_1",
                "type": "function",
                "function": {"name": name, "arguments": written},
            }
            connection.sendall(_event({"tool_calls": [call]}) + _event({}, "tool_calls"))
        else:
            if prompt in TEXTS:
                self._stream(connection, TEXTS[prompt])
            connection.sendall(_event({"content": f"\n```\n\n{END}"}) + _event({}, "stop"))
        connection.sendall(b"data: [DONE]\n\n")

    def _stream(self, connection: socket.socket, text: str) -> None:
        pieces = [_event({"content": text[start : start + 4]}) for start in range(0, len(text), 4)]
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < self._seconds:
            until = int(passed * self._rate)
            connection.sendall(b"".join(pieces[number % len(pieces)] for number in range(sent, until)))
            sent = until
            time.sleep(BATCH_S)


def _event(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


class Typist(PseudoTerminal):
    """Types at a program, and measures when it shows what was typed."""

    def press(self, keys: str, shown: str = "") -> tuple[float, float]:
        """Milliseconds until the keys, or ``shown``, come back, and those of the processor that the program used meanwhile."""
        start, cpu, pressed = len(self.output), self.cpu_ms(), time.monotonic()
        self.send(keys)
        came = self.wait_for(shown or keys, since=start)
        return (came - pressed) * 1000, self.cpu_ms() - cpu

    def cpu_ms(self) -> float:
        """Milliseconds that the program's main thread has run."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e6


class Desk:
    """A git repository with instructions for agents, and the environment of a terminal with a configured server."""

    def __init__(self, home: Path, url: str) -> None:
        self.environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "LLM_BASE_URL": url,
            "LLM_DEFAULT_MODEL": "m",
        }
        self.project = home / "project"
        self.project.mkdir()
        subprocess.run(["git", "init", "--quiet", self.project], check=True)
        (self.project / "AGENTS.md").write_text("# Rules\n\n- Tests first.\n")

    def typing(self, *command: str, early: str = "") -> Typist:
        words = [sys.executable, *command]
        return Typist(words, cwd=self.project, environ=self.environ, echoes=False, early=early)


@contextmanager
def desk(url: str) -> Generator[Desk]:
    with tempfile.TemporaryDirectory() as home:
        yield Desk(Path(home), url)


def late(values: Sequence[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[min(int(len(values) * 0.95), len(values) - 1)]


def spread(values: Sequence[float]) -> str:
    """The median, the 95th percentile and the largest, in columns."""
    return f"{statistics.median(values):7.0f} {late(values):7.0f} {max(values):7.0f}"
