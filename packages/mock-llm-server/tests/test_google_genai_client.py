"""If these fail, the official Gemini client, or its types in their strictest mode, reject the server's answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from mock_llm_server import MockServer, running


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


LIMITED = {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}, "times": 1}
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
                        "reasoning": "Two sums first.",
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
                            "completion_tokens_details": {"reasoning_tokens": 15},
                        },
                    }
                }
            ],
        },
        {"name": "silent", "trigger": "hush", "steps": [{"response": {}}]},
        {
            "name": "malformed",
            "trigger": "malformed",
            "steps": [
                {"response": {"tool_calls": [call("add", a=1)]}, "fault": {"kind": "malformed_arguments"}}
            ],
        },
        {
            "name": "limited",
            "trigger": "limited",
            "steps": [
                {
                    "response": {"content": "ok"},
                    "fault": [LIMITED, {"kind": "status", "status": 503, "times": 1}],
                }
            ],
        },
        {"name": "broken", "trigger": "broken", "steps": [{"fault": {"kind": "status", "status": 500}}]},
        {
            "name": "interrupted",
            "trigger": "interrupted",
            "steps": [{"response": {"content": "one two three"}, "fault": {"kind": "stream_error"}}],
        },
    ],
}
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="add",
            description="Add two numbers.",
            parameters_json_schema={
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "additionalProperties": False,
            },
        )
    ]
)
MODEL = "gemini-3-flash"


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with running(SCRIPT, strict=True) as server:
        yield server


@pytest.fixture
def client(server: MockServer) -> Iterator[genai.Client]:
    logging.getLogger("google_genai").setLevel(logging.ERROR)
    client = connect(server)
    yield client
    client.close()


def connect(server: MockServer, **options: Any) -> genai.Client:
    http = types.HttpOptions(base_url=server.url, api_version="v1beta", **options)
    return genai.Client(api_key="test-key", http_options=http)


def ask(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [{"text": text}]}]


def post(server: MockServer, method: str, **body: Any) -> httpx2.Response:
    return httpx2.post(f"{server.url}/v1beta/models/{MODEL}:{method}", json=body)


TEXTS = ["hi", "work", "why", "hush", "malformed", "anything else"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_every_response_matches_the_official_types(server: MockServer, text: str, *, streamed: bool) -> None:
    """An agent built on the official types, which forbid unknown fields, would refuse what the mock sends."""
    if streamed:
        reply = post(server, "streamGenerateContent?alt=sse", contents=ask(text))
        events = [line.removeprefix("data: ") for line in reply.text.split("\n") if line]
    else:
        events = [post(server, "generateContent", contents=ask(text)).text]
    responses = [types.GenerateContentResponse.model_validate_json(event, extra="forbid") for event in events]
    assert len({response.response_id for response in responses}) == 1
    assert {response.model_version for response in responses} == {MODEL}
    *others, last = [(response.candidates or [])[0].finish_reason for response in responses]
    assert set(others) <= {None}
    assert last in {"STOP", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL"}
    assert responses[-1].usage_metadata is not None


def test_a_plain_question_is_answered(client: genai.Client) -> None:
    response = client.models.generate_content(model=MODEL, contents="hi")
    assert response.text == "Hi there, reader.\n  Grüße 🌍"
    assert response.model_version == MODEL


def test_streamed_text_joins_to_the_whole_text(client: genai.Client) -> None:
    pieces = [chunk.text or "" for chunk in client.models.generate_content_stream(model=MODEL, contents="hi")]
    assert "".join(pieces) == "Hi there, reader.\n  Grüße 🌍"
    assert len(pieces) > 4


def test_scripted_usage_reasoning_and_finish_reason_arrive(client: genai.Client) -> None:
    config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))
    response = client.models.generate_content(model=MODEL, contents="why", config=config)
    usage = response.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (100, 64)
    assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (5, 15, 120)
    candidate = (response.candidates or [])[0]
    assert candidate.finish_reason == types.FinishReason.MAX_TOKENS
    assert candidate.content
    assert [(part.text, bool(part.thought)) for part in candidate.content.parts or []] == [
        ("Because of that.", True),
        ("So.", False),
    ]


@pytest.mark.parametrize("include", [False, True])
def test_a_stream_has_thoughts_only_if_they_are_asked_for(client: genai.Client, *, include: bool) -> None:
    """A client that does not ask for thoughts would be tested with answers that the API never sends."""
    config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=include))
    thoughts = ""
    for chunk in client.models.generate_content_stream(model=MODEL, contents="why", config=config):
        content = (chunk.candidates or [])[0].content
        thoughts += "".join(part.text or "" for part in (content and content.parts) or [] if part.thought)
    assert thoughts == ("Because of that." if include else "")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_whole_tool_call_loop_of_a_chat(client: genai.Client, *, streaming: bool) -> None:
    """The main job of an agent: the client's own chat sends back calls, results and signatures as they came."""
    config = types.GenerateContentConfig(
        tools=[TOOL],
        system_instruction="Add.",
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    chat: Any = client.chats.create(model=MODEL, config=config)
    message: Any = "work"
    steps: list[list[dict[str, Any]]] = []
    text = ""
    for _ in range(5):
        responses: list[types.GenerateContentResponse]
        responses = list(chat.send_message_stream(message)) if streaming else [chat.send_message(message)]
        calls = [call for response in responses for call in response.function_calls or []]
        if not calls:
            text = "".join(response.text or "" for response in responses)
            break
        steps.append([call.args or {} for call in calls])
        message = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id,
                    name=call.name,
                    response={"output": str((call.args or {})["a"] + (call.args or {})["b"])},
                )
            )
            for call in calls
        ]
    assert steps == [[{"a": 1, "b": 2}, {"a": 3, "b": 4}], [{"a": 3, "b": 7}]]
    assert text == "The sum is 10."


def test_malformed_calls_end_the_response_as_the_api_ends_it(
    client: genai.Client, server: MockServer
) -> None:
    """An agent's handling of the finish reason could not be tested."""
    response = client.models.generate_content(model=MODEL, contents="malformed")
    candidate = (response.candidates or [])[0]
    assert candidate.finish_reason == types.FinishReason.MALFORMED_FUNCTION_CALL
    assert not response.function_calls
    wire = post(server, "generateContent", contents=ask("malformed")).json()["candidates"][0]
    assert wire["finishMessage"].startswith("Malformed function call: print(default_api.add(")


def test_models_are_listed_in_pages_and_found(client: genai.Client) -> None:
    models = list(client.models.list(config=types.ListModelsConfig(page_size=1)))
    assert [model.name for model in models] == ["models/mock-model", "models/mock-large"]
    assert models[0].supported_actions == ["generateContent", "countTokens"]
    assert client.models.get(model="mock-large").input_token_limit == 1_048_576
    with pytest.raises(errors.ClientError, match="NOT_FOUND"):
        client.models.get(model="absent")


def test_the_clients_own_retries_get_through_the_scripted_failures(server: MockServer) -> None:
    """A 429, a 503, then the answer: the counts of faults make retries testable."""
    retries = types.HttpRetryOptions(attempts=3, initial_delay=0.001, jitter=0)
    client = connect(server, retry_options=retries)
    assert client.models.generate_content(model=MODEL, contents="limited").text == "ok"
    client.close()


def test_errors_are_the_clients_typed_errors(client: genai.Client, server: MockServer) -> None:
    with pytest.raises(errors.ServerError) as failure:
        client.models.generate_content(model=MODEL, contents="broken")
    assert (failure.value.code, failure.value.status) == (500, "INTERNAL")
    with pytest.raises(errors.APIError, match="error while processing"):
        list(client.models.generate_content_stream(model=MODEL, contents="interrupted"))
    reply = post(server, "generateContent", contents=[])
    assert reply.json()["error"]["status"] == "INVALID_ARGUMENT"
    reply = post(server, "streamGenerateContent", contents=ask("hi"))
    assert (reply.status_code, "add ?alt=sse" in reply.text) == (400, True)


def test_a_pause_is_named_in_the_header_and_in_the_details() -> None:
    """Gemini names the pause only in the details, so clients read it there."""
    with running({"scenarios": [{"name": "it", "trigger": "", "steps": [{"fault": PAUSE}]}]}) as server:
        reply = post(server, "generateContent", contents=ask("hi"))
    assert reply.headers["retry-after"] == "7"
    assert reply.json()["error"]["details"] == [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    ]


PAUSE = {"kind": "status", "status": 429, "headers": {"Retry-After": "7"}}


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_each_version_of_the_api_answers(server: MockServer, version: str) -> None:
    """An agent may use any of them; the client's default has changed before."""
    reply = httpx2.post(
        f"{server.url}/{version}/models/m:generateContent?key=k", json={"contents": ask("hi")}
    )
    assert reply.json()["candidates"][0]["finishReason"] == "STOP"


# -- strict mode -----------------------------------------------------------------------------------

SIGNED_ADD: dict[str, Any] = {
    "functionCall": {"id": "c1", "name": "add", "args": {}},
    "thoughtSignature": "skip_thought_signature_validator",
}
ADD: dict[str, Any] = {"functionCall": {"id": "c1", "name": "add", "args": {}}}
RESULT: dict[str, Any] = {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "3"}}}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ([*ask("work"), model(SIGNED_ADD), *ask("go on")], "number of function response parts"),
        ([*ask("work"), model(SIGNED_ADD)], "followed by a function response turn"),
        ([*ask("work"), model(SIGNED_ADD), user(RESULT, RESULT)], "number of function response parts"),
        (
            [*ask("work"), model(SIGNED_ADD), user({"functionResponse": {"name": "add", "response": {}}})],
            "number of function response parts",
        ),
        ([*ask("work"), user(RESULT)], "function response turn comes immediately after"),
        ([model({"text": "Hi"})], "begin with a user turn"),
        ([*ask("work"), model(ADD), user(RESULT)], "missing a thought_signature"),
        ([*ask("work"), model({"text": "x", "thoughtSignature": "AAAA"}), *ask("go")], "Corrupted thought"),
        ([*ask("work"), model(ADD | {"thoughtSignature": "AAAA"}), user(RESULT)], "Corrupted thought"),
        ([{"role": "assistant", "parts": [{"text": "x"}]}], "valid role"),
        ([user()], "must not be empty"),
        (
            [{"role": "user", "parts": [{"text": "x", "cache": 1}]}],
            r"Unknown name \"cache\" at 'contents[0].parts[0]'",
        ),
    ],
)
def test_a_strict_server_refuses_a_history_that_the_api_refuses(
    server: MockServer, contents: list[dict[str, Any]], reason: str
) -> None:
    """An agent that loses a result or a signature would otherwise fail only in production."""
    reply = post(server, "generateContent", contents=contents)
    assert reply.status_code == 400
    assert reason in json.loads(reply.text)["error"]["message"].replace('"', r"\"")


def test_calls_of_earlier_turns_and_of_earlier_models_need_no_signature(server: MockServer) -> None:
    """A valid history would be refused."""
    history = [*ask("work"), model(ADD), user(RESULT)]
    reply = post(server, "generateContent", contents=[*history, model({"text": "3"}), *ask("hi")])
    assert reply.status_code == 200
    url = f"{server.url}/v1beta/models/gemini-2.5-flash:generateContent"
    assert httpx2.post(url, json={"contents": history}).status_code == 200


def thinking(**config: Any) -> dict[str, Any]:
    return {"generationConfig": {"thinkingConfig": config}}


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("m", {"stream": True}, 'Unknown name "stream": Cannot find field.'),
        ("m", {"generationConfig": {"thinkingConfig": {"level": 1}}}, "'generation_config.thinking_config'"),
        (
            "m",
            {
                "tools": [
                    {
                        "functionDeclarations": [
                            {"name": "f", "parameters": {"properties": {"x": {"exclusiveMinimum": 0}}}}
                        ]
                    }
                ]
            },
            "Unknown name \"exclusiveMinimum\" at 'tools[0].function_declarations[0].parameters.properties[0].value'",
        ),
        ("m", {"tools": [{"functionDeclarations": [{"name": "a b"}]}]}, "Invalid function name"),
        ("m", {"tools": [{"functionDeclarations": [{"name": "a"}, {"name": "a"}]}]}, "Duplicate function"),
        ("gemini-2.5-pro", thinking(thinkingBudget=0), "only works in thinking mode"),
        ("gemini-2.5-flash", thinking(thinkingLevel="LOW"), "not supported for this model"),
        ("gemini-3-pro-preview", thinking(thinkingLevel="MEDIUM"), "MEDIUM is not supported"),
        ("gemini-2.0-flash", thinking(includeThoughts=True), "not enabled for this model"),
        ("m", thinking(thinkingLevel="LOW", thinkingBudget=1), "only one of thinking budget"),
    ],
)
def test_a_strict_server_refuses_what_the_api_does_not_know(
    server: MockServer, name: str, body: dict[str, Any], reason: str
) -> None:
    """An agent would send a field or a schema that fails every request in production."""
    url = f"{server.url}/v1beta/models/{name}:generateContent"
    reply = httpx2.post(url, json={"contents": ask("hi")} | body)
    assert (reply.status_code, reason in reply.json()["error"]["message"]) == (400, True)
