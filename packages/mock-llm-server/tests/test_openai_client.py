"""If these fail, the official client in its strictest mode rejects the server's answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI
from openai.types import Model
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
    ChatCompletionToolParam,
)

from mock_llm_server import MockServer, running


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


SCRIPT: dict[str, Any] = {
    "models": ["mock-large"],
    "scenarios": [
        {
            "name": "chat",
            "trigger": "hi",
            "steps": [{"response": {"content": "Hi there, reader.\n  Grüße 🌍"}}],
        },
        {
            "name": "work",
            "trigger": "work",
            "steps": [
                {
                    "response": {
                        "content": "Two.",
                        "tool_calls": [call("add", a=1, b=2), call("add", a=3, b=4)],
                    }
                },
                {"response": {"tool_calls": [call("add", a=3, b=7)]}},
                {"response": {"content": "The sum is {{ tool_result }}."}},
            ],
        },
        {
            "name": "reasoned",
            "trigger": "why",
            "steps": [
                {
                    "response": {
                        "reasoning_content": "Because of that.",
                        "content": "So.",
                        "finish_reason": "length",
                        "usage": {
                            "prompt_tokens": 100,
                            "completion_tokens": 20,
                            "prompt_tokens_details": {"cached_tokens": 64},
                        },
                    }
                }
            ],
        },
        {"name": "silent", "trigger": "hush", "steps": [{"response": {}}]},
        {
            "name": "limited",
            "trigger": "limited",
            "steps": [
                {
                    "response": {"content": "ok"},
                    "fault": [
                        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}, "times": 1},
                        {"kind": "status", "status": 503, "headers": {"Retry-After": "0"}, "times": 1},
                    ],
                }
            ],
        },
        {"name": "broken", "trigger": "broken", "steps": [{"fault": {"kind": "status", "status": 500}}]},
    ],
}
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            },
        },
    }
]


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with running(SCRIPT, strict=True) as server:
        yield server


@pytest.fixture
def client(server: MockServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=server.url + "/v1", api_key="sk-test", max_retries=0) as client:
        yield client


def ask(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


TEXTS = ["hi", "work", "why", "hush", "anything else"]


@pytest.mark.parametrize("text", TEXTS)
def test_every_completion_is_a_strict_chat_completion(server: MockServer, text: str) -> None:
    """An agent built on the official types would refuse what the mock sends."""
    reply = httpx2.post(f"{server.url}/chat/completions", json={"model": "some-model", "messages": ask(text)})
    completion = ChatCompletion.model_validate(reply.json(), strict=True)
    assert completion.model == "some-model"
    assert completion.choices[0].finish_reason in {"stop", "tool_calls", "length"}
    assert completion.usage is not None


@pytest.mark.parametrize("include_usage", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_every_chunk_is_a_strict_chunk(server: MockServer, text: str, *, include_usage: bool) -> None:
    """A streaming agent built on the official types would refuse what the mock sends."""
    request: dict[str, Any] = {"model": "some-model", "messages": ask(text), "stream": True}
    if include_usage:
        request["stream_options"] = {"include_usage": True}
    reply = httpx2.post(f"{server.url}/chat/completions", json=request)
    events = [line.removeprefix("data: ") for line in reply.text.split("\n") if line]
    assert events[-1] == "[DONE]"
    objects: list[dict[str, Any]] = [json.loads(event) for event in events[:-1]]
    chunks = [ChatCompletionChunk.model_validate(value, strict=True) for value in objects]
    assert len({chunk.id for chunk in chunks}) == 1
    assert {chunk.model for chunk in chunks} == {"some-model"}
    assert all(("usage" in value) is include_usage for value in objects)
    if include_usage:
        assert all(chunk.usage is None for chunk in chunks[:-1])
        assert chunks[-1].usage is not None
        assert chunks[-1].choices == []


def test_create_answers_a_plain_question(client: OpenAI) -> None:
    completion = client.chat.completions.create(model="any-model", messages=ask("hi"), max_tokens=10)
    assert completion.choices[0].message.content == "Hi there, reader.\n  Grüße 🌍"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.model == "any-model"


def test_streamed_text_joins_to_the_whole_text(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="m", messages=ask("hi"), stream=True, max_completion_tokens=10
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(pieces) == "Hi there, reader.\n  Grüße 🌍"
    assert len(pieces) > 4


def test_the_stream_helper_sees_the_events_and_the_final_completion(client: OpenAI) -> None:
    """``.stream()`` merges deltas itself and is the strictest reader of their order."""
    with client.chat.completions.stream(model="m", messages=ask("work"), tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert "content.done" in kinds
    calls = final.choices[0].message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert final.choices[0].finish_reason == "tool_calls"


def test_scripted_usage_reasoning_and_finish_reason_arrive(client: OpenAI) -> None:
    completion = client.chat.completions.create(model="m", messages=ask("why"))
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.total_tokens) == (100, 120)
    assert completion.usage.prompt_tokens_details is not None
    assert completion.usage.prompt_tokens_details.cached_tokens == 64
    assert completion.choices[0].finish_reason == "length"
    assert (completion.choices[0].message.model_extra or {})["reasoning_content"] == "Because of that."


@pytest.mark.parametrize("streaming", [False, True])
def test_a_whole_tool_call_loop(client: OpenAI, *, streaming: bool) -> None:
    """The main job of an agent: calls, results, further calls, an answer with the last result."""
    messages = ask("work")
    for _ in range(5):
        if streaming:
            with client.chat.completions.stream(model="m", messages=messages, tools=TOOLS) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = (
                client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
            )
        messages.append(message.to_dict())  # pyright: ignore[reportArgumentType] (the documented way to go on)
        if not message.tool_calls:
            break
        for tool_call in message.tool_calls:
            assert isinstance(tool_call, ChatCompletionMessageFunctionToolCall)
            numbers = json.loads(tool_call.function.arguments)
            result = str(numbers["a"] + numbers["b"])
            messages.append({"role": "tool", "tool_call_id": tool_call.id, "content": result})
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool", "assistant")
    ]
    assert messages[-1].get("content") == "The sum is 10."


def test_models_are_listed_and_found(client: OpenAI) -> None:
    models = client.models.list()
    assert [model.id for model in models] == ["mock-model", "mock-large"]
    for model in models:
        Model.model_validate(model.to_dict(), strict=True)
    assert client.models.retrieve("mock-large").id == "mock-large"
    with pytest.raises(openai.NotFoundError, match="has no model"):
        client.models.retrieve("absent")


def test_the_clients_own_retries_get_through_the_scripted_failures(client: OpenAI) -> None:
    """A 429, a 503, then the answer: the counts of faults make retries testable."""
    completion = client.with_options(max_retries=2).chat.completions.create(
        model="m", messages=ask("limited")
    )
    assert completion.choices[0].message.content == "ok"


def test_errors_are_the_clients_typed_errors(client: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as failure:
        client.chat.completions.create(model="m", messages=ask("broken"))
    assert failure.value.type == "server_error"
    with pytest.raises(openai.BadRequestError, match="empty"):
        client.chat.completions.create(model="m", messages=[])


def test_a_strict_server_refuses_a_history_that_real_endpoints_refuse(client: OpenAI) -> None:
    """An agent that loses a tool result after an interrupt would otherwise fail only in production."""
    call: Any = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    assistant: Any = {"role": "assistant", "content": None, "tool_calls": [call]}
    with pytest.raises(openai.BadRequestError, match="Missing: c1"):
        client.chat.completions.create(model="m", messages=[*ask("work"), assistant, *ask("go on")])
    with pytest.raises(openai.BadRequestError, match="role 'tool'"):
        client.chat.completions.create(
            model="m", messages=[*ask("work"), {"role": "tool", "tool_call_id": "c1", "content": "3"}]
        )
