"""How soon a typed key is on the screen while an answer streams in, and what painting the answer costs.

    ./run python -m benchmarks.typing_echo [--rate 2000] [--seconds 8] [--columns 120] [--rows 40]

A server on loopback sends prose, lists and code at a rate in tokens of four characters per second. Meanwhile a key is pressed every 100
milliseconds in ``newel`` on a pseudo-terminal. *echo* is the time from a key to the first output with its character, in milliseconds;
*cpu* the part of a core that the process used, in percent; *output* what it wrote, in KB per second; *painted* the time from the
last token to the end of the answer on the screen, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.pseudo_terminal import PseudoTerminal

PARAGRAPH = (
    "The importer reads the file line by line, and **each line** becomes an order: `parse(line)` returns a record, "
    "or raises an error that names the line and the column.\n\n"
)
ITEMS = "".join(f"- item {number} of a list, with `code` and a few more words in it\n" for number in range(8))
CODE = (
    "```python\n"
    + "".join(f"def function_{n}(a: int) -> str:\n    return f'{{a}} {n}'  # {n}\n\n\n" for n in range(12))
    + "```\n\n"
)
TEXT = PARAGRAPH * 3 + ITEMS + "\n" + CODE
END = "The end of the answer."
KEYS = [chr(0x410 + number) for number in range(64)] + [chr(0x391 + number) for number in range(17)]
BATCH_S = 0.01


class Served:
    """Streams one answer; ``sent`` is the time after its last token."""

    def __init__(self, rate: int, seconds: float) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._rate, self._seconds = rate, seconds
        self.began = self.sent = 0.0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        head = connection.recv(2**20)
        if head.startswith(b"GET"):
            body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body
            )
        else:
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            )
            self._stream(connection)
        connection.close()

    def _stream(self, connection: socket.socket) -> None:
        self.began = time.monotonic()
        at = 0
        text = TEXT * (int(self._rate * 4 * self._seconds) // len(TEXT) + 1)
        while (passed := time.monotonic() - self.began) < self._seconds:
            until = int(passed * self._rate) * 4
            pieces = [text[start : start + 4] for start in range(at, until, 4)]
            at = until
            connection.sendall(b"".join(_event({"content": piece}) for piece in pieces))
            time.sleep(BATCH_S)
        connection.sendall(_event({"content": f"\n```\n\n{END}"}) + _event({}, "stop") + b"data: [DONE]\n\n")
        self.sent = time.monotonic()


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    return (
        b"data: "
        + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()
        + b"\n\n"
    )


def newel(port: int, home: Path, options: argparse.Namespace) -> PseudoTerminal:
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "LLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "LLM_DEFAULT_MODEL": "m",
    }
    project = home / "project"
    project.mkdir()
    command = [sys.executable, "-m", "newel", "--ephemeral", "--sandbox", "off"]
    return PseudoTerminal(command, cwd=project, environ=environ, columns=options.columns, rows=options.rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=40)
    options = parser.parse_args()
    served = Served(options.rate, options.seconds)
    with tempfile.TemporaryDirectory() as home, newel(served.port, Path(home), options) as typist:
        typist.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")
        typist.read(1.0)
        typist.send("go\r")
        while not served.began:
            typist.read(0.01)
        typist.read(0.5)
        before, cpu, written = time.monotonic(), typist.cpu(), len(typist.output)
        pressed: list[tuple[str, float]] = []
        for key in KEYS:
            if time.monotonic() - served.began > options.seconds - 0.5:
                break
            pressed.append((key, time.monotonic()))
            typist.send(key)
            typist.read(0.1)
        took, cpu = time.monotonic() - before, typist.cpu() - cpu
        written = len(typist.output) - written
        typist.wait_for(END)
        painted = typist.first(END, 0) - served.sent
    echoes = sorted((typist.first(key, at) - at) * 1000 for key, at in pressed)
    p95 = echoes[int(len(echoes) * 0.95)]
    print(
        f"{len(echoes)} keys · echo: median {statistics.median(echoes):.0f}, p95 {p95:.0f}, worst {echoes[-1]:.0f} ms · "
        f"cpu {cpu / took:.0%} · output {written / took / 1000:.0f} KB/s · painted {painted * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
