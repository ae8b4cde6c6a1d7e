"""If these fail, a recording contains secrets, or its replay gives other answers."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mock_llm_server import MockServer, Upstream, running, serve
from mock_llm_server.replay import RecordingError, read, script_from

Send = Callable[..., tuple[bytes, bool]]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


SCRIPT: dict[str, Any] = {
    "scenarios": [
        {
            "name": "hi",
            "trigger_regex": "^hi$",
            "steps": [{"response": {"content": "Hi. {{ braces }}"}, "literal": True}],
        },
        {
            "name": "work",
            "trigger": "hi, work",
            "steps": [
                {
                    "response": {
                        "content": "Grüße",
                        "tool_calls": [call("bash", command="ls"), call("bash", command="é")],
                    }
                },
                {
                    "response": {
                        "reasoning_content": "Let me see.",
                        "tool_calls": [call("read", file_path="a")],
                    }
                },
                {
                    "response": {
                        "content": "Done.",
                        "finish_reason": "length",
                        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
                    }
                },
            ],
        },
        {
            "name": "retry",
            "trigger": "retry",
            "steps": [
                {
                    "response": {"content": "At last."},
                    "fault": [
                        {"kind": "status", "status": 429, "headers": {"Retry-After": "3"}, "times": 1},
                        {"kind": "reset", "after_chunks": 2, "times": 1},
                    ],
                }
            ],
        },
        {
            "name": "broken",
            "trigger": "broken",
            "steps": [{"response": {"content": "x"}, "fault": {"kind": "missing_done"}}],
        },
        {
            "name": "turn",
            "trigger": "again",
            "match": {"turn": 2},
            "steps": [{"response": {"content": "second"}}],
        },
        {"name": "turns", "trigger": "again", "steps": [{"response": {"content": "first"}}]},
        {
            "name": "small",
            "trigger": "title",
            "match": {"model": "small"},
            "steps": [{"response": {"content": "A title"}}],
        },
        {
            "name": "empty",
            "trigger_regex": r"\A\Z",
            "steps": [{"response": {"content": "Nothing was said."}}],
        },
    ]
}


def conversations() -> list[dict[str, Any]]:
    """Requests of a session, in order."""
    user = [{"role": "user", "content": "hi, work"}]
    tool = [{"role": "tool", "tool_call_id": "x", "content": "ok"}]
    again: list[dict[str, Any]] = [{"role": "user", "content": "again"}]
    answered = [*again, {"role": "assistant", "content": "first"}]
    histories: list[list[dict[str, Any]]] = [
        [{"role": "user", "content": "hi"}],
        user,
        user + tool * 2,
        user + tool * 3,
        *[[{"role": "user", "content": "retry"}]] * 3,
        [{"role": "user", "content": "broken"}],
        again,
        answered + again,
        [{"role": "user", "content": [{"type": "text", "text": "unknown"}]}],
        [{"role": "system", "content": "nobody speaks"}],
    ]
    requests = [{"model": "big", "messages": history, "stream": True} for history in histories]
    requests.append({"model": "small", "messages": [{"role": "user", "content": "title"}]})
    return requests


def answers(server: MockServer, send: Send) -> list[tuple[Any, bool]]:
    """The response to each request of the session, without what changes in every response."""

    def settled(line: str) -> Any:
        if not line.removeprefix("data: ").startswith("{"):
            return (
                line if ":" in line and not line.startswith(("content-length", "Transfer-Encoding")) else None
            )
        value = json.loads(line.removeprefix("data: "))
        return {key: item for key, item in value.items() if key not in {"id", "created"}}

    replies = [send(server, request) for request in conversations()]
    return [
        ([text for line in received.decode().splitlines() if (text := settled(line))], reset)
        for received, reset in replies
    ]


def test_a_replay_gives_the_recorded_answers(tmp_path: Path, send: Send) -> None:
    """Text, calls with their ids, reasoning, usage, faults, retries, repeated prompts, two models."""
    recording, scenarios = tmp_path / "session.jsonl", tmp_path / "scenarios.json"
    with running(SCRIPT, record=recording) as server:
        original = answers(server, send)
    recorded = script_from(read(recording))
    assert recorded.skipped == []
    scenarios.write_bytes(json_of(recorded.script))
    with running(scenarios) as server:
        assert answers(server, send) == original


def json_of(script: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(script)


def test_a_recorded_stream_can_be_replayed_without_streaming(tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    with running(SCRIPT, record=recording) as server:
        httpx2.post(f"{server.url}/chat/completions", json=conversations()[1])
    with running(script_from(read(recording)).script) as server:
        reply = httpx2.post(
            f"{server.url}/chat/completions", json=conversations()[1] | {"stream": False}
        ).json()
    message = reply["choices"][0]["message"]
    assert message["content"] == "Grüße"
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [
        {"command": "ls"},
        {"command": "é"},
    ]


def test_a_recording_contains_the_exchange_and_no_secret(tmp_path: Path) -> None:
    """Recordings are shared and committed."""
    recording = tmp_path / "session.jsonl"
    with running(SCRIPT, record=recording) as server:
        headers = {"Authorization": "Bearer sk-secret", "api-key": "sk-secret", "Cookie": "sk-secret"}
        httpx2.post(
            f"{server.url}/v1/chat/completions?key=sk-secret", json=conversations()[0], headers=headers
        )
    (line,) = recording.read_text().splitlines()
    assert "sk-secret" not in line
    assert stat.S_IMODE(recording.stat().st_mode) == 0o600
    exchange = json.loads(line)
    assert exchange["request"]["body"] == conversations()[0]
    chunks = exchange["response"]["chunks"]
    assert chunks[-1]["data"] == "data: [DONE]\n\n"
    assert [chunk["ms"] for chunk in chunks] == sorted(chunk["ms"] for chunk in chunks)
    assert (exchange["response"]["ending"], exchange["note"]) == ("complete", {"scenario": "hi", "step": 0})


def test_an_endless_answer_is_recorded_in_part_only(tmp_path: Path, send: Send) -> None:
    recording = tmp_path / "session.jsonl"
    step = {"response": {}, "fault": {"kind": "endless_body"}}
    with running({"scenarios": [{"name": "e", "trigger": "", "steps": [step]}]}, record=recording) as server:
        send(server, conversations()[0], limit=30_000_000)
    assert 10_000_000 < recording.stat().st_size < 20_000_000
    recorded = script_from(read(recording))
    assert recorded.script.scenarios == []
    assert len(recorded.skipped) == 1


def test_a_recording_from_the_middle_of_a_task_replays_from_there(tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    with running(SCRIPT, record=recording) as server:
        httpx2.post(f"{server.url}/chat/completions", json=conversations()[3])
    with running(script_from(read(recording)).script) as server:
        same = httpx2.post(f"{server.url}/chat/completions", json=conversations()[3] | {"stream": False})
        earlier = httpx2.post(f"{server.url}/chat/completions", json=conversations()[1])
    assert same.json()["choices"][0]["message"]["content"] == "Done."
    assert (earlier.status_code, earlier.text) == (404, "The recording does not contain this step.")


def test_timing_is_replayed_on_request(tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    slow = {"response": {"content": "a b c"}, "delay_ms": 60, "token_delay_ms": 20}
    with running({"scenarios": [{"name": "s", "trigger": "", "steps": [slow]}]}, record=recording) as server:
        httpx2.post(f"{server.url}/chat/completions", json=conversations()[0])
    (without,) = script_from(read(recording)).script.scenarios
    (with_timing,) = script_from(read(recording), timing=True).script.scenarios
    assert (without.steps[0].delay_ms, without.steps[0].token_delay_ms) == (0, 0)
    assert with_timing.steps[0].delay_ms >= 55
    assert with_timing.steps[0].token_delay_ms >= 8


def test_an_answer_read_to_its_last_event_replays(tmp_path: Path) -> None:
    """Many clients disconnect at [DONE], before the body ends."""
    recording = tmp_path / "session.jsonl"
    with running(SCRIPT, record=recording) as server:
        httpx2.post(f"{server.url}/chat/completions", json=conversations()[0])
    recording.write_text(recording.read_text().replace('"ending":"complete"', '"ending":"client left"'))
    (exchange,) = read(recording)
    assert exchange.response.ending == "client left"
    recorded = script_from([exchange])
    assert recorded.skipped == []
    assert recorded.script.scenarios[0].steps[0].response is not None
    exchange.response.chunks.pop()
    assert script_from([exchange]).skipped == [
        "exchange 1: the client disconnected before the answer was complete"
    ]


@pytest.mark.parametrize("line", ["", "{", "[]", '{"time": 1}', "\x00"])
def test_a_damaged_recording_is_refused_by_line(tmp_path: Path, line: str) -> None:
    recording = tmp_path / "session.jsonl"
    with running(SCRIPT, record=recording) as server:
        httpx2.post(f"{server.url}/chat/completions", json=conversations()[0])
    with recording.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RecordingError, match=r"session\.jsonl:2: this line is not a recorded exchange"):
        list(read(recording))


@pytest.mark.anyio
async def test_a_real_endpoint_is_recorded_through_the_proxy(tmp_path: Path) -> None:
    """How to get a scenario file from a real model: record it once, replay it offline."""
    recording = tmp_path / "session.jsonl"
    headers = {"Authorization": "Bearer sk-mine"}
    async with (
        serve(SCRIPT) as real,
        serve(upstream=Upstream(real.url + "/v1", "sk-real"), record=recording) as proxy,
        httpx2.AsyncClient() as client,
    ):
        direct = await client.post(f"{real.url}/v1/chat/completions", json=conversations()[1])
        through = await client.post(
            f"{proxy.url}/v1/chat/completions", json=conversations()[1], headers=headers
        )
        models = await client.get(f"{proxy.url}/models")
        broken = await client.post(f"{proxy.url}/chat/completions", json=conversations()[4])
        assert real.requests[1]["path"] == "/v1/chat/completions"
        assert models.json()["data"][0]["id"] == "mock-model"
        with pytest.raises(httpx2.ReadError):
            await client.post(f"{proxy.url}/chat/completions", json=conversations()[5])
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert len(through.text) == len(direct.text)
    assert (broken.status_code, broken.headers["retry-after"]) == (429, "3")
    assert "sk-" not in recording.read_text()
    async with serve(script_from(read(recording)).script) as replayed, httpx2.AsyncClient() as client:
        offline = await client.post(f"{replayed.url}/v1/chat/completions", json=conversations()[1])
    assert "data: [DONE]" in offline.text
    assert "Gr" in offline.text


@pytest.mark.anyio
async def test_an_unreachable_upstream_is_a_502_that_names_it() -> None:
    async with serve() as gone:
        address = gone.url
    async with serve(upstream=Upstream(address)) as proxy, httpx2.AsyncClient() as client:
        reply = await client.post(f"{proxy.url}/chat/completions", json=conversations()[0])
    assert reply.status_code == 502
    assert address.removeprefix("http://") in reply.json()["error"]["message"]
