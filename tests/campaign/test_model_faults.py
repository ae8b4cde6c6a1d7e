"""If these fail, a broken or hostile model server hangs Newel, fills the machine's memory, or costs the user the prompt."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import pytest

from mock_llm_server import MockServer, running
from newel.session.reader import read_session
from tests.campaign.scene import Found
from tests.campaign.tally import CampaignTally
from tests.integration.providers.raw import Handler, RawServer, http
from tests.processes import is_alive, read_proc
from tests.support import Newel

MEMORY_MIB = 200
LIMIT_S = 3.0
"""What the contract allows. ``newel agent --max-minutes`` is the limit of a whole run."""
SLACK_S = 12.0
"""What ending takes on a busy machine, and a verdict."""

CHUNK: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
CHOICES: list[dict[str, Any]] = [
    {"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None},
    {"index": 0, "delta": {}, "finish_reason": "stop"},
]
ANSWER = b"".join(
    b"data: " + json.dumps(CHUNK | {"choices": [choice]}).encode() + b"\n\n" for choice in CHOICES
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
STREAM = HEAD + b"connection: close\r\n\r\n" + ANSWER + b"data: [DONE]\n\n"


def hang(prefix: bytes) -> Handler:
    def send(connection: socket.socket) -> None:
        connection.sendall(prefix)
        connection.recv(1)  # until the client gives up

    return send


def repeat(piece: bytes, seconds: float, begin: bytes = HEAD + b"\r\n") -> Handler:
    """Send a piece again and again, with a pause."""

    def send(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(piece)
            time.sleep(seconds)

    return send


def line_of(mebibytes: int) -> Handler:
    def send(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"connection: close\r\n\r\ndata: ")
        for _ in range(mebibytes):
            connection.sendall(b"x" * 2**20)
        connection.sendall(b"\n\n")

    return send


CONTENT = json.dumps(CHUNK | {"choices": [{"index": 0, "delta": {"content": "more "}}]}).encode()
FAULTS: dict[str, bytes | Handler] = {
    "slow drip": repeat(b"data: " + CONTENT + b"\n\n", 0.1),
    "slow drip of comments": repeat(b": ping\n\n", 0.1),
    "endless answer": repeat((b"data: " + CONTENT + b"\n\n") * 100, 0),
    "endless line": repeat(b"x" * 65536, 0),
    "endless head": repeat(b"x-more: y\r\n" * 100, 0, HEAD),
    "line of 100 MB": line_of(100),
    "garbage JSON": http(b'data: {"choices": [{"delta": {"con\n\n' * 3, content_type="text/event-stream"),
    "bytes that are no text": http(bytes(range(256)) * 40, content_type="text/event-stream"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "content length too long": HEAD + b"content-length: 99999\r\n\r\n" + ANSWER,
    "content length too short": HEAD + b"content-length: 20\r\n\r\n" + ANSWER,
    "content length negative": HEAD + b"content-length: -1\r\n\r\n" + ANSWER,
    "redirect to itself": http(b"", "307 Temporary Redirect", location="/v1/chat/completions"),
    "redirect elsewhere": http(b"", "308 Permanent Redirect", location="http://169.254.169.254/"),
    "storm of 429": http(b"{}", "429 Too Many Requests", retry_after="1"),
    "storm of 429, to be asked in a year": http(b"{}", "429 Too Many Requests", retry_after="31536000"),
    "storm of 500": http(b"{}", "500 Internal Server Error"),
    "storm of 503": http(b"<html>no</html>", "503 Service Unavailable"),
}


class PeakMemory:
    """Watches the memory of a process: its largest size in MiB."""

    def __init__(self, pid: int) -> None:
        self.mib = 0
        self._pid = pid
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while is_alive(self._pid):
            for line in read_proc(self._pid, "status").splitlines():
                if line.startswith("VmHWM"):
                    self.mib = max(self.mib, int(line.split()[1]) // 1024)
            time.sleep(0.05)


@pytest.fixture
def model() -> Iterator[MockServer]:
    with running({"scenarios": []}) as server:
        yield server


@contextmanager
def project(folder: Path, model: MockServer, answer: bytes | Handler) -> Generator[Newel]:
    """A project whose model server answers each request so."""
    folder.mkdir()
    newel = Newel(folder, model)
    with closing(RawServer([answer])) as server:
        newel.environ["LLM_BASE_URL"] = server.url
        yield newel


def ends_well(newel: Newel, limit: float) -> tuple[Found, int]:
    """Run a contract; returns what is wrong, and the memory in MiB that it took."""
    words = ("agent", "Greet me.", "--max-minutes", str(limit / 60))
    began = time.monotonic()
    with newel.start(*words) as process:
        memory = PeakMemory(process.pid)
        try:
            said = "".join(process.communicate(timeout=limit + SLACK_S))
        except TimeoutExpired:
            said = ""
        finally:
            process.kill()
    found: Found = []
    if (took := time.monotonic() - began) > limit + SLACK_S:
        found.append(("lost", f"it took {took:.0f} s"))
    if memory.mib > MEMORY_MIB:
        found.append(("lost", f"it took {memory.mib} MiB"))
    if "Traceback" in said:
        found.append(("lost", said[-2000:]))
    stored = [read_session(path) for path in newel.sessions]
    if not any(
        "Greet me." in str(getattr(each, "content", "")) for one in stored for each in one.history.active()
    ):
        found.append(("lost", "the prompt is in no session"))
    return found + [("lost", f"{one.damage}") for one in stored if one.damage], memory.mib


def test_faults_of_the_model_server(tmp_path: Path, model: MockServer, tally: CampaignTally) -> None:
    row, peak = tally.row("faults of the model server"), 0
    for number, (name, answer) in enumerate(FAULTS.items()):
        with tally.attempt(row, name) as found, project(tmp_path / f"{number}", model, answer) as newel:
            problems, mib = ends_well(newel, LIMIT_S)
            peak = max(peak, mib)
            found.extend(problems)
    row.note = f"at most {peak} MiB; each run ends by its limit of time"


def test_a_model_server_that_hangs_at_some_byte(
    tmp_path: Path, model: MockServer, tally: CampaignTally, dice: random.Random, kills: int
) -> None:
    row = tally.row("the model server hangs after N bytes")
    places = sorted(dice.sample(range(len(STREAM)), max(3, min(kills // 10, 50))))
    for place in places:
        answer = hang(STREAM[:place])
        with (
            tally.attempt(row, f"{place} bytes") as found,
            project(tmp_path / f"{place}", model, answer) as newel,
        ):
            found.extend(ends_well(newel, 1.0)[0])
    row.note = f"of {len(STREAM)}"
