"""If these fail, Ollama's official client rejects the server's answers, or the server accepts what Ollama does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import ollama
import pytest
from ollama import ChatResponse, Client

from mock_llm_server import MockServer, running


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def scenario(trigger: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": trigger, "trigger": trigger, "steps": list(steps)}


USAGE = {"prompt_tokens": 100, "completion_tokens": 20}
SCRIPT: dict[str, Any] = {
    "ollama_version": "0.33.0",
    "models": [
        "mock-large:70b",
        {"name": "plain", "capabilities": ["completion"], "context_length": 2048, "num_ctx": 1024},
        {"name": "warm", "loaded_context": 16_384},
    ],
    "scenarios": [
        scenario("hi", {"response": {"content": "Hi there, reader.\n  Grüße 🌍"}}),
        scenario(
            "work",
            {"response": {"content": "Two.", "tool_calls": [call("add", a=1, b=2), call("add", a=3, b=4)]}},
            {"response": {"tool_calls": [call("add", a=3, b=7)]}},
            {"response": {"content": "The sum is {{ tool_result }}."}},
        ),
        scenario(
            "why",
            {
                "response": {
                    "reasoning": "Because of that.",
                    "content": "So.",
                    "finish_reason": "length",
                    "usage": USAGE,
                }
            },
        ),
        scenario("hush", {"response": {}}),
        scenario(
            "limited",
            {
                "response": {"content": "ok"},
                "fault": [{"kind": "status", "status": 503, "message": "server busy", "times": 1}],
            },
        ),
        scenario("dies", {"response": {"content": "I will now end"}, "fault": {"kind": "stream_error"}}),
        scenario(
            "odd",
            {
                "response": {"tool_calls": [call("add", a=1)]},
                "fault": {"kind": "malformed_arguments", "arguments": '{"a": '},
            },
        ),
    ],
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            },
        },
    }
]
TEXTS = ["hi", "work", "why", "hush", "anything else"]


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with running(SCRIPT, strict=True) as server:
        yield server


@pytest.fixture
def client(server: MockServer) -> Iterator[Client]:
    client = Client(host=server.url)
    yield client
    client.close()


def ask(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def chat(client: Client, model: str, messages: list[Any], **options: Any) -> ChatResponse:
    return client.chat(model, messages, **options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] (a tool may be any function)


def stream(client: Client, messages: list[Any], **options: Any) -> list[ChatResponse]:
    return list(client.chat("mock-model", messages, stream=True, **options))  # pyright: ignore[reportUnknownMemberType]


def post(server: MockServer, **body: Any) -> tuple[int, dict[str, Any]]:
    """Post a chat that the official client would not send."""
    reply = httpx2.post(f"{server.url}/api/chat", json={"model": "mock-model", "stream": False} | body)
    return reply.status_code, reply.json()


@pytest.mark.parametrize("text", TEXTS)
def test_every_line_is_a_strict_answer(server: MockServer, text: str) -> None:
    """An agent built on the official types would refuse what the mock sends."""
    reply = httpx2.post(f"{server.url}/api/chat", json={"model": "mock-model", "messages": ask(text)})
    assert reply.headers["content-type"] == "application/x-ndjson"
    lines: list[dict[str, Any]] = [json.loads(line) for line in reply.text.splitlines()]
    parts = [ChatResponse.model_validate(line, strict=True) for line in lines]
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert all(part.message.role == "assistant" and part.model == "mock-model" for part in parts)
    assert (parts[-1].done_reason, parts[-1].message.content) == ("length" if text == "why" else "stop", "")


@pytest.mark.parametrize("text", TEXTS)
def test_a_stream_joins_to_the_whole_answer(client: Client, text: str) -> None:
    whole = chat(client, "mock-model", ask(text))
    parts = stream(client, ask(text))
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert "".join(part.message.thinking or "" for part in parts) == (whole.message.thinking or "")
    calls = [each for part in parts for each in part.message.tool_calls or []]
    assert calls == list(whole.message.tool_calls or [])
    assert len(parts) > 4 or text in {"hush", "why", "work"}


def test_scripted_counts_thinking_and_the_reason_of_the_end_arrive(client: Client) -> None:
    answer = chat(client, "mock-model", ask("why"), think="high")
    assert (answer.prompt_eval_count, answer.eval_count) == (100, 20)
    assert (answer.message.thinking, answer.message.content) == ("Because of that.", "So.")
    assert (answer.done, answer.done_reason) == (True, "length")
    assert all(
        (answer.total_duration, answer.load_duration, answer.prompt_eval_duration, answer.eval_duration)
    )


@pytest.mark.parametrize("streaming", [False, True])
def test_a_whole_tool_call_loop(client: Client, *, streaming: bool) -> None:
    """The main job of an agent: calls, results, further calls, an answer with the last result."""
    messages: list[Any] = ask("work")
    for _ in range(5):
        if streaming:
            parts = stream(client, messages, tools=TOOLS)
            calls = [each for part in parts for each in part.message.tool_calls or []]
            content = "".join(part.message.content or "" for part in parts)
        else:
            answer = chat(client, "mock-model", messages, tools=TOOLS)
            calls, content = list(answer.message.tool_calls or []), answer.message.content or ""
        messages.append({"role": "assistant", "content": content, "tool_calls": calls})
        if not calls:
            break
        for each in calls:
            result = str(each.function.arguments["a"] + each.function.arguments["b"])
            messages.append({"role": "tool", "tool_name": each.function.name, "content": result})
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert messages[-1]["content"] == "The sum is 10."


def test_images_and_a_schema_are_accepted(client: Client) -> None:
    message = ask("hi")[0] | {"images": [b"\x89PNG"]}
    assert chat(client, "mock-model", [message], format={"type": "object"}).message.content


def test_models_are_listed_and_described(client: Client) -> None:
    listed = [model.model for model in client.list().models]
    assert listed == ["mock-model:latest", "mock-large:70b", "plain:latest", "warm:latest"]
    shown = client.show("plain")
    assert shown.capabilities == ["completion"]
    assert (shown.modelinfo or {})["mock.context_length"] == 2048
    assert shown.parameters == "num_ctx 1024"
    assert client.show("mock-model").capabilities == ["completion", "tools", "thinking", "vision"]
    assert [(model.name, model.context_length) for model in client.ps().models] == [("warm:latest", 16_384)]
    with pytest.raises(ollama.ResponseError, match="model 'absent' not found") as absent:
        client.show("absent")
    assert absent.value.status_code == 404


def test_a_server_is_recognized_as_ollama_only_if_its_script_says_so(server: MockServer) -> None:
    """A client that asks for chat completions would otherwise be told to use the other API."""
    assert httpx2.get(f"{server.url}/api/version").json() == {"version": "0.33.0"}
    with running() as plain:
        assert httpx2.get(f"{plain.url}/api/version").status_code == 404


@pytest.mark.parametrize("path", ["/api/show", "/api/chat"])
def test_another_method_is_refused(server: MockServer, path: str) -> None:
    reply = httpx2.get(server.url + path)
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


def test_a_model_of_the_list_can_be_pulled(client: Client) -> None:
    progress = list(client.pull("warm", stream=True))
    assert (progress[0].status, progress[-1].status) == ("pulling manifest", "success")
    assert [each.completed for each in progress if each.total] == [0, 500_000_000, 1_000_000_000]
    assert client.pull("warm").status == "success"
    with pytest.raises(ollama.ResponseError, match="file does not exist"):
        list(client.pull("absent", stream=True))


@pytest.mark.parametrize(
    ("model", "options", "status", "words"),
    [
        ("absent", {}, 404, "model 'absent' not found"),
        ("plain", {"tools": TOOLS}, 400, "does not support tools"),
        ("plain", {"think": True}, 400, '"plain" does not support thinking'),
    ],
)
def test_models_refuse_what_they_cannot_do(
    client: Client, model: str, options: dict[str, Any], status: int, words: str
) -> None:
    with pytest.raises(ollama.ResponseError, match=words) as refused:
        chat(client, model, ask("hi"), **options)
    assert refused.value.status_code == status


def test_a_model_without_vision_refuses_images(client: Client) -> None:
    with pytest.raises(ollama.ResponseError, match="image input is not supported"):
        chat(client, "plain", [ask("hi")[0] | {"images": [b"\x89PNG"]}])


def test_faults_are_errors_of_the_client(client: Client) -> None:
    with pytest.raises(ollama.ResponseError, match="server busy") as busy:
        chat(client, "mock-model", ask("limited"))
    assert busy.value.status_code == 503
    assert chat(client, "mock-model", ask("limited")).message.content == "ok"
    with pytest.raises(ollama.ResponseError, match="had an error"):
        stream(client, ask("dies"))


def test_malformed_arguments_arrive_as_text(server: MockServer) -> None:
    _, answer = post(server, messages=ask("odd"))
    assert answer["message"]["tool_calls"][0]["function"]["arguments"] == '{"a": '


ADD: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call("add", a=1)]}
RESULT: dict[str, Any] = {"role": "tool", "content": "3", "tool_name": "add"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": [{"role": "developer", "content": "x"}]}, "role 'developer'"),
        ({"messages": [*ask("work"), ADD, *ask("go on")]}, "Missing: add"),
        ({"messages": [*ask("work"), RESULT]}, "result of a preceding call"),
        ({"messages": [*ask("work"), ADD, RESULT | {"tool_name": ""}]}, "name of its tool"),
        ({"messages": [*ask("work"), ADD, RESULT | {"tool_name": "sub"}]}, "result of a preceding call"),
        ({"messages": [*ask("work"), {"role": "assistant"}, *ask("hi")]}, "is empty"),
        ({"messages": ask("hi" * 10_000)}, "drop its oldest messages"),
        ({"messages": ask("hi" * 10_000), "truncate": False}, "longer than the context length"),
        ({"messages": [*ask("hi"), ADD | {"tool_calls": [call("", a=1)]}]}, "name of its function"),
        ({"messages": [ask("hi")[0] | {"reasoning": "Hm."}]}, "ignore the field messages[0].reasoning"),
        ({"messages": ask("hi"), "max_tokens": 10}, "ignore the field max_tokens"),
    ],
)
def test_a_strict_server_refuses_what_ollama_would_lose(
    server: MockServer, body: dict[str, Any], words: str
) -> None:
    """An agent would otherwise learn from wrong answers that its history never reached the model."""
    status, answer = post(server, **body)
    assert status == 400
    assert words in answer["error"]


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"function": {"name": "add", "arguments": '{"a": 1}'}}]},
        {"images": ["no base64!"]},
        {"images": ["data:image/png;base64,aGk="]},
        {"content": [{"type": "text", "text": "hi"}]},
    ],
)
def test_types_that_ollama_cannot_decode_are_refused(server: MockServer, message: dict[str, Any]) -> None:
    """These are valid in chat completions, which is where most agents come from."""
    status, answer = post(server, messages=[{"role": "user", "content": "hi"} | message])
    assert status == 400
    assert "is not a request for /api/chat" in answer["error"]


def test_a_conversation_that_fits_its_context_is_answered(client: Client) -> None:
    answer = chat(client, "mock-model", ask("hi" * 10_000), options={"num_ctx": 8192})
    assert answer.message.content
