"""If these fail, conversations over OpenAI's Responses API lose reasoning, calls or answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from mock_llm_server import serve as serve_script
from newel.agent.errors import (
    ConnectionFailed,
    ContextOverflow,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from newel.agent.events import Retry, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import Model
from newel.providers.openai.responses import OpenAIResponses
from newel.providers.openai.server import OpenAI
from newel.providers.retry import Retrying
from tests.integration.providers.raw import Serve, ask, event, http, sends, sse

pytestmark = pytest.mark.anyio

Responses = Callable[..., OpenAIResponses]
Both = Callable[..., OpenAI]


@pytest.fixture
async def responses() -> AsyncGenerator[Responses]:
    """``responses(url, …)`` makes a client that is closed after the test."""
    made: list[OpenAIResponses] = []

    def start(base_url: str, **options: Any) -> OpenAIResponses:
        made.append(OpenAIResponses(base_url=base_url, api_key="sk-test-key", **options))
        return made[-1]

    yield start
    for client in made:
        await client.aclose()


@pytest.fixture
async def both() -> AsyncGenerator[Both]:
    """``both(url, …)`` makes a client of both APIs that is closed after the test."""
    made: list[OpenAI] = []

    def start(base_url: str, **options: Any) -> OpenAI:
        made.append(OpenAI(base_url=base_url, api_key="sk-test-key", **options))
        return made[-1]

    yield start
    for client in made:
        await client.aclose()


CALLS = [
    {"function": {"name": "bash", "arguments": {"command": "ls"}}},
    {"function": {"name": "bash", "arguments": {"command": "pwd"}}},
]
REASONED: dict[str, Any] = {"thinking": "low", "model": Model("m", max_output=5)}
PNG = ImageContent("aGk=", "image/png")


def script(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"scenarios": [{"name": "it", "trigger": "", "steps": list(steps)}]} | more


def results(message: AssistantMessage, **more: Any) -> list[Message]:
    return [
        ToolResultMessage(call.id, call.name, "a.py", is_error=False, **more) for call in message.tool_calls
    ]


def retries(seen: list[Any]) -> list[str]:
    return [delta.reason for delta in seen if isinstance(delta, Retry)]


async def test_reasoning_calls_results_and_an_answer(responses: Responses) -> None:
    """Otherwise the main job does not work against a correct and strict server."""
    steps = script(
        {
            "response": {
                "reasoning_content": "Look first.\n\nThen think.",
                "reasoning": "",
                "content": "I look.",
                "tool_calls": CALLS,
            }
        },
        {"response": {"reasoning": "Again.", "tool_calls": CALLS[:1]}},
        {"response": {"content": "Found {{ tool_result }}."}},
    )
    async with serve_script(steps, strict=True) as server:
        provider = responses(server.url)
        history: list[Message] = [UserMessage([TextContent("What is this?"), PNG])]
        asked, seen = await ask(provider, messages=history, **REASONED)
        assert [type(part).__name__ for part in asked.content] == [
            *("ThinkingContent", "ThinkingContent", "TextContent", "ToolCall", "ToolCall")
        ]
        assert [call.arguments for call in asked.tool_calls] == [{"command": "ls"}, {"command": "pwd"}]
        assert (asked.text, asked.stop_reason) == ("I look.", "toolUse")
        thought = "".join(delta.delta for delta in seen if isinstance(delta, ThinkingDelta))
        assert thought == "Look first.\n\nThen think."
        assert {delta.index for delta in seen if isinstance(delta, ToolCallDelta)} == {0, 1}
        history += [asked, *results(asked, images=[PNG])]
        again, _ = await ask(provider, messages=history, **REASONED)
        history += [again, *results(again)]
        answer, _ = await ask(provider, messages=history, **REASONED)
        assert (answer.text, answer.stop_reason) == ("Found a.py.", "stop")
        assert answer.usage.input > 0
        sent = server.requests[-1]["body"]["input"]
        assert [item["type"] for item in sent] == [
            *("message", "reasoning", "reasoning", "message", "function_call", "function_call"),
            *("function_call_output", "function_call_output"),
            *("reasoning", "function_call", "function_call_output"),
        ]
        assert all(item["encrypted_content"] for item in sent if item["type"] == "reasoning")
        assert sent[6]["output"][1]["image_url"] == "data:image/png;base64,aGk="


async def test_another_model_gets_no_foreign_reasoning(responses: Responses) -> None:
    """Otherwise the first request after a change of the model would be refused."""
    step = {"response": {"reasoning": "Hm.", "content": "Yes."}}
    async with serve_script(script(step), strict=True) as server:
        provider = responses(server.url)
        asked, _ = await ask(provider, **REASONED)
        history = [UserMessage("a"), asked, UserMessage("b")]
        await ask(provider, messages=history, model=Model("other"))
        assert [item["type"] for item in server.requests[-1]["body"]["input"]] == ["message"] * 3


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        {"kind": "status", "status": 503},
        {"kind": "reset", "after_chunks": 6},
        {"kind": "reset", "after_chunks": 0},
        {"kind": "end_early", "after_chunks": 6},
        {"kind": "truncated_json", "after_chunks": 6},
        {"kind": "stream_error", "after_chunks": 6},
        {"kind": "stall", "after_chunks": 6},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}",
)
async def test_temporary_faults_are_overcome(fault: dict[str, Any], responses: Responses) -> None:
    """Otherwise common temporary faults end the run."""
    step = {"response": {"content": "At last, an answer."}, "fault": fault | {"times": 2}}
    async with serve_script(script(step)) as server:
        provider = responses(server.url, timeout=0.5)
        message, seen = await ask(Retrying(provider, base_delay=0.001))
        at = [at for at, delta in enumerate(seen) if isinstance(delta, Retry)]
        text = [delta.delta for delta in seen[at[-1] :] if isinstance(delta, TextDelta)]
        assert len(at) == 2
        assert "".join(text) == message.text == "At last, an answer."


async def test_a_call_cut_off_by_the_output_limit_does_not_run(responses: Responses) -> None:
    """Otherwise half of a command would run."""
    step = {"response": {"tool_calls": CALLS, "finish_reason": "length"}}
    async with serve_script(script(step)) as server:
        provider = responses(server.url)
        message, _ = await ask(provider)
        assert message.stop_reason == "length"
        assert [bool(call.problem) for call in message.tool_calls] == [False, True]


async def test_malformed_arguments_are_sent_back_to_the_model(responses: Responses) -> None:
    """Otherwise a half command would run."""
    step = {"response": {"tool_calls": CALLS[:1]}, "fault": {"kind": "malformed_arguments"}}
    async with serve_script(script(step)) as server:
        provider = responses(server.url)
        message, _ = await ask(provider)
        assert "its arguments are not valid JSON" in (message.tool_calls[0].problem or "")


async def test_a_filtered_answer_and_a_failed_one_are_errors(responses: Responses) -> None:
    """Otherwise the user takes a part of an answer for the whole."""
    filtered = {"response": {"content": "So", "finish_reason": "content_filter"}}
    async with serve_script(script(filtered)) as server:
        provider = responses(server.url)
        message, _ = await ask(provider)
        assert (message.text, message.stop_reason) == ("So", "error")
        assert "content filter" in (message.error_message or "")
    async with serve_script(script({"response": {"content": "So", "finish_reason": "error"}})) as server:
        provider = responses(server.url)
        with pytest.raises(ServerFailed, match="The model failed to generate a response"):
            await ask(provider)


REJECTIONS = [
    ("Your organization must be verified to generate reasoning summaries.", "reasoning.summary", 400),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning", 400),
    ("Encrypted content is not supported with this model.", "include", 400),
    ("Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key", 400),
    ("Unsupported parameter: max_output_tokens", "max_output_tokens", 400),
    ("body.parallel_tool_calls: Extra inputs are not permitted", "parallel_tool_calls", 422),
    ("Your organization must be verified to stream this model.", "stream", 400),
]


@pytest.mark.parametrize(("words", "option", "status"), REJECTIONS, ids=[row[1] for row in REJECTIONS])
async def test_a_rejected_option_is_omitted_from_then_on(
    words: str, option: str, status: int, responses: Responses
) -> None:
    """Otherwise a server or organization without this feature could not be used at all."""
    rejection = {"kind": "status", "status": status, "body": {"error": {"message": words}}, "times": 1}
    step = {"response": {"content": "Yes."}, "fault": rejection}
    async with serve_script(script(step), strict=True) as server:
        provider = responses(server.url)
        answer, seen = await ask(provider, **REASONED)
        assert answer.text == "Yes."
        assert retries(seen) == [f"the server rejected the request; retrying without {option}"]
        assert retries((await ask(provider, **REASONED))[1]) == []
        rejected, *accepted = (request["body"] for request in server.requests)
        outer, _, inner = option.partition(".")
        for body in accepted:
            assert inner not in body[outer] if inner else outer not in body
        assert outer in rejected


async def test_the_nearest_supported_effort_is_used(responses: Responses) -> None:
    """Otherwise a level that one model lacks would end the run, or turn reasoning off."""
    words = (
        "Unsupported value: 'minimal' is not supported with the 'm' model. "
        "Supported values are: 'none', 'low', 'medium', and 'high'."
    )
    rejection = {"kind": "status", "status": 400, "body": {"error": {"message": words}}, "times": 1}
    async with serve_script(script({"response": {"content": "Yes."}, "fault": rejection})) as server:
        provider = responses(server.url)
        _, seen = await ask(provider, thinking="minimal")
        assert retries(seen) == ["the server rejected the request; retrying with the reasoning effort low"]
        assert server.requests[-1]["body"]["reasoning"] == {"effort": "low", "summary": "auto"}


async def test_reasoning_that_the_server_cannot_read_is_left_out(serve: Serve, responses: Responses) -> None:
    """Otherwise a conversation could not be resumed with another organization's key."""
    words = b'{"error": {"message": "The encrypted content gAAA could not be verified."}}'
    server = serve(http(words, "400 Bad Request"), sse(event(response(text("Yes.")))))
    provider = responses(server.url)
    thought = ThinkingContent("Hm", field="responses", signature='{"id":"rs_1","encrypted":"x"}')
    said = AssistantMessage([thought, TextContent("A")], model="m", provider="openai")
    _, seen = await ask(provider, messages=[UserMessage("a"), said, UserMessage("b")])
    assert retries(seen) == ["the server rejected the request; retrying without the earlier reasoning"]
    assert [[item["type"] for item in server.sent(at)["input"]] for at in (0, 1)] == [
        ["message", "reasoning", "message", "message"],
        ["message", "message", "message"],
    ]


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        ("server_error", "Oops", ServerFailed),
        ("rate_limit_exceeded", "Try again in 11 s.", RateLimited),
        ("context_length_exceeded", "Your input exceeds the context window of this model.", ContextOverflow),
        ("insufficient_quota", "You exceeded your current quota.", RequestRejected),
        ("invalid_prompt", "Your prompt was flagged.", RequestRejected),
        ("image_too_large", "Too large.", RequestRejected),
        ("server_is_overloaded", "Our servers are currently overloaded.", ServerFailed),
    ],
)
@pytest.mark.parametrize("shape", ["failed", "flat", "nested", "document"])
async def test_failures_within_a_response_have_their_class(
    serve: Serve,
    responses: Responses,
    code: str,
    words: str,
    *,
    expected: type[ProviderError],
    shape: str,
) -> None:
    """Otherwise a lasting failure is retried for minutes, or a temporary one ends the run."""
    error = {"code": code, "message": words}
    failed = response(status="failed", error=error)
    answers = {
        "failed": sse(event({"type": "response.failed", "response": failed})),
        "flat": sse(event({"type": "error", **error})),
        "nested": sse(event({"type": "error", "error": {"type": "error", **error}})),
        "document": http(json.dumps(failed).encode()),
    }
    provider = responses(serve(answers[shape]).url)
    with pytest.raises(expected, match=words) as caught:
        await ask(provider)
    assert type(caught.value) is expected


async def test_a_stream_without_an_end_is_incomplete(serve: Serve, responses: Responses) -> None:
    """Otherwise a part of an answer would be taken for the whole."""
    delta = event({"type": "response.output_text.delta", "delta": "Hel"})
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    server = serve(sends(head + delta))
    provider = responses(server.url)
    with pytest.raises(ConnectionFailed, match="before the response was complete"):
        await ask(provider)


# -- two APIs -------------------------------------------------------------------------------------

CHAT_REFUSALS = [
    "This model is only supported in v1/responses and not in v1/chat/completions.",
    "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?",
    "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. Please use /v1/responses instead.",
    "Function tools with reasoning_effort are not supported. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
    "model m is not accessible via the /chat/completions endpoint",
]
NOT_THERE = [
    http(b"404 page not found", "404 Not Found"),
    http(b'{"detail": "Not Found"}', "404 Not Found"),
    http(b'{"detail": "Method Not Allowed"}', "405 Method Not Allowed"),
    http(b"", "501 Not Implemented"),
    http(b'{"error": "Unexpected endpoint or method. (POST /v1/responses)"}'),
]
SWITCH = "the server rejected the request; retrying with "


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": status, "output": list(output), **more}


def text(words: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "output_text", "text": words, "annotations": list[Any]()}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


async def test_a_model_of_the_other_api_is_asked_there_for_good(both: Both) -> None:
    """Otherwise the coding models of OpenAI could not be used, or each request would fail first."""
    steps = script({"response": {"content": "Yes."}}, responses_only=["codex"])
    async with serve_script(steps, strict=True) as server:
        provider = both(server.url + "/v1")
        assert provider.way == "/chat/completions"
        answer, seen = await ask(provider, model=Model("codex"))
        assert (answer.text, retries(seen)) == ("Yes.", [SWITCH + "/responses"])
        assert provider.way == "/responses"
        assert retries((await ask(provider, model=Model("codex")))[1]) == []
        await ask(provider, model=Model("other"))
        assert provider.way == "/chat/completions"
        assert [request["path"].removeprefix("/v1") for request in server.requests] == [
            *("/chat/completions", "/responses", "/responses", "/chat/completions")
        ]
        assert await provider.models() == ["mock-model"]


@pytest.mark.parametrize("words", CHAT_REFUSALS)
async def test_rejections_that_name_the_other_api_switch_to_it(serve: Serve, words: str, both: Both) -> None:
    """Otherwise a model would reason less, or not answer at all."""
    refusal = http(json.dumps({"error": {"message": words, "param": "model"}}).encode(), "404 Not Found")
    server = serve(refusal, http(json.dumps(response(text("Yes."))).encode()))
    provider = both(server.url)
    answer, seen = await ask(provider, thinking="low")
    assert (answer.text, retries(seen)) == ("Yes.", [SWITCH + "/responses"])
    assert server.sent()["reasoning"]["effort"] == "low"


@pytest.mark.parametrize("refusal", NOT_THERE, ids=["Go", "FastAPI", "method", "501", "LM Studio"])
async def test_a_server_without_responses_is_asked_by_chat_completions(
    serve: Serve, refusal: bytes, both: Both
) -> None:
    """Otherwise most servers could not be used when Responses are preferred."""
    completion = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
    server = serve(refusal, http(json.dumps(completion).encode()))
    provider = both(server.url, prefer="responses")
    answer, seen = await ask(provider)
    assert (answer.text, retries(seen)) == ("Yes.", [SWITCH + "/chat/completions"])
    assert retries((await ask(provider))[1]) == []
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "words",
    ["The model `m` does not exist or you do not have access to it.", 'model "m" not found, try pulling it'],
)
async def test_a_missing_model_is_no_missing_api(serve: Serve, words: str, both: Both) -> None:
    """Otherwise a misspelled name would be reported with the wrong path, and the API changed."""
    server = serve(http(json.dumps({"error": {"message": words}}).encode(), "404 Not Found"))
    provider = both(server.url, prefer="responses")
    with pytest.raises(RequestRejected, match="Check the name of the model"):
        await ask(provider)
    assert len(server.requests) == 1
    assert provider.way == "/responses"


async def test_a_wrong_address_does_not_change_the_api(serve: Serve, both: Both) -> None:
    """Otherwise a server that was down behind its gateway would be asked by the wrong API for good."""
    missing = NOT_THERE[0]
    server = serve(missing, missing, http(json.dumps(response(text("Yes."))).encode()))
    provider = both(server.url, prefer="responses")
    with pytest.raises(RequestRejected):
        await ask(provider)
    answer, seen = await ask(provider)
    assert (answer.text, retries(seen)) == ("Yes.", [])
