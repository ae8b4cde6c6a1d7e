"""If these fail, the model gets a conversation other than the one that took place, or the server refuses it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from newel.providers.anthropic.compat import MessagesCompat
from newel.providers.anthropic.encoder import MessagesEncoder, wire_id

IMAGE = ImageContent("aGk=", "image/png")
TOOL = ToolSpec("read", "Read a file.", {"type": "object", "properties": {}}, aliases=("cat",))
MODEL = "claude-opus-4-6"
MARK = {"type": "ephemeral"}


def said(*parts: TextContent | ThinkingContent | ToolCall, **more: Any) -> AssistantMessage:
    fields: dict[str, Any] = {"model": MODEL, "provider": "anthropic"} | more
    return AssistantMessage(list(parts), **fields)


def thought(text: str = "hm", field: str = "anthropic", signature: str | None = "sig") -> ThinkingContent:
    return ThinkingContent(text, field=field, signature=signature)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def raw(
    *messages: Message,
    encoder: MessagesEncoder | None = None,
    compat: MessagesCompat | None = None,
    **more: Any,
) -> bytes:
    options: dict[str, Any] = {"model": Model(MODEL), "system_prompt": "Be brief."} | more
    request = ModelRequest(messages=list(messages), **options)
    return (encoder or MessagesEncoder("anthropic")).body(request, compat or MessagesCompat())


def encode(*messages: Message, **options: Any) -> Any:
    return json.loads(raw(*messages, **options))


def refusing(*features: str) -> MessagesCompat:
    return MessagesCompat(refused=frozenset(features))


def test_each_kind_of_message_is_encoded() -> None:
    """Otherwise the model does not see a message, a thought, an image or a result."""
    body = encode(
        UserMessage("Look"),
        said(
            thought(),
            thought("", "anthropic-redacted", "opaque"),
            TextContent("I look."),
            ToolCall("c", "read", {"a": "é"}),
        ),
        ToolResultMessage("c", "read", "done", is_error=True, images=[IMAGE]),
        UserMessage([TextContent("at"), IMAGE]),
        tools=[TOOL],
        thinking="minimal",
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [text("done"), image], "is_error": True}
    assert body == {
        "model": MODEL,
        "max_tokens": 32000,
        "stream": True,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low"},
        "cache_control": MARK,
        "tools": [
            {
                "name": "read",
                "description": "Read a file.",
                "input_schema": {"type": "object", "properties": {}},
            }
        ],
        "system": [text("Be brief.") | {"cache_control": MARK}],
        "messages": [
            {"role": "user", "content": [text("Look")]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "opaque"},
                    text("I look."),
                    {"type": "tool_use", "id": "c", "name": "read", "input": {"a": "é"}},
                ],
            },
            {"role": "user", "content": [result]},
            {"role": "user", "content": [text("at"), image]},
        ],
    }


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (said(thought(), TextContent("So.")), True),
        (said(thought("", signature="sig"), TextContent("So.")), True),
        (said(thought(signature=None), TextContent("So.")), True),
        (said(thought(signature=None), TextContent("So."), stop_reason="aborted"), False),
        (said(thought(field="reasoning_content"), TextContent("So.")), False),
        (said(thought(), TextContent("So."), model="claude-opus-5"), False),
        (said(thought(), TextContent("So."), provider="gateway.example"), False),
        (said(TextContent("So."), thought()), False),
    ],
)
def test_thoughts_return_only_to_the_model_that_had_them(message: AssistantMessage, kept: bool) -> None:
    """Otherwise the server refuses a foreign or broken signature, or the model forgets its plan between two calls."""
    blocks = encode(UserMessage("Why?"), message, UserMessage("And?"))["messages"][1]["content"]
    assert [block["type"] for block in blocks] == (["thinking", "text"] if kept else ["text"])


def test_a_change_of_the_model_takes_its_thoughts_away() -> None:
    """Otherwise the encoding kept for the earlier model is sent to the new one, with thoughts that it cannot read."""
    history = [UserMessage("Why?"), said(thought(), TextContent("So.")), UserMessage("And?")]
    encoder = MessagesEncoder("anthropic")
    assert b'"signature"' in raw(*history, encoder=encoder)
    assert b'"signature"' not in raw(*history, encoder=encoder, model=Model("claude-opus-5"))


def test_thoughts_before_a_change_of_the_conversation_are_left_out() -> None:
    """Otherwise a compacted conversation cannot go on: signatures cover all that came before."""
    old, new = said(thought("old"), TextContent("a")), said(thought("new"), TextContent("b"))
    compat = MessagesCompat(stale_until=old.id)
    messages = encode(UserMessage("1"), old, UserMessage("2"), new, UserMessage("3"), compat=compat)[
        "messages"
    ]
    assert [block["type"] for at in (1, 3) for block in messages[at]["content"]] == [
        "text",
        "thinking",
        "text",
    ]


THINKING: list[tuple[str, str, dict[str, Any]]] = [
    ("claude-3-5-sonnet-20240620", "high", {}),
    ("claude-3-7-sonnet-20250219", "high", {"thinking": {"type": "enabled", "budget_tokens": 16000}}),
    ("claude-sonnet-4-20250514", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
    ("claude-haiku-4-5-20251001", "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ("claude-haiku-4-5", "off", {}),
    ("anthropic/claude-opus-4.6", "off", {}),
    ("claude-opus-4-8", "off", {}),
    ("claude-opus-5", "off", {"thinking": {"type": "disabled"}}),
    ("claude-sonnet-5-5", "off", {"thinking": {"type": "between_tools"}}),
    ("claude-opus-5-5", "off", {"output_config": {"effort": "low"}}),
    ("claude-mythos-preview", "off", {"output_config": {"effort": "low"}}),
    ("claude-fable-5-1", "high", {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}),
    ("us.anthropic.claude-sonnet-4-6-v1:0", "medium", {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "medium"}}),
    ("kimi-k2-thinking", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
    ("deepseek-reasoner", "off", {}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "level", "expected"), THINKING)
def test_each_generation_is_asked_to_think_in_its_own_way(
    model: str, level: str, expected: dict[str, Any]
) -> None:
    """Otherwise the first request to a model is rejected, or it thinks although the user turned that off."""
    body = encode(UserMessage("Hi"), model=Model(model), thinking=level)
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == expected


def test_a_budget_leaves_room_for_the_answer() -> None:
    """Otherwise a short answer, such as that of a check of the connection, is refused."""
    model = Model("claude-haiku-4-5", max_output=4096)
    assert encode(UserMessage("Hi"), model=model, thinking="high")["thinking"]["budget_tokens"] == 2048
    assert "thinking" not in encode(
        UserMessage("Hi"), model=Model("claude-haiku-4-5", max_output=1), thinking="high"
    )


def test_an_output_limit_that_the_server_named_is_kept() -> None:
    compat = MessagesCompat(max_tokens=8192)
    assert encode(UserMessage("Hi"), compat=compat)["max_tokens"] == 8192
    assert encode(UserMessage("Hi"), compat=compat, model=Model(MODEL, max_output=100))["max_tokens"] == 100


def test_without_automatic_caching_the_last_block_is_marked() -> None:
    """Otherwise a gateway without that feature makes every step pay for the whole conversation."""
    history = [
        UserMessage("Hi"),
        said(ToolCall("c", "read", {})),
        ToolResultMessage("c", "read", "x", is_error=False, images=[IMAGE]),
    ]
    body = encode(*history, compat=refusing("automatic caching"))
    assert "cache_control" not in body
    assert body["messages"][-1]["content"][-1]["cache_control"] == MARK
    assert json.dumps(body).count("cache_control") == 2
    body = encode(*history, compat=refusing("automatic caching", "explicit caching"))
    assert "cache_control" not in json.dumps(body)


def test_messages_of_one_role_are_merged_where_a_server_wants_it() -> None:
    """Otherwise a server that only imitates the API refuses a word of the user behind a result."""
    history = [
        UserMessage("Hi"),
        said(ToolCall("c", "read", {})),
        ToolResultMessage("c", "read", "x", is_error=False),
        UserMessage("Hurry."),
    ]
    messages = encode(*history, compat=refusing("consecutive roles"))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[-1]["content"]] == ["tool_result", "text"]


def test_ids_of_other_providers_are_mapped_for_calls_and_results_alike() -> None:
    """Otherwise a conversation that another provider began cannot go on."""
    ids = ["functions.bash:0", "call_a|fc_b", "", "x" * 65, "\ud800", "functions.bash:1"]
    mapped = [wire_id(each) for each in ids]
    assert len(set(mapped)) == len(ids)
    assert all(each.isascii() and each.replace("_", "a").isalnum() and len(each) <= 64 for each in mapped)
    assert wire_id("toolu_01-x") == "toolu_01-x"
    messages = encode(
        UserMessage("Hi"),
        said(ToolCall(ids[0], "read", {})),
        ToolResultMessage(ids[0], "read", "x", is_error=False),
    )["messages"]
    assert messages[1]["content"][0]["id"] == messages[2]["content"][0]["tool_use_id"] == mapped[0]


def test_schemas_lack_what_the_api_refuses_at_their_top() -> None:
    """Otherwise one tool of an MCP server makes every request fail."""
    tool = ToolSpec("t", "", {"properties": {"a": {"anyOf": []}}, "anyOf": [{"required": ["a"]}]})
    schema = encode(UserMessage("Hi"), tools=[tool])["tools"][0]["input_schema"]
    assert schema == {"type": "object", "properties": {"a": {"anyOf": []}}}


def test_each_request_begins_with_the_previous_one() -> None:
    """Otherwise every step pays for the whole conversation again: the server caches prefixes."""
    encoder = MessagesEncoder("anthropic")
    history: list[Message] = [UserMessage("Go.")]
    previous = b""
    for step in range(50):
        body = raw(*history, encoder=encoder, tools=[TOOL], thinking="high")
        assert body.startswith(previous.removesuffix(b"]}")), step
        previous = body
        calls = [ToolCall(f"c{step}-{at}", "read", {}) for at in range(2)]
        results = [ToolResultMessage(call.id, "read", "x", is_error=False) for call in calls]
        steering = [UserMessage("Hurry.")] if step % 7 == 0 else []
        history = [*history, said(thought(f"{step}"), *calls), *results, *steering]


MESSAGES: list[Message] = [
    UserMessage("one"),
    said(thought(), TextContent("two"), ToolCall("c", "read", {"x": 1})),
    ToolResultMessage("c", "read", "three", is_error=False, images=[IMAGE]),
    ToolResultMessage("d", "read", "four", is_error=False),
    said(TextContent("five"), model="other"),
    said(thought("six", signature=None), stop_reason="aborted"),
    UserMessage([TextContent("six"), IMAGE]),
]


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(MESSAGES), max_size=8), st.sampled_from([MODEL, "other"])),
        max_size=5,
    ),
    st.booleans(),
)
def test_cached_encodings_are_invisible(steps: list[tuple[list[Message], str]], grow: bool) -> None:
    """Otherwise the model answers a conversation that was branched, compacted or continued by another model."""
    encoder = MessagesEncoder("anthropic")
    history: list[Message] = []
    for messages, model in steps:
        history = [*history, *messages] if grow else messages
        assert encode(*history, encoder=encoder, model=Model(model)) == encode(*history, model=Model(model))
