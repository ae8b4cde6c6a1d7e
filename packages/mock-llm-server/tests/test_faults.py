"""If these fail, a fault sends other bytes than documented, and a client's tests prove nothing."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import MockServer, running

Send = Callable[..., tuple[bytes, bool]]


def script(fault: Any, **step: Any) -> dict[str, Any]:
    response = {
        "content": "one two three",
        "tool_calls": [{"id": "c", "function": {"name": "bash", "arguments": {"command": "true"}}}],
    }
    return {
        "scenarios": [
            {"name": "faulty", "trigger": "", "steps": [{"response": response, "fault": fault, **step}]}
        ]
    }


def ask(*, stream: bool = True) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": stream}


def parts(received: bytes) -> tuple[bytes, bytes, bool]:
    """Head, decoded body, and whether the body ended properly."""
    head, _, rest = received.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head, rest, len(rest) == length
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if size == b"0":
            return head, body, True
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return head, body, False


def events(body: bytes) -> list[bytes]:
    """The complete events of a stream."""
    return body.split(b"\n\n")[:-1]


def test_status_headers_and_body(send: Send) -> None:
    fault = {"kind": "status", "status": 429, "headers": {"Retry-After": "7"}}
    with running(script(fault)) as server:
        head, body, whole = parts(send(server, ask())[0])
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"\r\nretry-after: 7" in head
    assert (json.loads(body)["error"]["type"], whole) == ("rate_limit_error", True)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<h1>Bad Gateway</h1>", b"text/plain"),
        ({"detail": "no"}, b"application/json"),
        (["a", "b"], b"text/plain"),
    ],
)
def test_a_status_may_have_any_body(send: Send, body: Any, content_type: bytes) -> None:
    with running(script({"kind": "status", "status": 502, "body": body})) as server:
        head, received, whole = parts(send(server, ask())[0])
    expected = json.dumps(body, separators=(",", ":")) if isinstance(body, dict) else "".join(body)
    assert (received.decode(), whole) == (expected, True)
    assert b"content-type: " + content_type in head


@pytest.mark.parametrize("count", [1, 2, 4, 1000])
def test_a_reset_comes_after_the_chunks(send: Send, count: int) -> None:
    with running(script({"kind": "reset", "after_chunks": count})) as server:
        received, reset = send(server, ask())
    _, body, whole = parts(received)
    # Role, three words, the call's head, two pieces of arguments, then the finish; 1000 ends before it.
    assert (len(events(body)), reset, whole) == (min(count, 7), True, False)


def test_a_reset_before_the_first_byte(send: Send) -> None:
    with running(script({"kind": "reset", "after_chunks": 0})) as server:
        assert send(server, ask()) == (b"", True)
        assert send(server, ask(stream=False)) == (b"", True)


def test_a_reset_in_a_plain_body(send: Send) -> None:
    with running(script({"kind": "reset"})) as server:
        received, reset = send(server, ask(stream=False))
    _, body, whole = parts(received)
    assert (body.startswith(b'{"id":'), whole, reset) == (True, False, True)


def test_a_status_can_end_in_a_reset(send: Send) -> None:
    with running(script({"kind": "status", "status": 200, "body": ["data: 1\n\n"], "reset": True})) as server:
        received, reset = send(server, ask())
    assert (parts(received)[1:], reset) == ((b"data: 1\n\n", False), True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_stall_is_silent_and_keeps_the_connection(send: Send, *, stream: bool) -> None:
    with running(script({"kind": "stall", "after_chunks": 1})) as server:
        received, reset = send(server, ask(stream=stream), patience=0.5)
    _, body, whole = parts(received)
    assert (bool(body), whole, reset) == (True, False, False)
    assert len(events(body)) == int(stream)


def test_a_stall_before_the_first_byte(send: Send) -> None:
    with running(script({"kind": "stall", "after_chunks": 0})) as server:
        assert send(server, ask(), patience=0.3) == (b"", False)


def test_a_stall_with_a_duration_ends(send: Send) -> None:
    with running(script({"kind": "stall", "after_chunks": 3, "seconds": 0.2})) as server:
        start = time.monotonic()
        _, body, whole = parts(send(server, ask())[0])
        assert time.monotonic() - start >= 0.19
    assert (events(body)[-1], whole) == (b"data: [DONE]", True)


def test_a_stall_ends_when_the_client_disconnects(send: Send, tmp_path: Path) -> None:
    """A test of timeouts must not leave a sleeping connection for each attempt."""
    recording = tmp_path / "session.jsonl"
    with running(script({"kind": "stall"}), record=recording) as server:
        send(server, ask(), patience=0.1)
        deadline = time.monotonic() + 10
        while not recording.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert '"ending":"client left"' in recording.read_text()


@pytest.mark.parametrize("stream", [False, True])
def test_truncated_json_ends_properly_in_the_middle_of_an_object(send: Send, *, stream: bool) -> None:
    with running(script({"kind": "truncated_json", "after_chunks": 2})) as server:
        received, reset = send(server, ask(stream=stream))
    _, body, whole = parts(received)
    assert (whole, reset) == (True, False)
    rest = body.rpartition(b"\n\n")[2].removeprefix(b"data: ")
    assert rest.startswith(b'{"id":')
    with pytest.raises(json.JSONDecodeError):
        json.loads(rest)
    assert len(events(body)) == (2 if stream else 0)


def test_an_early_end_has_no_finish_and_no_done(send: Send) -> None:
    with running(script({"kind": "end_early", "after_chunks": 3})) as server:
        _, body, whole = parts(send(server, ask())[0])
    assert (len(events(body)), whole) == (3, True)
    assert all(json.loads(event[6:])["choices"][0]["finish_reason"] is None for event in events(body))


def test_missing_done_lacks_only_the_done(send: Send) -> None:
    with running(script({"kind": "missing_done"})) as server:
        _, body, whole = parts(send(server, ask())[0])
        plain = parts(send(server, ask(stream=False))[0])
    assert (json.loads(events(body)[-1][6:])["choices"][0]["finish_reason"], whole) == ("tool_calls", True)
    assert b"[DONE]" not in body
    assert (json.loads(plain[1])["object"], plain[2]) == ("chat.completion", True)


@pytest.mark.parametrize(("given", "expected"), [(None, '{"command'), ("{oops", "{oops")])
def test_malformed_arguments(send: Send, given: str | None, expected: str) -> None:
    fault = {"kind": "malformed_arguments"} | ({"arguments": given} if given else {})
    with running(script(fault)) as server:
        plain = json.loads(parts(send(server, ask(stream=False))[0])[1])
        streamed = [json.loads(event[6:]) for event in events(parts(send(server, ask())[0])[1])[:-1]]
    assert plain["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == expected
    deltas = [chunk["choices"][0]["delta"].get("tool_calls", [{}])[0] for chunk in streamed]
    assert "".join(delta.get("function", {}).get("arguments", "") for delta in deltas) == expected


def test_wrong_content_type(send: Send) -> None:
    with running(script({"kind": "wrong_content_type"})) as server:
        head, body, whole = parts(send(server, ask())[0])
    assert b"content-type: text/html; charset=utf-8" in head
    assert (events(body)[-1], whole) == (b"data: [DONE]", True)


def test_an_error_object_under_status_200(send: Send) -> None:
    with running(script({"kind": "stream_error", "after_chunks": 2, "message": "overloaded"})) as server:
        _, body, whole = parts(send(server, ask())[0])
        plain = json.loads(parts(send(server, ask(stream=False))[0])[1])
    assert (len(events(body)), whole) == (3, True)
    assert json.loads(events(body)[-1][6:])["error"]["message"] == plain["error"]["message"] == "overloaded"


@pytest.mark.parametrize(
    ("of", "repeated"),
    [("junk", b"xxxxxxxxxx"), ("content", b'{"content":"one"}'), ("comments", b": ping\n\n: ping")],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_endless_body_does_not_end(send: Send, of: str, repeated: bytes, *, stream: bool) -> None:
    with running(script({"kind": "endless_body", "of": of})) as server:
        received, reset = send(server, ask(stream=stream), limit=4_000_000)
        assert not reset
        assert len(received) >= 4_000_000
        assert (repeated if stream else b"xxxxxxxxxx") in received[-300_000:]
        assert not parts(received)[2]
        assert json.loads(parts(get(server, "/health"))[1]) == {"status": "ok"}


def get(server: MockServer, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: sock.recv(4096), b""))


def test_faults_occur_in_order_and_then_stop(send: Send) -> None:
    """This is how retries are tested."""
    fault = [
        {"kind": "status", "status": 503, "times": 2},
        {"kind": "reset", "after_chunks": 0, "times": 1},
    ]
    with running(script(fault)) as server:
        replies = [send(server, ask()) for _ in range(5)]
    assert [(received[9:12], reset) for received, reset in replies] == [
        *((b"503", False), (b"503", False), (b"", True), (b"200", False), (b"200", False))
    ]


def test_delays_come_before_the_first_byte_and_between_the_pieces(send: Send) -> None:
    slow = script(None, delay_ms=100, token_delay_ms=30)
    with running(slow) as server:
        for stream in (True, False):
            start = time.monotonic()
            _, _, whole = parts(send(server, ask(stream=stream))[0])
            assert whole
            assert time.monotonic() - start >= 0.18
