"""If these fail, the model gets a conversation other than the one that took place."""

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
from newel.providers.openai.encoder import Encoder, ServerCompat

IMAGE = ImageContent("aGk=", "image/png")
TOOL = ToolSpec("read", "Read a file.", {"type": "object"}, aliases=("cat",))


def encode(
    *messages: Message, encoder: Encoder | None = None, compat: ServerCompat | None = None, **more: Any
) -> Any:
    options: dict[str, Any] = {"model": Model("m"), "system_prompt": "Be brief."} | more
    request = ModelRequest(messages=list(messages), **options)
    return json.loads((encoder or Encoder()).body(request, compat or ServerCompat()))


def test_each_kind_of_message_is_encoded() -> None:
    """Otherwise the model does not see a message, an image or a result."""
    body = encode(
        UserMessage("Look"),
        UserMessage([TextContent("at"), IMAGE]),
        AssistantMessage(
            [
                ThinkingContent("hm", field="reasoning_content"),
                TextContent("I look."),
                ToolCall("c", "read", {"a": "é"}),
            ]
        ),
        ToolResultMessage("c", "read", "done", is_error=False),
        AssistantMessage([ToolCall("d", "read", {})]),
        tools=[TOOL],
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    function = {"name": "read", "arguments": '{"a":"é"}'}
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look"},
            {"role": "user", "content": [{"type": "text", "text": "at"}, image]},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "done"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "d", "type": "function", "function": {"name": "read", "arguments": "{}"}}
                ],
            },
        ],
    }


def test_images_of_tools_follow_the_last_result() -> None:
    """Otherwise servers refuse the request: nothing may come between the results of one message."""
    results = [
        ToolResultMessage("a", "read", "one", is_error=False, images=[IMAGE]),
        ToolResultMessage("b", "read", "two", is_error=False),
    ]
    roles = [message["role"] for message in encode(*results, UserMessage("So?"))["messages"]]
    assert roles == ["system", "tool", "tool", "user", "user"]
    encoder = Encoder()
    encode(results[0], encoder=encoder)
    roles = [message["role"] for message in encode(*results, encoder=encoder)["messages"]]
    assert roles == ["system", "tool", "tool", "user"]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (ImageContent("!!!", "image/png"), "its data is not valid base64"),
        (ImageContent("aGk", "image/png"), "its data is not valid base64"),
        (ImageContent("", "image/png"), "its data is not valid base64"),
        (ImageContent("aGk=\u00e9", "image/png"), "its data is not valid base64"),
        (ImageContent("aGk=", "text/html"), "Image omitted: its type 'text/html'"),
        (
            ImageContent("aGk=", "image/png;base64,x" + "y" * 999),
            "is not image/png, image/jpeg",
        ),
    ],
)
def test_an_unsupported_image_becomes_text(image: ImageContent, words: str) -> None:
    """Otherwise one bad attachment would make every later request of the conversation fail."""
    body = encode(
        UserMessage([TextContent("at"), image]),
        AssistantMessage([ToolCall("a", "read", {})]),
        ToolResultMessage("a", "read", "one", is_error=False, images=[image]),
    )
    _, user, _, _, images = body["messages"]
    for part in (user["content"][1], images["content"][1]):
        assert part["type"] == "text"
        assert words in part["text"]
        assert len(part["text"]) < 200


def test_options_follow_the_request_and_the_compat_flags() -> None:
    """Otherwise a server that refused a field once would refuse every request."""
    more: dict[str, Any] = {"thinking": "low", "model": Model("m", max_output=99)}
    full = encode(**more)
    assert (full["reasoning_effort"], full["max_tokens"]) == ("low", 99)
    bare = ServerCompat(stream=False, reasoning_effort=False, limit=None)
    assert encode(compat=bare, **more).keys() == {"model", "messages"}
    assert encode(compat=ServerCompat(limit="max_completion_tokens"), **more)["max_completion_tokens"] == 99


def test_reasoning_is_sent_only_to_a_server_that_requires_it() -> None:
    """Otherwise one half of the reasoning servers would refuse the second request, or the other half would."""
    said = AssistantMessage([ThinkingContent("hm", field="reasoning_content"), TextContent("Yes")])
    encoder = Encoder()
    assert "reasoning_content" not in encode(said, encoder=encoder)["messages"][1]
    wanted = ServerCompat(reasoning_back="reasoning_content")
    assert encode(said, encoder=encoder, compat=wanted)["messages"][1]["reasoning_content"] == "hm"


def test_invalid_unicode_does_not_stop_a_run() -> None:
    """Otherwise one odd file name in a tool's output would end the session for good."""
    body = encode(UserMessage("a\ud800b"), AssistantMessage([ToolCall("c", "read", {"p": "\udcff"})]))
    assert body["messages"][1]["content"] == "a?b"
    assert json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"p": "?"}


def test_an_empty_message_is_omitted() -> None:
    """Otherwise servers would refuse every request after one that was stopped before its first word."""
    assert len(encode(AssistantMessage([ThinkingContent("hm")], stop_reason="aborted"))["messages"]) == 1


MESSAGES: list[Message] = [
    UserMessage("one"),
    AssistantMessage([TextContent("two"), ToolCall("c", "read", {"x": 1})]),
    ToolResultMessage("c", "read", "three", is_error=False, images=[IMAGE]),
    ToolResultMessage("d", "read", "four", is_error=False),
    AssistantMessage([TextContent("five")]),
    UserMessage([TextContent("six"), IMAGE]),
]


@given(st.lists(st.lists(st.sampled_from(MESSAGES), max_size=8), max_size=5), st.booleans())
def test_cached_encodings_are_invisible(histories: list[list[Message]], grow: bool) -> None:
    """Otherwise the model answers a conversation that was branched, compacted or cleared."""
    encoder = Encoder()
    history: list[Message] = []
    for messages in histories:
        history = [*history, *messages] if grow else messages
        assert encode(*history, encoder=encoder) == encode(*history)
