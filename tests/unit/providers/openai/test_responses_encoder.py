"""If these fail, the model gets a conversation other than the one that took place, or pays for it twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from newel.agent.errors import ContextOverflow, ProviderError, RequestRejected
from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import Model, ModelRequest, ToolSpec
from newel.providers.openai.responses_encoder import FIELD, ResponsesCompat, ResponsesEncoder

IMAGE = ImageContent("aGk=", "image/png")
TOOL = ToolSpec("read", "Read a file.", {"type": "object"}, aliases=("cat",))
ENCODED_TOOL = {
    "type": "function",
    "name": "read",
    "description": "Read a file.",
    "parameters": {"type": "object"},
    "strict": False,
}


def request(*messages: Message, **more: Any) -> ModelRequest:
    options: dict[str, Any] = {"model": Model("m"), "system_prompt": "Be brief."} | more
    return ModelRequest(messages=list(messages), **options)


def encode(
    *messages: Message,
    encoder: ResponsesEncoder | None = None,
    compat: ResponsesCompat | None = None,
    **more: Any,
) -> Any:
    body = (encoder or ResponsesEncoder("openai")).body(
        request(*messages, **more), compat or ResponsesCompat()
    )
    return json.loads(body)


def thought(number: int, text: str = "", **more: Any) -> ThinkingContent:
    signature = {"id": f"rs_{number}", "encrypted": "x"} | more
    return ThinkingContent(text, field=FIELD, signature=json.dumps(signature))


def said(*content: TextContent | ThinkingContent | ToolCall, **more: Any) -> AssistantMessage:
    origin: dict[str, Any] = {"model": "m", "provider": "openai"} | more
    return AssistantMessage(list(content), **origin)


def types(body: Any) -> list[str]:
    return [item["type"] for item in body["input"]]


def test_each_kind_of_message_is_encoded() -> None:
    """Otherwise the model does not see a message, an image, its reasoning or a result."""
    asked = UserMessage("Look")
    answer = said(
        thought(1, "hm", message_id="msg_1", phase="commentary"),
        TextContent("I look."),
        thought(2),
        ToolCall("c", "read", {"a": "é"}, signature="responses:fc_1"),
    )
    body = encode(
        asked,
        UserMessage([TextContent("at"), IMAGE]),
        answer,
        ToolResultMessage("c", "read", "done", is_error=False, images=[IMAGE]),
        tools=[TOOL],
        thinking="low",
    )
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
    text: dict[str, Any] = {"type": "output_text", "text": "I look.", "annotations": []}
    assert body == {
        "model": "m",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": f"newel-{asked.id}",
        "reasoning": {"effort": "low", "summary": "auto"},
        "parallel_tool_calls": True,
        "tools": [ENCODED_TOOL],
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": "Look"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "at"}, image]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "x",
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [text],
                "phase": "commentary",
            },
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"a":"é"}', "id": "fc_1"},
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "done"}, image],
            },
        ],
    }


def test_the_official_types_accept_every_item() -> None:
    """Otherwise servers that are built on them, such as vLLM, would refuse the request."""
    answer = said(
        thought(1, "hm"), TextContent("A"), ToolCall("c", "read", {}, signature="responses:fc_1"), id="x"
    )
    raw = said(thought(2, "hm", encrypted="", is_raw=True), TextContent("B"), id="y")
    result = ToolResultMessage("c", "read", "done", is_error=False, images=[IMAGE])
    items = encode(UserMessage("a"), UserMessage([TextContent("b"), IMAGE]), answer, result, raw)["input"]
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
    for item in items:
        adapter.validate_python(item, strict=False)
    assert [item["id"] for item in items if item.get("role") == "assistant"] == ["msg_1_x", "msg_1_y"]


def test_raw_reasoning_goes_back_in_its_own_field() -> None:
    """Otherwise a local reasoning model would forget between its calls what it was about to do."""
    answer = said(thought(1, "hm", encrypted="", is_raw=True), TextContent("A"))
    item = encode(UserMessage("a"), answer)["input"][1]
    assert item == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (said(thought(1), TextContent("A"), provider="other"), ["message"]),
        (said(thought(1), TextContent("A"), model="other"), ["message"]),
        (said(ThinkingContent("hm", field="anthropic", signature="x"), TextContent("A")), ["message"]),
        (said(ThinkingContent("hm", field=FIELD, signature="junk"), TextContent("A")), ["message"]),
        (said(ThinkingContent("hm", field=FIELD), TextContent("A")), ["message"]),
        (said(thought(1, "hm", encrypted=""), TextContent("A")), ["message"]),
        (said(TextContent("A"), thought(1)), ["message"]),
        (said(thought(1)), []),
        (said(thought(1), TextContent("")), []),
        (said(thought(1), thought(2), TextContent("A")), ["reasoning", "reasoning", "message"]),
    ],
)
def test_reasoning_goes_back_only_whole_and_to_its_model(
    answer: AssistantMessage, expected: list[str]
) -> None:
    """Otherwise the server would refuse every later request of the conversation."""
    assert types(encode(UserMessage("a"), answer, UserMessage("b"))) == ["message", *expected, "message"]


def test_ids_go_back_only_with_their_reasoning() -> None:
    """Otherwise the server would miss the reasoning that belongs to the ids."""
    call = ToolCall("c", "read", {}, signature="responses:fc_1")
    result = ToolResultMessage("c", "read", "done", is_error=False)
    lost = said(thought(1, "hm", encrypted="", message_id="msg_1"), TextContent("A"), call)
    for items in (
        encode(UserMessage("a"), lost, result)["input"],
        encode(UserMessage("a"), said(thought(1), call, model="other"), result)["input"],
        encode(
            UserMessage("a"), said(thought(1), call), result, compat=ResponsesCompat(reasoning_back=False)
        )["input"],
    ):
        assert "msg_1" not in {item.get("id") for item in items}
        assert all("id" not in item for item in items if item["type"] == "function_call")


def test_calls_of_other_servers_become_acceptable() -> None:
    """Otherwise a conversation could not be continued after a change of the model."""
    long_id = "toolu_" + "x" * 80
    calls = [ToolCall(long_id, "read file", {}), ToolCall("", "", {})]
    results = [ToolResultMessage(call.id, call.name, "ok", is_error=False) for call in calls]
    _, one, two, *outputs = encode(UserMessage("a"), said(*calls, model="other"), *results)["input"]
    assert (one["name"], two["name"]) == ("read_file", "unknown")
    assert [item["call_id"] for item in outputs] == [one["call_id"], two["call_id"]]
    assert all(0 < len(item["call_id"]) <= 64 for item in (one, two))


def test_an_unsupported_image_becomes_text() -> None:
    """Otherwise one bad attachment would make every later request of the conversation fail."""
    body = encode(UserMessage([TextContent("at"), ImageContent("!!!", "image/png")]))
    assert "its data is not valid base64" in body["input"][0]["content"][1]["text"]


def test_images_of_results_move_to_a_message_if_results_are_only_text() -> None:
    """Otherwise a server without images in results could not be used once a tool has returned one."""
    result = ToolResultMessage("c", "read", "done", is_error=False, images=[IMAGE])
    messages: list[Message] = [UserMessage("a"), said(ToolCall("c", "read", {})), result]
    error = RequestRejected("input[2].output: Input should be a valid string", status=400)
    adapted = ResponsesCompat().adapted_to(error, request(*messages))
    assert adapted is not None
    *_, output, moved = encode(*messages, compat=adapted[0])["input"]
    assert output["output"] == "done"
    assert moved["content"][1]["type"] == "input_image"


def test_the_output_limit_is_at_least_that_of_the_api() -> None:
    """Otherwise a request near the end of the context would be refused."""
    assert encode(UserMessage("a"), model=Model("m", max_output=1))["max_output_tokens"] == 16
    assert encode(UserMessage("a"), model=Model("m", max_output=99))["max_output_tokens"] == 99


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        ("Unknown parameter: 'prompt_cache_key'.", 429, RequestRejected),
        ("The model does not exist.", 404, RequestRejected),
        ("Invalid 'input[3].content': too short.", 400, RequestRejected),
        ("Your input exceeds the context window of this model.", 400, ContextOverflow),
        ("This model is not supported here. Use v1/chat/completions.", 400, RequestRejected),
        ("Items are not persisted when `store` is set to false.", 404, RequestRejected),
    ],
)
def test_other_rejections_change_nothing(words: str, status: int, error: type[ProviderError]) -> None:
    """Otherwise a request would be repeated in vain, and lose a feature for good."""
    asked = request(UserMessage("a"), model=Model("m", max_output=99), thinking="low")
    assert ResponsesCompat().adapted_to(error(words, status=status), asked) is None


def test_adapting_ends() -> None:
    """Otherwise a server that refuses everything in the same words would be asked forever."""
    asked = request(UserMessage("a"), model=Model("m", max_output=99), thinking="low", tools=[TOOL])
    words = (
        "Unsupported: reasoning.summary, reasoning.effort, include[0], 'low', prompt_cache_key, max_output_tokens, "
        "parallel_tool_calls, unknown store, stream, rs_1, function_call_output"
    )
    compat, steps = ResponsesCompat(), 0
    while adapted := compat.adapted_to(RequestRejected(words, status=400), asked):
        compat, steps = adapted[0], steps + 1
    assert 5 < steps < 12
    assert encode(UserMessage("a"), compat=compat, thinking="low").keys() == {
        "model",
        "instructions",
        "input",
    }


def test_each_request_begins_with_the_bytes_of_the_one_before() -> None:
    """Otherwise the server's cache would miss, and each step cost and wait for the whole conversation."""
    encoder = ResponsesEncoder("openai")
    messages: list[Message] = [UserMessage("Go")]
    previous = b""
    for step in range(50):
        asked = request(*messages, tools=[TOOL], thinking="low")
        body = encoder.body(asked, ResponsesCompat())
        assert body.startswith(previous)
        assert json.loads(body) == encode(*messages, tools=[TOOL], thinking="low")
        previous = body.removesuffix(b"]}")
        call = ToolCall(f"c{step}", "read", {"step": step})
        messages += [said(thought(step, "hm"), TextContent(f"Step {step}"), call)]
        messages += [ToolResultMessage(call.id, "read", "ok", is_error=False)]


def test_invalid_unicode_does_not_stop_a_run() -> None:
    """Otherwise one odd file name in a tool's output would end the session for good."""
    body = encode(UserMessage("a\ud800b"), said(ToolCall("c\ud800" * 40, "read", {"p": "\udcff"})))
    assert body["input"][0]["content"] == "a?b"
