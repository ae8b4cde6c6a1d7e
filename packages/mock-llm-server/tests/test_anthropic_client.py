"""If these fail, Anthropic's official client rejects the server's answers, or the mock accepts what the API refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from pydantic import TypeAdapter

from mock_llm_server import MockServer, running
from mock_llm_server.dialects.anthropic import sign

pytestmark = pytest.mark.timeout(120)  # the first import in a new environment compiles a thousand modules

if TYPE_CHECKING:  # it takes a second to import, in each of the processes that collect the tests
    from anthropic import Anthropic
    from anthropic.types import Message, MessageParam, RawMessageStreamEvent, ToolParam


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def fails(status: int, **more: Any) -> dict[str, Any]:
    return {"kind": "status", "status": status, "headers": {"Retry-After": "0"}, **more}


SCRIPT: dict[str, Any] = {
    "models": ["mock-large", "mock-small"],
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
                        "reasoning_content": "Add the pairs first.",
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
                            "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 16},
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
                {"response": {"content": "ok"}, "fault": [fails(429, times=1), fails(529, times=1)]},
            ],
        },
        {"name": "broken", "trigger": "broken", "steps": [{"fault": {"kind": "status", "status": 500}}]},
        {"name": "busy", "trigger": "busy", "steps": [{"fault": fails(529)}]},
        {
            "name": "dropped",
            "trigger": "dropped",
            "steps": [
                {
                    "response": {"content": "Half of an answer."},
                    "fault": {"kind": "stream_error", "type": "overloaded_error", "message": "Overloaded"},
                }
            ],
        },
    ],
}
TOOLS: list[ToolParam] = [
    {
        "name": "add",
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    }
]
VERSION = {"anthropic-version": "2023-06-01"}
TEXTS = ["hi", "work", "why", "hush"]


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with running(SCRIPT, strict=True) as server:
        yield server


@pytest.fixture
def client(server: MockServer) -> Iterator[Anthropic]:
    from anthropic import Anthropic

    with Anthropic(base_url=server.url, api_key="sk-test", max_retries=0) as client:
        yield client


def ask(text: str) -> list[MessageParam]:
    return [{"role": "user", "content": text}]


def answer(client: Anthropic, *, streaming: bool, **options: Any) -> Message:
    from anthropic.types import Message

    if not streaming:
        return Message.model_validate(client.messages.create(**options))
    with client.messages.stream(**options) as stream:
        return stream.get_final_message()


def post(server: MockServer, text: str = "hi", **fields: Any) -> httpx2.Response:
    body: dict[str, Any] = {"model": "some-model", "max_tokens": 4096, "messages": ask(text)} | fields
    body = {name: value for name, value in body.items() if value is not None}
    return httpx2.post(f"{server.url}/v1/messages", json=body, headers=VERSION)


@pytest.mark.parametrize("text", TEXTS)
def test_every_message_is_a_strict_message(server: MockServer, text: str) -> None:
    """An agent built on the official types would refuse what the mock sends."""
    from anthropic.types import Message

    message = Message.model_validate_json(post(server, text).content, strict=True)
    assert message.model == "some-model"
    assert message.stop_reason in {"end_turn", "tool_use", "max_tokens"}


@pytest.mark.parametrize("text", TEXTS)
def test_every_event_is_a_strict_event(server: MockServer, text: str) -> None:
    """A streaming agent built on the official types would refuse what the mock sends."""
    from anthropic.types import RawMessageStreamEvent

    adapter: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
    events = [part.split("\n") for part in post(server, text, stream=True).text.strip().split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    values = [data.removeprefix("data: ") for _, data in events]
    assert [json.loads(value)["type"] for value in values] == names
    for name, value in zip(names, values, strict=True):
        if name != "ping":
            adapter.validate_json(value, strict=True)
    assert (names[0], names[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert names.count("content_block_start") == names.count("content_block_stop")


def test_create_answers_a_plain_question(client: Anthropic) -> None:
    message = client.messages.create(model="any-model", messages=ask("hi"), max_tokens=10)
    assert [block.to_dict() for block in message.content] == [
        {"type": "text", "text": "Hi there, reader.\n  Grüße 🌍"}
    ]
    assert (message.model, message.stop_reason) == ("any-model", "end_turn")


def test_streamed_text_joins_to_the_whole_text(client: Anthropic) -> None:
    with client.messages.stream(model="m", messages=ask("hi"), max_tokens=10) as stream:
        pieces = list(stream.text_stream)
    assert "".join(pieces) == "Hi there, reader.\n  Grüße 🌍"
    assert len(pieces) > 4


@pytest.mark.parametrize("streaming", [False, True])
def test_thoughts_usage_and_stop_reason_arrive(client: Anthropic, *, streaming: bool) -> None:
    """Otherwise nobody could test how a client counts cached tokens, or keeps signatures."""
    message = answer(client, streaming=streaming, model="m", messages=ask("why"), max_tokens=4096)
    thought = message.content[0]
    assert thought.type == "thinking"
    assert (thought.thinking, thought.signature) == ("Because of that.", sign("Because of that."))
    assert message.stop_reason == "max_tokens"
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (20, 20)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (64, 16)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_whole_tool_call_loop(client: Anthropic, *, streaming: bool) -> None:
    """The main job of an agent: parallel calls, results, further calls, an answer with the last result."""
    from anthropic.types import ToolUseBlock

    messages = ask("work")
    options: dict[str, Any] = {
        "model": "m",
        "max_tokens": 4096,
        "tools": TOOLS,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
    }
    for _ in range(5):
        message = answer(client, streaming=streaming, messages=messages, **options)
        messages.append({"role": "assistant", "content": message.content})
        calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
        if not calls:
            break
        results: list[Any] = [
            {
                "type": "tool_result",
                "tool_use_id": block.id,
                "content": str(sum(int(str(value)) for value in block.input.values())),
            }
            for block in calls
        ]
        messages.append({"role": "user", "content": results})
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3
    assert isinstance(messages[-1]["content"], list)
    assert getattr(messages[-1]["content"][0], "text", "") == "The sum is 10."


def test_models_are_listed_in_pages_and_found(client: Anthropic) -> None:
    import anthropic
    from anthropic.types import ModelInfo

    models = list(client.models.list(limit=2))
    assert [model.id for model in models] == ["mock-model", "mock-large", "mock-small"]
    for model in models:
        ModelInfo.model_validate_json(model.to_json(), strict=True)
    assert client.models.retrieve("mock-large").max_tokens == 64_000
    with pytest.raises(anthropic.NotFoundError, match="absent"):
        client.models.retrieve("absent")


def test_without_the_version_header_the_list_is_that_of_chat_completions(server: MockServer) -> None:
    """Both APIs share the path; a wrong list would break every test of the other one."""
    assert httpx2.get(f"{server.url}/v1/models").json()["object"] == "list"


def test_the_clients_own_retries_get_through_the_scripted_failures(client: Anthropic) -> None:
    """A 429, a 529, then the answer: the counts of faults make retries testable."""
    message = client.with_options(max_retries=2).messages.create(
        model="m", messages=ask("limited"), max_tokens=9
    )
    assert getattr(message.content[0], "text", "") == "ok"


def test_errors_are_the_clients_typed_errors(client: Anthropic) -> None:
    import anthropic

    for text, error, kind in (
        ("broken", anthropic.InternalServerError, "api_error"),
        ("busy", anthropic.InternalServerError, "overloaded_error"),
        ("limited", anthropic.RateLimitError, "rate_limit_error"),
    ):
        with running(SCRIPT) as fresh, pytest.raises(error) as failure:
            client.with_options(base_url=fresh.url).messages.create(
                model="m", messages=ask(text), max_tokens=9
            )
        assert isinstance(failure.value, anthropic.APIStatusError)
        body: Any = failure.value.body
        assert body["error"]["type"] == kind
        assert failure.value.request_id == body["request_id"]


def test_an_error_within_a_stream_is_typed_too(client: Anthropic) -> None:
    """Otherwise nobody could test what an overload in the middle of an answer does."""
    import anthropic

    with (
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        client.messages.stream(model="m", messages=ask("dropped"), max_tokens=9) as stream,
    ):
        stream.until_done()


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}}


def result(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "3", **more}


def thought(text: str, signature: str | None = None) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature or sign(text)}


def says(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def history(*contents: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]}


ON = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "fields",
    [
        history("hi", [use("c")], [result("c"), says("hi")]),
        history("hi", [thought("hm"), use("a"), use("b")], [result("b"), result("a")]) | ON,
        history("hi", [use("c")], [result("c")], "So.", "hi") | ON,
        {"messages": [*ask("work"), *ask("hi")]},
        {"system": [says("Be brief.") | MARK], "tools": [TOOLS[0]], **MARK},
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
    ],
)
def test_a_strict_server_accepts_what_the_api_accepts(server: MockServer, fields: dict[str, Any]) -> None:
    reply = post(server, **fields)
    assert reply.status_code == 200, reply.text


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": None}, "max_tokens: Field required"),
    ({"max_tokens": 0}, "greater than or equal to 1"),
    ({"max_tokes": 1}, "max_tokes: Extra inputs are not permitted"),
    ({"messages": [{"role": "user", "content": []}, *ask("hi")]}, "messages.0: all messages must have"),
    (history([says("")]), "must be non-empty"),
    (history([says(" \n")]), "non-whitespace"),
    (history([says("hi"), {"type": "imagine"}]), "Input tag 'imagine'"),
    ({"messages": [{"role": "assistant", "content": "Hi."}]}, 'must use the "user" role'),
    ({"messages": [{"role": "tool", "content": "Hi."}]}, "Input should be 'user' or 'assistant'"),
    (history("hi", "So. "), "trailing whitespace"),
    (history("hi", [use("c")], "go on"), "without `tool_result` blocks immediately after: c"),
    (history("hi", [use("c"), use("d")], [result("c")]), "immediately after: d"),
    (history("hi", [use("c")]), "without `tool_result`"),
    (history("hi", [use("c")], [says("hi"), result("c")]), "must come first"),
    (history("hi", "So.", [result("c")]), "unexpected `tool_use_id`"),
    (history("hi", [use("c")], [result("c"), result("c")]), "a single result"),
    (history("hi", [use("c")], [result("c")], [use("c")], [result("c")]), "ids must be unique"),
    (history("hi", [use("a:1")], [result("a:1")]), "should match pattern"),
    (
        history("hi", [use("c")], [result("c", content=[], is_error=True)]),
        "cannot be empty if `is_error`",
    ),
    (history("hi", [thought("hm", "forged"), says("So.")], "hi"), "Invalid `signature`"),
    (history("hi", [thought("hm")], "hi"), "final block in an assistant message"),
    (history("hi", [use("c")], [result("c")]) | ON, "Expected `thinking`"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "greater than or equal to 1024"),
    ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "must be greater than"),
    ({"thinking": {"type": "sometimes"}}, "Input tag 'sometimes'"),
    ({"system": [says("x") | MARK] * 4, **MARK}, "A maximum of 4 blocks"),
    ({"tools": [{"name": "add", "input_schema": {}}]}, "input_schema.type"),
    ({"tools": [TOOLS[0], TOOLS[0]]}, "must be unique"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED)
def test_a_strict_server_refuses_what_the_api_refuses(
    server: MockServer, fields: dict[str, Any], words: str
) -> None:
    """An agent that loses a result or a signature would otherwise fail only in production."""
    reply = post(server, **fields)
    assert reply.status_code == 400
    body = reply.json()
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert words in body["error"]["message"]


def test_a_strict_server_requires_the_version_header(server: MockServer) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": ask("hi")}
    reply = httpx2.post(f"{server.url}/v1/messages", json=body)
    assert (reply.status_code, reply.json()["error"]["message"]) == (
        400,
        "anthropic-version: header is required",
    )
