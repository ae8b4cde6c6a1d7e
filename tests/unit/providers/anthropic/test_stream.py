"""If these fail, an answer is assembled wrongly from the events of real servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import BadResponse
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, Usage
from newel.agent.ports import ToolSpec
from newel.providers.anthropic.stream import AnthropicAccumulator

TOOLS = [
    ToolSpec("read", "Read.", {"type": "object", "properties": {"file_path": {}}}, aliases=("read_file",))
]


def start(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"type": "content_block_delta", "delta": {"type": f"{kind}_delta", **fields}}
    return event if index is None else event | {"index": index}


def end(reason: str = "end_turn", **fields: Any) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, **fields},
        "usage": {"output_tokens": 9},
    }


def opening(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}


def fold(*events: dict[str, Any]) -> tuple[AssistantMessage, list[Delta]]:
    folding = AnthropicAccumulator(TOOLS)
    deltas = [each for event in events for each in folding.feed(event)] + folding.close()
    return folding.message(model="m", provider="p"), deltas


CALL = (
    start(0, "tool_use", id="c", name="read", input={}),
    delta(0, "input_json", partial_json='{"file_path": "a"}'),
)


def test_blocks_keep_their_order_and_signatures() -> None:
    """Otherwise the thoughts are refused when they come back, or the answer lacks its words, calls or cost."""
    message, deltas = fold(
        opening(input_tokens=5, cache_read_input_tokens=70, cache_creation_input_tokens=25, output_tokens=1),
        start(0, "thinking", thinking="", signature=""),
        {"type": "ping"},
        delta(0, "thinking", thinking="h"),
        delta(0, "thinking", thinking="m"),
        delta(0, "signature", signature="sig"),
        {"type": "content_block_stop", "index": 0},
        start(1, "redacted_thinking", data="opaque"),
        start(2, "text", text=""),
        delta(2, "text", text="I look."),
        start(3, "tool_use", id="c", name="read", input={}),
        delta(3, "input_json", partial_json=""),
        delta(3, "input_json", partial_json='{"file_'),
        delta(3, "input_json", partial_json='path": "a"}'),
        start(4, "thinking", thinking=""),
        delta(4, "signature", signature="sig2"),
        start(5, "tool_use", id="d", name="read_file", input={}),
        end("tool_use"),
        {"type": "message_stop"},
    )
    assert message.content == [
        ThinkingContent("hm", field="anthropic", signature="sig"),
        ThinkingContent("", field="anthropic-redacted", signature="opaque"),
        TextContent("I look."),
        ToolCall("c", "read", {"file_path": "a"}),
        ThinkingContent("", field="anthropic", signature="sig2"),
        ToolCall("d", "read", {}),
    ]
    assert message.usage == Usage(input=100, output=9, cache_read=70, cache_write=25)
    assert message.stop_reason == "toolUse"
    assert deltas == [
        ThinkingDelta("h"),
        ThinkingDelta("m"),
        TextDelta("I look."),
        ToolCallDelta(index=0, name="read"),
        ToolCallDelta(index=0, delta='{"file_'),
        ToolCallDelta(index=0, delta='path": "a"}'),
        ToolCallDelta(index=1, name="read_file"),
    ]


def test_a_whole_message_is_read_like_a_stream() -> None:
    """Otherwise a server without streaming cannot be used."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c", "name": "read", "input": {"file_path": "a"}},
    ]
    usage = {"input_tokens": 5, "output_tokens": 9}
    message, _ = fold({"type": "message", "content": content, "stop_reason": "tool_use", "usage": usage})
    assert message.content == [
        ThinkingContent("hm", field="anthropic", signature="sig"),
        TextContent("I look."),
        ToolCall("c", "read", {"file_path": "a"}),
    ]
    assert (message.usage, message.stop_reason) == (Usage(input=5, output=9), "toolUse")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("something new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "error"),
    ],
)
def test_stop_reasons(reason: str, expected: str) -> None:
    """Otherwise a cut or refused answer counts as a whole one."""
    message, _ = fold(opening(), start(0, "text", text="So."), end(reason))
    assert (message.stop_reason, message.text) == (expected, "So.")
    assert bool(message.error_message) is (expected == "error")


def test_a_refusal_says_why() -> None:
    message, _ = fold(opening(), end("refusal", stop_details={"explanation": "It could harm others."}))
    assert message.error_message == "It could harm others."


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_cut_off_by_the_limit_never_runs(reason: str) -> None:
    """Otherwise half a command runs, or half a file is written."""
    message, _ = fold(opening(), *CALL, start(1, "tool_use", id="d", name="read", input={}), end(reason))
    assert [bool(call.problem) for call in message.tool_calls] == [False, True]
    message, _ = fold(opening(), *CALL, end(reason))
    assert "cut off" in (message.tool_calls[0].problem or "")


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(CALL[1:], id="no start"),
        pytest.param(
            (
                start(0, "tool_use", id="c", name="read"),
                delta(None, "input_json", partial_json='{"file_path": "a"}'),
            ),
            id="no index",
        ),
        pytest.param(
            (start(0, "tool_use", id="c", name="read", input={"file_path": "a"}),), id="whole at once"
        ),
        pytest.param((start(0, "tool_use", id="c", name="read", input='{"file_path": "a"}'),), id="as text"),
    ],
)
def test_deviating_calls_are_not_lost(events: tuple[dict[str, Any], ...]) -> None:
    """Otherwise the model waits for a result that never comes."""
    message, _ = fold(opening(), *events, end("tool_use"))
    assert [call.arguments for call in message.tool_calls] == [{"file_path": "a"}]


def test_calls_with_one_id_get_their_own() -> None:
    """Otherwise two results answer one call, which the API refuses."""
    message, _ = fold(opening(), *CALL, start(1, "tool_use", id="c", name="read", input={}), end("tool_use"))
    assert len({call.id for call in message.tool_calls}) == 2


def test_tools_that_the_server_runs_are_no_calls() -> None:
    """Otherwise Newel would answer a call that is not its own."""
    block = start(0, "server_tool_use", id="s", name="web_search", input={})
    message, _ = fold(
        opening(), block, delta(0, "input_json", partial_json="{}"), start(1, "text", text="So."), end()
    )
    assert message.content == [TextContent("So.")]


def test_too_many_blocks_are_refused() -> None:
    """Otherwise one broken server fills the memory."""
    with pytest.raises(BadResponse, match="refused"):
        fold(opening(), *(start(at, "text", text="") for at in range(9000)))


def test_nothing_is_no_answer() -> None:
    with pytest.raises(BadResponse):
        fold({"type": "ping"})


KINDS = ["message", "message_start", "content_block_start", "content_block_delta", "message_delta", "text", "thinking", "tool_use", "text_delta", "input_json_delta", "signature_delta", "redacted_thinking"]  # fmt: skip
NAMES = ["type", "index", "message", "content", "content_block", "delta", "usage", "text", "thinking", "signature", "data", "input", "id", "name", "partial_json", "stop_reason", "stop_details", "output_tokens"]  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from(KINDS)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


@given(
    st.lists(
        st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional=dict.fromkeys(NAMES[1:], VALUES)),
        max_size=6,
    )
)
def test_no_event_breaks_the_client(events: list[dict[str, Any]]) -> None:
    """Otherwise a broken or hostile server ends the program instead of the request."""
    folding = AnthropicAccumulator(TOOLS)
    for event in json.loads(json.dumps(events)):
        folding.feed(event)
    if folding.started:
        assert json.dumps(len(folding.message(model="m", provider="p").content))
