"""Fixtures: a project with a scripted model, and programs that drive `newel rpc` in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mock_llm_server import running
from newel.client import RpcClient
from tests.forked import Process
from tests.support import BIN, Newel, bash, scenario

SCRIPTS: dict[str, list[dict[str, Any]]] = {
    # First: it is the wish for a summary, whose question also contains the prompts.
    "slowly, please": [{"response": {"content": "A summary."}, "delay_ms": 60_000}],
    "hello there": [{"content": "Hello from the model."}],
    "touch the file": [bash("touch touched"), {"content": "Touched."}],
    "sleep for long": [bash("echo $$ > pid; echo begun; sleep 300"), {"content": "Slept."}],
    "wait for go": [bash("echo begun; until [ -e go ]; do sleep 0.02; done"), {"content": "Went."}],
    "change the file": [bash("echo two > a.txt"), {"content": "Changed."}],
}
SCENARIOS = {
    "scenarios": [one for trigger, steps in SCRIPTS.items() for one in scenario(trigger, *steps)["scenarios"]]
}
Line = dict[str, Any]


class Program:
    """A program that talks with ``newel rpc``, line by line. ``lines`` are all that it has read."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[Line] = []
        self._seen = 0

    def send(self, kind: str, request_id: str | float | None = None, /, **fields: Any) -> None:
        self.write(json.dumps({"type": kind, "id": request_id, **fields}))

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self) -> Line | None:
        """The next line; None at the end."""
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            self.lines.append(json.loads(line))
            return self.lines[-1]
        return None

    def until(self, holds: Callable[[Line], bool]) -> Line:
        """The next line for which this holds. Lines before it are not looked at again."""
        while line := self.read():
            if holds(line):
                return line
        raise AssertionError(self.lines[-5:])

    def event(self, kind: str) -> Line:
        return self.until(lambda line: line["type"] == kind)

    def ask(self, kind: str, **fields: Any) -> Line:
        """Send a command, and return its response."""
        self._seen += 1
        self.send(kind, self._seen, **fields)
        return self.until(lambda line: line["type"] == "response" and line["id"] == self._seen)

    def end(self) -> int:
        """Close the input, read the rest, and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        while self.read():
            pass
        return self.process.wait(15)


@pytest.fixture
def newel(tmp_path: Any) -> Iterator[Newel]:
    with running(SCENARIOS, strict=True) as server:
        yield Newel(tmp_path, server)


@pytest.fixture
def open_rpc(newel: Newel) -> Iterator[Callable[..., Program]]:
    """Starts ``newel rpc`` with options."""
    opened: list[Program] = []

    def begin(*words: str) -> Program:
        opened.append(Program(newel.start("rpc", *words, stdin=-1)))
        return opened[-1]

    yield begin
    for program in opened:
        program.process.kill()
        program.process.communicate()


@pytest.fixture
def client(newel: Newel) -> Callable[..., RpcClient]:
    """Makes a client for the project."""

    def make(*words: str, **options: Any) -> RpcClient:
        named: dict[str, Any] = {
            "cwd": newel.project,
            "environ": newel.environ,
            "command": [str(BIN / "newel"), "rpc"],
        }
        return RpcClient(*words, **{**named, **options})

    return make
