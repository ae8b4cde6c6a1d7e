"""If these fail, models behind the Messages API cannot be used, or lose their thoughts, calls or caches on the way."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

import mock_llm_server
from newel.agent.errors import (
    ConnectionFailed,
    ContextOverflow,
    NewelError,
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
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.agent.ports import Model
from newel.providers.anthropic.client import AnthropicMessages
from newel.providers.retry import Retrying
from tests.integration.providers.raw import Serve, ask, http, sse
from tests.integration.providers.raw import event as sse_event

pytestmark = pytest.mark.anyio

Connect = Callable[..., AnthropicMessages]
BUDGET = Model("claude-sonnet-4-5")
ADAPTIVE = Model("claude-opus-4-6")
CALLS = [
    {"id": "toolu_1", "function": {"name": "bash", "arguments": {"command": "ls"}}},
    {"id": "toolu_2", "function": {"name": "bash", "arguments": {"command": "pwd"}}},
]
LIST_FILES: dict[str, Any] = {
    "reasoning_content": "Look first.",
    "content": "I look.",
    "tool_calls": CALLS,
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    },
}
GREETING: dict[str, Any] = {"response": {"content": "Hello."}}


@pytest.fixture
async def connect() -> AsyncGenerator[Connect]:
    """``connect(url, …)`` makes a provider that is closed after the test."""
    made: list[AnthropicMessages] = []

    def start(base_url: str, *, api_key: str | None = "sk-ant-api-1", **options: Any) -> AnthropicMessages:
        made.append(AnthropicMessages(base_url=base_url, api_key=api_key, **options))
        return made[-1]

    yield start
    for provider in made:
        await provider.aclose()


def script(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [{"name": "it", "trigger": "", "steps": list(steps)}]}


def results(message: AssistantMessage) -> list[Message]:
    return [ToolResultMessage(call.id, call.name, "a.py", is_error=False) for call in message.tool_calls]


@pytest.mark.parametrize("model", [BUDGET, ADAPTIVE, Model("claude-opus-5-5"), Model("kimi-k2")])
async def test_thoughts_calls_results_and_an_answer(model: Model, connect: Connect) -> None:
    """Otherwise the main job does not even work against a correct server."""
    async with mock_llm_server.serve(
        script({"response": LIST_FILES}, {"response": {"content": "Found {{ tool_result }}."}}), strict=True
    ) as server:
        provider = connect(server.url)
        history: list[Message] = [UserMessage("What is here?")]
        asked, seen = await ask(provider, messages=history, model=model, thinking="low")
        assert [call.arguments for call in asked.tool_calls] == [{"command": "ls"}, {"command": "pwd"}]
        assert (asked.text, asked.stop_reason) == ("I look.", "toolUse")
        assert asked.usage == Usage(input=100, output=20, cache_read=60, cache_write=30)
        assert "".join(each.delta for each in seen if isinstance(each, ThinkingDelta)) == "Look first."
        assert "".join(each.delta for each in seen if isinstance(each, TextDelta)) == "I look."
        assert {each.index for each in seen if isinstance(each, ToolCallDelta)} == {0, 1}
        steering = UserMessage("Hurry.")
        answer, _ = await ask(
            provider, messages=[*history, asked, *results(asked)], model=model, thinking="low"
        )
        assert (answer.text, answer.stop_reason) == ("Found a.py.", "stop")
        sent = server.requests[-1]["body"]["messages"][1]["content"]
        assert (sent[0]["type"], sent[0]["thinking"]) == ("thinking", "Look first.")
        await ask(provider, messages=[*history, asked, *results(asked), steering], model=model)
        assert len(server.requests) == 3  # nothing was rejected


async def test_another_models_turn_is_continued(connect: Connect) -> None:
    """Otherwise a conversation cannot change its model in the middle of the work."""
    foreign = AssistantMessage(
        [
            ThinkingContent("hm", field="reasoning_content"),
            TextContent("I look."),
            ToolCall("bash:0|x", "bash", {}),
        ],
        model="gpt-5",
        provider="openai",
    )
    history = [UserMessage("What is here?"), foreign, *results(foreign)]
    async with mock_llm_server.serve(script(GREETING, GREETING), strict=True) as server:
        provider = connect(server.url)
        for model in (BUDGET, ADAPTIVE):
            answer, seen = await ask(provider, messages=history, model=model, thinking="high")
            assert answer.text == "Hello."
            assert not [each for each in seen if isinstance(each, Retry)]
        assert "thinking" not in server.requests[0]["body"]
        assert server.requests[1]["body"]["thinking"]["type"] == "adaptive"


async def test_images_errors_and_blank_texts_are_accepted(connect: Connect) -> None:
    """Otherwise one screenshot, one failed call or one silent command ends the conversation for good."""
    image = ImageContent("aGk=", "image/png")
    called = AssistantMessage(
        [TextContent("\n"), ToolCall("a", "bash", {}), ToolCall("b", "no such tool!", {})]
    )
    history: list[Message] = [
        UserMessage([TextContent(" "), image]),
        AssistantMessage([ThinkingContent("hm", field="anthropic")], stop_reason="aborted"),
        UserMessage(""),
        called,
        ToolResultMessage("a", "bash", "", is_error=True, images=[image]),
        ToolResultMessage("b", "bash", " \n", is_error=True),
        AssistantMessage([TextContent("Half an ")], stop_reason="length"),
    ]
    async with mock_llm_server.serve(script(GREETING, GREETING), strict=True) as server:
        provider = connect(server.url)
        answer, _ = await ask(provider, messages=history)
        assert answer.text == "Hello."
        sent = server.requests[-1]["body"]["messages"]
        assert [block["type"] for block in sent[3]["content"][0]["content"]] == ["image"]
        assert sent[3]["content"][1]["is_error"] is True


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        {"kind": "status", "status": 529},
        {"kind": "status", "status": 500},
        {"kind": "reset", "after_chunks": 4},
        {"kind": "end_early", "after_chunks": 4},
        {"kind": "truncated_json"},
        {"kind": "stream_error", "type": "overloaded_error", "message": "Overloaded"},
        {"kind": "stall"},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}",
)
async def test_temporary_faults_are_overcome(fault: dict[str, Any], connect: Connect) -> None:
    """Otherwise an overloaded server ends the run."""
    step = {"response": {"content": "At last, an answer."}, "fault": fault | {"times": 2}}
    async with mock_llm_server.serve(script(step)) as server:
        provider = connect(server.url, timeout=0.5)
        message, seen = await ask(Retrying(provider, base_delay=0.001))
        retries = [at for at, delta in enumerate(seen) if isinstance(delta, Retry)]
        text = [delta.delta for delta in seen[retries[-1] :] if isinstance(delta, TextDelta)]
        assert len(retries) == 2
        assert "".join(text) == message.text == "At last, an answer."


@pytest.mark.parametrize("kind", ["missing_done", "wrong_content_type"])
async def test_harmless_deviations_are_tolerated(kind: str, connect: Connect) -> None:
    """Otherwise a good answer would be thrown away."""
    async with mock_llm_server.serve(
        script({"response": {"content": "Fine."}, "fault": {"kind": kind}})
    ) as server:
        provider = connect(server.url)
        message, _ = await ask(provider)
        assert message.text == "Fine."


async def test_malformed_arguments_are_sent_back_to_the_model(connect: Connect) -> None:
    """Otherwise a half command would run."""
    step = {"response": {"tool_calls": CALLS[:1]}, "fault": {"kind": "malformed_arguments"}}
    async with mock_llm_server.serve(script(step)) as server:
        provider = connect(server.url)
        message, _ = await ask(provider)
        assert "its arguments are not valid JSON" in (message.tool_calls[0].problem or "")


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (
            400,
            ("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
            ContextOverflow,
        ),
        (
            400,
            (
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 188240 + 32000 > 200000, decrease input length",
            ),
            ContextOverflow,
        ),
        (413, ("request_too_large", "Request exceeds the maximum size"), ContextOverflow),
        (401, ("authentication_error", "invalid x-api-key"), RequestRejected),
        (402, ("billing_error", "Your credit is used up"), RequestRejected),
        (404, ("not_found_error", "model: claude-9"), RequestRejected),
        (429, ("rate_limit_error", "Slow down"), RateLimited),
        (529, ("overloaded_error", "Overloaded"), ServerFailed),
        (500, ("api_error", "Internal server error"), ServerFailed),
    ],
)
async def test_errors_mean_the_same_before_and_within_an_answer(
    status: int, error: tuple[str, str], expected: type[NewelError], serve: Serve, connect: Connect
) -> None:
    """Otherwise a run ends where it should wait, or shorten the conversation."""
    kind, message = error
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    within = sse(sse_event(START), b"event: error\n" + sse_event(body))
    for answer in (http(json.dumps(body).encode(), f"{status} No"), within):
        provider = connect(serve(answer).url)
        with pytest.raises(expected) as caught:
            await ask(provider)
        assert message in str(caught.value)


START: dict[str, Any] = {
    "type": "message_start",
    "message": {"type": "message", "role": "assistant", "content": []},
}


def rejection(message: str) -> bytes:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return http(json.dumps(error).encode(), "400 Bad Request")


WHOLE = http(
    json.dumps(
        {"type": "message", "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"}
    ).encode()
)


@pytest.mark.parametrize(
    ("message", "options", "change"),
    [
        pytest.param(
            "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m",
            {},
            ("max_tokens", 32000, 8192),
            id="output limit",
        ),
        pytest.param(
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.',
            {"thinking": "low"},
            ("thinking.type", "enabled", "adaptive"),
            id="adaptive only",
        ),
        pytest.param(
            "adaptive thinking is not supported on this model",
            {"thinking": "low", "model": ADAPTIVE},
            ("thinking.type", "adaptive", "enabled"),
            id="budget only",
        ),
        pytest.param(
            '"thinking.type.disabled" is not supported for this model. To turn thinking off, send between_tools.',
            {"model": Model("claude-sonnet-5")},
            ("thinking.type", "disabled", "between_tools"),
            id="between tools",
        ),
        pytest.param(
            "thinking.adaptive.display: Extra inputs are not permitted",
            {"thinking": "low", "model": ADAPTIVE},
            ("thinking.display", "summarized", None),
            id="display",
        ),
        pytest.param(
            "output_config: Extra inputs are not permitted",
            {"thinking": "low", "model": ADAPTIVE},
            ("output_config.effort", "low", None),
            id="effort",
        ),
        pytest.param(
            "cache_control: Extra inputs are not permitted",
            {},
            ("cache_control.type", "ephemeral", None),
            id="caching",
        ),
        pytest.param("stream: streaming is not supported", {}, ("stream", True, None), id="streaming"),
    ],
)
async def test_a_rejected_feature_is_omitted_from_then_on(
    message: str,
    options: dict[str, Any],
    change: tuple[str, object, object],
    serve: Serve,
    connect: Connect,
) -> None:
    """Otherwise such a server or model cannot be used at all, or every request is sent twice."""
    server = serve(rejection(message), WHOLE, WHOLE)
    provider = connect(server.url)
    for _ in range(2):
        answer, _ = await ask(provider, **options)
        assert answer.text == "Hi."
    field, before, after = change
    assert [_get(server.sent(at), field) for at in range(3)] == [before, after, after]


def _get(body: dict[str, Any], path: str) -> object:
    *names, last = path.split(".")
    for name in names:
        body = body.get(name) or {}
    return body.get(last)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("sk-ant-api-1", ["x-api-key: sk-ant-api-1"]),
        ("sk-ant-oat-1", ["authorization: bearer sk-ant-oat-1"]),
        (None, []),
    ],
)
async def test_keys_and_tokens_go_in_their_own_headers(
    key: str | None, expected: list[str], serve: Serve, connect: Connect
) -> None:
    """Otherwise the server rejects one kind of key."""
    server = serve(WHOLE)
    provider = connect(server.url, api_key=key)
    await ask(provider)
    head = server.requests[0][0].decode().lower().split("\r\n")
    assert [line for line in head if line.startswith(("x-api-key", "authorization"))] == expected
    assert "anthropic-version: 2023-06-01" in head


async def test_the_list_of_models_names_their_sizes(connect: Connect) -> None:
    """Otherwise the user cannot choose a model, and long conversations are not compacted in time."""
    async with mock_llm_server.serve(
        script(GREETING) | {"models": [f"m{number}" for number in range(40)]}
    ) as server:
        provider = connect(server.url)
        models = await provider.list_models()
        assert len(models) == 41
        assert (models[1].name, models[1].context_window, models[1].max_output) == ("m0", 200_000, 64_000)
        assert await provider.window("m3") == 200_000


async def test_a_stream_that_breaks_off_is_retried(serve: Serve, connect: Connect) -> None:
    """Otherwise half an answer counts as a whole one."""
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Ha"}}
    provider = connect(serve(sse(sse_event(START), sse_event(block))).url)
    with pytest.raises(ConnectionFailed):
        await ask(provider)
    await provider.aclose()
