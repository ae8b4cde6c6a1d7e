"""If these fail, the server violates HTTP, or a misbehaving client breaks it for others."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mock_llm_server import Conversation, MockServer, StepMatch, parse, running, serve

SCRIPT: dict[str, Any] = {
    "scenarios": [
        {
            "name": "all",
            "trigger": "everything",
            "steps": [
                {
                    "response": {
                        "reasoning": "Hm well.",
                        "content": "One two.",
                        "tool_calls": [
                            {"id": "a", "function": {"name": "bash", "arguments": '{"command": "true"}'}},
                            {"id": "b", "function": {"name": "read", "arguments": {}}},
                        ],
                    }
                }
            ],
        },
        {"name": "echo", "trigger_regex": "echo (.*)", "steps": [{"response": {"content": "{{ 1 }}"}}]},
        {
            "name": "capture",
            "trigger": "capture",
            "steps": [{"response": {"content": "{{ tool_result }}"}}],
        },
    ]
}


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with running(SCRIPT) as server:
        yield server


def request(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def test_a_stream_has_exactly_the_order_of_the_wire(server: MockServer) -> None:
    """Role, reasoning, content, each call's head and arguments, the finish, the usage, [DONE]."""
    options = {"stream": True, "stream_options": {"include_usage": True}}
    text = httpx2.post(f"{server.url}/v1/chat/completions", json=request("everything", **options)).text
    assert text.endswith("data: [DONE]\n\n")
    events = text.removesuffix("data: [DONE]\n\n").split("\n\n")[:-1]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    seen = [chunk["choices"][0]["delta"] if chunk["choices"] else chunk["usage"] for chunk in chunks]

    def call(index: int, **fields: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, **fields}]}

    assert seen == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning": "Hm"},
        {"reasoning": " well."},
        {"content": "One"},
        {"content": " two."},
        call(0, id="a", type="function", function={"name": "bash", "arguments": ""}),
        call(0, function={"arguments": '{"command": '}),
        call(0, function={"arguments": '"true"}'}),
        call(1, id="b", type="function", function={"name": "read", "arguments": ""}),
        call(1, function={"arguments": "{}"}),
        {},
        {"prompt_tokens": 3, "completion_tokens": 10, "total_tokens": 13},
    ]
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]]
    assert finishes == [None] * 10 + ["tool_calls"]


def test_one_connection_serves_many_requests(server: MockServer) -> None:
    """Agents keep connections alive; a server that drops them hides bugs with that."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.connect()
    first = connection.sock
    for stream in (False, True, False):
        connection.request("POST", "/chat/completions", json.dumps(request("echo x", stream=stream)))
        reply = connection.getresponse()
        assert b'"x"' in reply.read()
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "ok"}
        assert connection.sock is first
    connection.close()


def test_head_unknown_paths_and_methods(server: MockServer) -> None:
    with httpx2.Client(base_url=server.url) as client:
        assert client.head("/v1/models").status_code == 200
        assert client.head("/v1/models").content == b""
        assert client.get("/v1/models").json()["data"][0]["id"] == "mock-model"
        wrong = client.get("/v1/chat/completions")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        absent = client.post("/v2/nothing")
        assert absent.status_code == 404
        assert absent.json()["error"].keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"messages": [{"content": "x"}]}', "missing required field `role`"),
        (b'{"messages": ' + b"[" * 100_000, "not a request for /v1/chat/completions"),
        (b'{"messages": []}', "empty"),
        (json.dumps(request("capture")).encode(), "has no tool_result"),
    ],
)
def test_an_invalid_request_gets_400_and_the_reason(server: MockServer, body: bytes, message: str) -> None:
    reply = httpx2.post(f"{server.url}/chat/completions", content=body)
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_unknown_fields_are_accepted(server: MockServer) -> None:
    fields: dict[str, Any] = {
        "temperature": 1,
        "max_tokens": 5,
        "max_completion_tokens": 5,
        "reasoning_effort": "low",
        "x": {},
    }
    reply = httpx2.post(f"{server.url}/chat/completions", json=request("echo ok", **fields))
    assert reply.json()["choices"][0]["message"]["content"] == "ok"


def test_a_body_over_the_limit_is_refused_while_it_arrives(server: MockServer) -> None:
    """One runaway client must not use up the memory of the machine that runs the tests."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
        sock.sendall(b"POST /chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        block = b" " * (1 << 20)
        for _ in range(64):
            sock.sendall(block)
        sock.sendall(b" ")
        assert sock.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_expects_100_continue_gets_it(server: MockServer) -> None:
    """Curl sends larger bodies only after 100 Continue, or a second later."""
    body = json.dumps(request("echo ok")).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        head = f"POST /chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        sock.sendall(head.encode() + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 100 ")
        sock.sendall(body)
        assert b'"ok"' in b"".join(iter(lambda: sock.recv(4096), b""))


@pytest.mark.slow  # a second of a core
@settings(max_examples=50)
@given(data=st.binary(min_size=1, max_size=200) | st.just(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000))
def test_junk_does_not_crash_the_server(server: MockServer, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        except OSError:
            pass
    assert httpx2.get(f"{server.url}/health").status_code == 200


@pytest.mark.slow  # a second of a core
def test_twenty_clients_at_once_each_get_their_own_answer(server: MockServer) -> None:
    def ask(number: int) -> list[str]:
        with httpx2.Client(base_url=server.url) as client:
            replies = [
                client.post("/chat/completions", json=request(f"echo {number}.{round_}"))
                for round_ in range(10)
            ]
        return [reply.json()["choices"][0]["message"]["content"] for reply in replies]

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(ask, range(20)))
    assert answers == [[f"{number}.{round_}" for round_ in range(10)] for number in range(20)]


def test_each_answer_has_its_own_id(server: MockServer) -> None:
    replies = [httpx2.post(f"{server.url}/chat/completions", json=request("echo x")).json() for _ in range(5)]
    assert len({reply["id"] for reply in replies}) == 5


@pytest.mark.anyio
async def test_a_function_chooses_in_place_of_the_triggers() -> None:
    """It can count, as no scenario can."""
    script = parse(json.dumps({"scenarios": [{"name": "n", "trigger": "!", "steps": [STEP_ONE, STEP_TWO]}]}))
    asked: list[str] = []

    def choose(conversation: Conversation) -> StepMatch:
        asked.append(conversation.user)
        scenario = script.scenarios[0]
        return StepMatch(scenario, scenario.steps[len(asked) - 1], len(asked) - 1)

    async with serve(script, choose=choose) as server, httpx2.AsyncClient() as client:
        url = f"{server.url}/v1/chat/completions"
        replies = [(await client.post(url, json=request("what?"))).json() for _ in range(2)]
    assert [reply["choices"][0]["message"]["content"] for reply in replies] == ["One.", "Two."]
    assert asked == ["what?", "what?"]
    assert [each["step"] for each in server.requests] == [0, 1]


STEP_ONE, STEP_TWO = ({"response": {"content": text}} for text in ("One.", "Two."))


def test_requests_can_be_inspected_without_their_secrets() -> None:
    """Tests assert what an agent sent; a failing assertion must not print a key."""
    with running(SCRIPT) as server:
        headers = {"Authorization": "Bearer sk-secret", "X-Api-Key": "sk-secret", "X-Title": "t"}
        httpx2.post(
            f"{server.url}/v1/chat/completions?key=sk-secret", json=request("echo x"), headers=headers
        )
        (seen,) = server.requests
    assert "sk-secret" not in str(seen)
    assert (seen["method"], seen["path"], seen["headers"]["x-title"]) == ("POST", "/v1/chat/completions", "t")
    assert seen["body"] == request("echo x")
    assert (seen["scenario"], seen["step"]) == ("echo", 0)


@pytest.mark.anyio
async def test_a_server_in_the_same_loop_ends_with_its_block() -> None:
    """A test suite that leaves listeners open runs out of ports."""
    async with serve(SCRIPT) as server:
        async with httpx2.AsyncClient() as client:
            reply = await client.post(f"{server.url}/chat/completions", json=request("echo x"))
        assert reply.json()["choices"][0]["message"]["content"] == "x"
    with pytest.raises(OSError, match="All connection attempts failed"):
        await anyio.connect_tcp("127.0.0.1", server.port)


def test_errors_of_the_block_are_not_wrapped() -> None:
    """A failed assertion must be shown as such, not as an exception group of a task group."""
    with pytest.raises(ZeroDivisionError), running(SCRIPT):
        _ = 1 / 0


def test_a_server_stops_while_a_client_waits() -> None:
    stalled = {"response": {}, "fault": {"kind": "stall"}}
    script = {"scenarios": [{"name": "s", "trigger": "", "steps": [stalled]}]}
    with socket.socket() as sock:
        with running(script) as server:
            sock.connect(("127.0.0.1", server.port))
            body = json.dumps(request("x", stream=True)).encode()
            sock.sendall(
                f"POST /chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            )
            sock.sendall(body)
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        assert server.requests
