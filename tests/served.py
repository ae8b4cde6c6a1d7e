"""The workbench as a user starts it: a command, its address, and its clients."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import httpx2
from websockets.sync.client import ClientConnection, connect

from tests.forked import Process, start
from tests.support import Newel

SECONDS = 20
"""How long is waited for what happens soon, on a machine that is busy; only a failure takes so long."""


class Page:
    """A client of the socket, like a page."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.number = 0
        self.seen: list[dict[str, Any]] = []
        """What came while something else was waited for."""
        self.tabs: list[dict[str, Any]] = self.next("welcome")["tabs"]
        """As ``until_tabs`` saw them last."""

    def next(self, kind: str) -> dict[str, Any]:
        """The next message of a type."""
        deadline = time.monotonic() + SECONDS
        while True:
            message = json.loads(self.socket.recv(timeout=deadline - time.monotonic()))
            if message["type"] == kind:
                return message
            assert message["type"] != "error", message
            self.seen.append(message)

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send a request; returns the reply."""
        self.number += 1
        self.socket.send(json.dumps({"type": kind, "id": str(self.number)} | fields))
        while (reply := self.next("reply"))["re"] != str(self.number):
            pass
        return reply

    def until_event(self, kind: str) -> dict[str, Any]:
        while (message := self.next("event"))["event"]["type"] != kind:
            self.seen.append(message)
        return message

    def until_tabs(self, hold: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until a condition of the list of tabs holds."""
        while not hold(self.tabs):
            self.tabs = self.next("tabs")["tabs"]


class Served:
    """A running server. ``client`` has its token."""

    def __init__(self, process: Process, line: str) -> None:
        self.process = process
        self.line = line
        """What it printed first."""
        self.url, _, self.token = line.partition("/#token=")
        self.headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx2.Client(base_url=self.url, headers=self.headers, timeout=10, trust_env=False)

    def chat(self, message: str) -> list[tuple[str, dict[str, Any]]]:
        """Send a message to the plain chat; returns the events of its answer."""
        answer = self.client.post("/chat", json={"message": message})
        assert answer.status_code == 200, answer.text
        lines = [line for line in answer.text.split("\n") if line and not line.startswith(":")]
        names, data = lines[::2], lines[1::2]
        return [
            (name.removeprefix("event: "), json.loads(each.removeprefix("data: ")))
            for name, each in zip(names, data, strict=True)
        ]

    @contextmanager
    def page(self) -> Generator[Page]:
        with connect(f"ws{self.url[4:]}/ws", additional_headers=self.headers) as socket:
            yield Page(socket)

    def tab(self, tab: str) -> dict[str, Any]:
        """The state of a tab."""
        return next(each for each in self.client.get("/api/state").json()["tabs"] if each["id"] == tab)

    def ended(self) -> int:
        """Wait for the end; returns the exit code. A server that hangs prints where each thread is."""
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            raise AssertionError(self.process.communicate()[1][-8000:]) from None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def begin(newel: Newel, command: str, *words: str, **environ: str) -> Process:
    whole = newel.environ | {"PYTHONFAULTHANDLER": "1"} | environ
    return start([command, *words], cwd=newel.project, env=whole)


@contextmanager
def served(newel: Newel, command: str = "go", *words: str, **environ: str) -> Generator[Served]:
    """A server on a free port, from the moment that it prints its address; it is killed at the end."""
    with begin(newel, command, *words, "--port", "0", **environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            if not line:
                raise AssertionError(process.communicate()[1])
            server = Served(process, line)
            with server.client:
                yield server
        finally:
            process.kill()


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait for something without a notification: a file, a process, a request."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
