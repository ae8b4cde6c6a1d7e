"""If these fail, the official client in its strictest mode rejects the server's answers over the Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import httpx2
import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from mock_llm_server import MockServer, running

URL = "/v1/responses"
ENCRYPTED = ["reasoning.encrypted_content"]
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


SCRIPT: dict[str, Any] = {
    "models": ["mock-large"],
    "responses_only": ["mock-codex"],
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
                        "reasoning": "Two sums.\n\nThen one.",
                        "content": "Two.",
                        "tool_calls": [call("add", a=1, b=2), call("add", a=3, b=4)],
                    }
                },
                {"response": {"reasoning": "Now the last.", "tool_calls": [call("add", a=3, b=7)]}},
                {"response": {"content": "The sum is {{ tool_result }}."}},
            ],
        },
        {
            "name": "cut",
            "trigger": "why",
            "steps": [
                {
                    "response": {
                        "reasoning_content": "Because of that.",
                        "reasoning": "And of this.",
                        "content": "So.",
                        "finish_reason": "length",
                        "usage": {
                            "prompt_tokens": 100,
                            "completion_tokens": 20,
                            "prompt_tokens_details": {"cached_tokens": 64},
                            "completion_tokens_details": {"reasoning_tokens": 5},
                        },
                    }
                }
            ],
        },
        {"name": "silent", "trigger": "hush", "steps": [{"response": {}}]},
        {
            "name": "failed",
            "trigger": "give up",
            "steps": [{"response": {"content": "I", "finish_reason": "error"}}],
        },
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
        {
            "name": "torn",
            "trigger": "torn",
            "steps": [{"response": {"content": "x"}, "fault": {"kind": "stream_error", "code": "busy"}}],
        },
    ],
}
TOOLS: Any = [
    {
        "type": "function",
        "name": "add",
        "description": "Add two numbers.",
        "strict": False,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
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


def ask(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def post(server: MockServer, **body: Any) -> httpx2.Response:
    return httpx2.post(server.url + URL, json={"model": "m"} | body)


TEXTS = ["hi", "work", "why", "hush", "give up", "anything else"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {
        "tools": TOOLS,
        "store": False,
        "include": ENCRYPTED,
        "instructions": "Be brief.",
        "reasoning": {"effort": "low", "summary": "auto"},
        "prompt_cache_key": "k",
        "max_output_tokens": 16,
    },
]


@pytest.mark.parametrize("options", OPTIONS, ids=["few", "many"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_document_is_a_strict_response(server: MockServer, text: str, options: dict[str, Any]) -> None:
    """An agent built on the official types would refuse what the mock sends."""
    response = Response.model_validate(post(server, input=text, **options).json(), strict=True)
    assert response.model == "m"
    assert response.status in {"completed", "incomplete", "failed"}
    assert set(response.model_extra or {}) == {"store"}  # which the API sends and the type lacks
    assert response.instructions == options.get("instructions")


@pytest.mark.parametrize("options", OPTIONS, ids=["few", "many"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_event_is_a_strict_event(server: MockServer, text: str, options: dict[str, Any]) -> None:
    """A streaming agent built on the official types would refuse what the mock sends."""
    reply = post(server, input=text, stream=True, **options)
    names, objects = list[str](), list[dict[str, Any]]()
    for block in reply.text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        names.append(name.removeprefix("event: "))
        objects.append(json.loads(data.removeprefix("data: ")))
    events = [EVENT.validate_python(value, strict=True) for value in objects]
    assert [event.type for event in events] == names
    assert [value["sequence_number"] for value in objects] == list(range(len(objects)))
    assert names[:2] == ["response.created", "response.in_progress"]
    assert objects[0]["response"]["usage"] is None
    assert all(value["part"]["text"] == "" for value in objects if value["type"].endswith("part.added"))
    whole = post(server, input=text, **options).json()
    assert names[-1] == f"response.{whole['status']}"
    assert [item["type"] for item in objects[-1]["response"]["output"]] == [
        item["type"] for item in whole["output"]
    ]


def test_create_answers_a_plain_question(client: OpenAI) -> None:
    response = client.responses.create(model="any-model", input="hi", max_output_tokens=16)
    assert response.output_text == "Hi there, reader.\n  Grüße 🌍"
    assert (response.status, response.model) == ("completed", "any-model")


def test_the_stream_helper_sees_the_events_and_the_final_response(client: OpenAI) -> None:
    """``.stream()`` merges deltas itself and is the strictest reader of their order."""
    with client.responses.stream(
        model="m", input=ask("work"), tools=TOOLS, reasoning={"summary": "auto"}
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds.count("response.function_call_arguments.done") == 2
    assert kinds.count("response.reasoning_summary_part.added") == 2
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert final.output_text == "Two."


def test_streamed_text_joins_to_the_whole_text(client: OpenAI) -> None:
    stream = client.responses.create(model="m", input="hi", stream=True)
    pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "".join(pieces) == "Hi there, reader.\n  Grüße 🌍"
    assert len(pieces) > 4


def test_scripted_usage_reasoning_and_reason_to_stop_arrive(client: OpenAI) -> None:
    response = client.responses.create(
        model="m", input="why", include=["reasoning.encrypted_content"], reasoning={"summary": "auto"}
    )
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.total_tokens) == (100, 120)
    assert response.usage.input_tokens_details.cached_tokens == 64
    assert response.usage.output_tokens_details.reasoning_tokens == 5
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    reasoning = [item for item in response.output if item.type == "reasoning"]
    assert [item.summary[0].text for item in reasoning] == ["Because of that.", "And of this."]
    assert all(item.encrypted_content for item in reasoning)


def test_reasoning_is_encrypted_and_summarized_only_on_request(client: OpenAI) -> None:
    """An agent that forgets to ask would otherwise lose the reasoning only in production."""
    item = client.responses.create(model="m", input="why").output[0]
    assert item.type == "reasoning"
    assert (item.summary, item.encrypted_content) == ([], None)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_whole_tool_call_loop(client: OpenAI, *, streaming: bool) -> None:
    """The main job of an agent: calls, results, further calls, an answer with the last result."""
    items = ask("work")
    options: Any = {"model": "m", "tools": TOOLS, "store": False, "include": ENCRYPTED}
    text = ""
    for _ in range(5):
        response: Response
        if streaming:
            with client.responses.stream(input=items, **options) as stream:
                response = stream.get_final_response()
        else:
            response = cast("Response", client.responses.create(input=items, **options))
        text = response.output_text
        items += [item.to_dict(exclude_none=True) for item in response.output]
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        for each in calls:
            numbers = json.loads(each.arguments)
            output = str(numbers["a"] + numbers["b"])
            items.append({"type": "function_call_output", "call_id": each.call_id, "output": output})
    assert text == "The sum is 10."


def test_models_are_listed_and_found(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["mock-model", "mock-large"]


def test_chat_completions_refuse_a_model_of_this_api_only(client: OpenAI) -> None:
    """Otherwise an agent's change to this API cannot be tested."""
    with pytest.raises(openai.NotFoundError, match="only supported in v1/responses and not in v1/chat"):
        client.chat.completions.create(model="mock-codex", messages=ask("hi"))
    assert client.responses.create(model="mock-codex", input="hi").output_text


def test_the_clients_own_retries_get_through_the_scripted_failures(client: OpenAI) -> None:
    """A 429, a 503, then the answer: the counts of faults make retries testable."""
    response = client.with_options(max_retries=2).responses.create(model="m", input="limited")
    assert response.output_text == "ok"


def test_errors_are_the_clients_typed_errors(client: OpenAI, server: MockServer) -> None:
    with pytest.raises(openai.InternalServerError) as failure:
        client.responses.create(model="m", input="broken")
    assert failure.value.type == "server_error"
    with pytest.raises(openai.BadRequestError, match="empty"):
        client.responses.create(model="m", input=[])
    with pytest.raises(openai.BadRequestError, match="not a request for /v1/responses"):
        client.post("/responses", cast_to=Response, body={"model": "m", "messages": []})
    assert httpx2.get(server.url + URL).status_code == 405


def test_an_error_in_a_stream_is_an_error_event(client: OpenAI) -> None:
    stream = client.responses.create(model="m", input="torn", stream=True)
    *_, last = stream
    assert last.type == "error"
    assert last.code == "busy"


REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "YQ==",
}
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "3"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"input": [FUNCTION_CALL]}, "No tool output found for function call c1"),
        ({"input": [OUTPUT]}, "No tool call found for function call output with call_id c1"),
        ({"input": [FUNCTION_CALL, OUTPUT, OUTPUT]}, "No tool call found"),
        ({"input": [REASONING, FUNCTION_CALL, OUTPUT]}, "could not be verified"),
        ({"input": [{**REASONING, "status": "completed"}]}, "Unknown parameter: 'input[0].status'"),
        ({"input": [{"type": "reasoning", "id": "rs_1"}]}, "Missing required parameter: 'input[0].summary'"),
        ({"input": [{"type": "banana"}]}, "Invalid value: 'banana'"),
        ({"input": [{"role": "user"}]}, "Missing required parameter: 'input[0].content'"),
        (
            {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
            "Supported values are: 'output_text', 'refusal'",
        ),
        (
            {"input": [{**FUNCTION_CALL, "id": "x1"}, OUTPUT]},
            "Expected an ID that begins with 'fc'",
        ),
        ({"input": [{**FUNCTION_CALL, "call_id": "c" * 65}]}, "string too long"),
        ({"input": [{**FUNCTION_CALL, "name": "a b"}]}, "does not match pattern"),
        ({"input": "x", "messages": []}, "Unknown parameter: 'messages'."),
        ({"input": "x", "model": None}, "not a request"),
        ({"input": "x", "model": ""}, "Missing required parameter: 'model'"),
        ({"input": "x", "max_output_tokens": 15}, "Expected a value >= 16, but got 15"),
        ({"input": "x", "include": ["all"]}, "Invalid value: 'all'"),
        ({"input": "x", "reasoning": {"effort": "huge"}}, "Invalid value: 'huge'"),
        ({"input": "x", "reasoning": {"depth": 1}}, "Unknown parameter: 'reasoning.depth'"),
        ({"input": "x", "prompt_cache_key": "k" * 65}, "string too long"),
        (
            {"input": "x", "tools": [{"type": "function", "function": {"name": "add"}}]},
            r"Missing required parameter: 'tools[0].name'",
        ),
    ],
)
def test_a_strict_server_refuses_what_the_real_one_refuses(
    server: MockServer, body: dict[str, Any], words: str
) -> None:
    """An agent that sends such a request would otherwise fail only in production."""
    reply = post(server, **body)
    assert reply.status_code == 400
    assert words in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"encrypted_content": None}, "Items are not persisted when `store` is set to false"),
        ({"encrypted_content": "YQ=="}, "could not be verified"),
        ({"id": "rs_2"}, "could not be verified"),
        ({"summary": [{"type": "summary_text", "text": "Altered."}]}, "is not that of the response"),
        (None, "without its required following item"),
    ],
)
def test_reasoning_must_come_back_unchanged(
    server: MockServer, change: dict[str, Any] | None, words: str
) -> None:
    """An agent that alters or orphans reasoning would otherwise fail only in production."""
    options = {"store": False, "include": ENCRYPTED, "reasoning": {"summary": "auto"}, "tools": TOOLS}
    first = post(server, input="work", **options).json()
    reasoning, _, *calls = first["output"]
    outputs = [{"type": "function_call_output", "call_id": item["call_id"], "output": "3"} for item in calls]
    items = [*calls, *outputs]
    items.insert(len(items) if change is None else 0, reasoning | (change or {}))
    reply = post(server, input=[*ask("work"), *items], **options)
    if words:
        assert words in reply.json()["error"]["message"]
    else:
        assert reply.json()["status"] == "completed"
