"""How soon a typed key is on the screen while an answer streams in, and what painting the answer costs.

    ./run python -m benchmarks.typing_echo [--rate 2000] [--seconds 8] [--columns 120] [--rows 40]

A server on loopback sends prose, lists and code at a rate in tokens of four characters per second. Meanwhile a key is pressed every 100
milliseconds in ``newel`` on a pseudo-terminal. *echo* is the time from a key to the first output with its character, in milliseconds;
*cpu* the part of a core that the process used, in percent; *output* what it wrote, in KB per second; *painted* the time from the
last token to the end of the answer on the screen, in milliseconds.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

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


class Typist:
    """``newel`` on a pseudo-terminal, and the time at which each output arrived."""

    def __init__(self, port: int, columns: int, rows: int, home: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": home,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "LLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "LLM_DEFAULT_MODEL": "m",
        }
        project = Path(home) / "project"
        project.mkdir()
        command = [sys.executable, "-m", "newel", "--ephemeral", "--sandbox", "off"]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=project, env=environ, start_new_session=True
        )
        os.close(slave)
        self.output = ""
        self.chunks: list[tuple[float, str]] = []

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._master], [], [], left)[0]:
                text = os.read(self._master, 2**16).decode(errors="replace")
                self.chunks.append((time.monotonic(), text))
                self.output += text

    def wait_for(self, words: str) -> None:
        until = time.monotonic() + 60
        while words not in self.output:
            if time.monotonic() > until:
                raise SystemExit(f"{words!r} never came:\n{self.output[-2000:]}")
            self.read(0.02)

    def first(self, words: str, since: float) -> float:
        return next((at for at, text in self.chunks if at >= since and words in text), float("nan"))

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
    with tempfile.TemporaryDirectory() as home:
        typist = Typist(served.port, options.columns, options.rows, home)
        try:
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
        finally:
            typist.process.kill()
            typist.process.wait()
    echoes = sorted((typist.first(key, at) - at) * 1000 for key, at in pressed)
    p95 = echoes[int(len(echoes) * 0.95)]
    print(
        f"{len(echoes)} keys · echo: median {statistics.median(echoes):.0f}, p95 {p95:.0f}, worst {echoes[-1]:.0f} ms · "
        f"cpu {cpu / took:.0%} · output {written / took / 1000:.0f} KB/s · painted {painted * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
