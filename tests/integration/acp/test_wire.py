"""If these fail, a careless or broken editor ends the agent, or does not learn what was wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import BIN, Newel, scenario

WithModel = Callable[..., Newel]


class Wire:
    """Lines to and from a ``newel acp``."""

    def __init__(self, newel: Newel) -> None:
        self.process = subprocess.Popen(
            [BIN / "newel", "acp"],
            cwd=newel.project,
            env=newel.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, line: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, line: bytes | dict[str, Any]) -> dict[str, Any]:
        self.send(line)
        return self.receive()

    def request(self, method: str, params: Any, number: Any = 1) -> dict[str, Any]:
        return self.ask({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


@pytest.fixture
def wire(with_model: WithModel) -> Iterator[Wire]:
    wire = Wire(with_model(scenario("hello", {"content": "Hello!"})))
    yield wire
    wire.process.kill()
    wire.process.communicate()


def initialize(wire: Wire) -> dict[str, Any]:
    return wire.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, "first")


def test_the_capabilities_are_those_that_work(wire: Wire) -> None:
    answer = initialize(wire)
    assert answer["id"] == "first"
    result = answer["result"]
    assert result["protocolVersion"] == 1
    assert result["agentInfo"]["name"] == "newel"
    assert result["agentCapabilities"] == {
        "loadSession": True,
        "promptCapabilities": {"image": True, "embeddedContext": True},
        "mcpCapabilities": {"http": True},
        "sessionCapabilities": {"list": {}, "delete": {}, "fork": {}, "resume": {}, "close": {}},
    }
    assert {method["id"] for method in result["authMethods"]} == {"openai", "anthropic", "gemini"}


def test_a_later_version_is_answered_with_ours(wire: Wire) -> None:
    assert wire.request("initialize", {"protocolVersion": 7})["result"]["protocolVersion"] == 1


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"{not json", -32700, "not JSON"),
        (b"[1, 2]", -32600, "not a JSON-RPC message"),
        (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', -32600, "not a JSON-RPC message"),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "session/fly"}', -32601, "session/fly"),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": {}}', -32602, "cwd"),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": {"sessionId": 1}}',
            -32602,
            "sessionId",
        ),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": {"sessionId": "x", "prompt": []}}',
            -32002,
            "No session 'x' is open",
        ),
        (b"\xff\xfe\x00", -32700, "not JSON"),
        (b"[" * 100_000, -32600, ""),
    ],
)
def test_bad_messages_are_answered_and_the_connection_goes_on(
    wire: Wire, line: bytes, code: int, words: str
) -> None:
    error = wire.ask(line)["error"]
    assert error["code"] == code
    assert words in error["message"]
    assert initialize(wire)["result"]


def test_a_message_of_100_mb_is_refused_and_the_connection_goes_on(wire: Wire) -> None:
    wire.send(
        b'{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": "' + b"x" * 100_000_000 + b'"}'
    )
    assert "too long" in wire.receive()["error"]["message"]
    assert initialize(wire)["result"]


def test_unknown_notifications_and_answers_that_nobody_awaits_are_ignored(wire: Wire) -> None:
    wire.send({"jsonrpc": "2.0", "method": "session/dance", "params": {}})
    wire.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}})
    wire.send({"jsonrpc": "2.0", "method": "session/cancel", "params": []})
    wire.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    wire.send({"jsonrpc": "2.0", "id": "99", "error": {"code": "odd"}})
    wire.send(b"")
    assert initialize(wire)["id"] == "first"


def test_answers_are_sent_even_if_the_input_has_ended(wire: Wire) -> None:
    """``echo … | newel acp`` in a script."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    out, _ = wire.process.communicate(line.encode() + b"\n", timeout=10)
    assert json.loads(out)["result"]["protocolVersion"] == 1
    assert wire.process.returncode == 0


def test_an_editor_that_stops_reading_and_leaves_ends_the_agent(wire: Wire) -> None:
    initialize(wire)
    assert wire.process.stdout is not None
    wire.process.stdout.close()
    wire.send({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {"protocolVersion": 1}})
    assert wire.process.wait(timeout=10) == 1


def test_a_signal_ends_it(wire: Wire) -> None:
    initialize(wire)
    wire.process.terminate()
    assert wire.process.wait(timeout=10) == 143
