"""The workbench as its user starts it: a command, its address, and who talks to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx2
from websockets.sync.client import connect

from tests.support import BIN, Newel

TOKEN = "a-token-that-was-chosen-for-the-tests-of-commands"


class Served:
    """A server that runs. ``client`` has its token, as a program would."""

    def __init__(self, process: subprocess.Popen[str], line: str) -> None:
        self.process = process
        self.line = line
        """What it printed first."""
        self.url, _, self.token = line.partition("/#token=")
        self.headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx2.Client(base_url=self.url, headers=self.headers, timeout=10, trust_env=False)

    def chat(self, message: str) -> list[tuple[str, dict[str, Any]]]:
        """Say something to the plain chat; the events of its answer."""
        answer = self.client.post("/chat", json={"message": message})
        assert answer.status_code == 200, answer.text
        lines = [line for line in answer.text.split("\n") if line and not line.startswith(":")]
        names, data = lines[::2], lines[1::2]
        return [
            (name.removeprefix("event: "), json.loads(each.removeprefix("data: ")))
            for name, each in zip(names, data, strict=True)
        ]

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Ask for something on a socket of its own; returns the answer."""
        with connect(f"ws{self.url[4:]}/ws", additional_headers=self.headers) as socket:
            socket.send(json.dumps({"type": kind, "id": "1"} | fields))
            while (answer := json.loads(socket.recv(timeout=8))).get("re") != "1":
                pass
            return answer

    def tab(self, tab: str) -> dict[str, Any]:
        """How a tab stands."""
        return next(each for each in self.client.get("/api/state").json()["tabs"] if each["id"] == tab)


def begin(newel: Newel, command: str, *words: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(BIN / command), *words],
        cwd=newel.project,
        env=newel.environ | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def served(newel: Newel, command: str, *words: str, **environ: str) -> Generator[Served]:
    """A server, from the moment that it says where it is."""
    with begin(newel, command, *words, **environ) as process:
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
