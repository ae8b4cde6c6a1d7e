"""If these fail, answers of servers that speak the Responses API only nearly are lost, doubled or mixed up."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import BadResponse, ProviderError
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, ThinkingContent
from newel.agent.ports import ToolSpec
from newel.providers.errors import EndpointDescription
from newel.providers.openai.responses_stream import ResponsesAccumulator

BASH = ToolSpec("bash", "Run.", {"type": "object"})
ENDPOINT = EndpointDescription("http://host/v1/responses", "m")
ARGUMENTS = '{"command":"ls"}'

Event = dict[str, Any]


def fold(*events: Event) -> tuple[AssistantMessage, list[Delta]]:
    accumulator = ResponsesAccumulator([BASH], ENDPOINT)
    deltas = [delta for event in events for delta in accumulator.feed(event)]
    accumulator.on_done()
    deltas += accumulator.close()
    message = accumulator.message(model="m", provider="openai")
    assert "".join(delta.delta for delta in deltas if isinstance(delta, TextDelta)) == message.text
    return message, deltas


def event(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}"} | fields


def response(*output: Event, status: str = "completed", **more: Any) -> Event:
    return {"object": "response", "status": status, "output": list(output), **more}


def message_item(text: str, **more: Any) -> Event:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    } | more


def call_item(call_id: str = "c1", arguments: Any = ARGUMENTS, **more: Any) -> Event:
    return {"type": "function_call", "call_id": call_id, "name": "bash", "arguments": arguments} | more


def reasoning_item(*summary: str, **more: Any) -> Event:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts} | more


def deltas(kind: str, *pieces: str, **more: Any) -> list[Event]:
    return [event(f"{kind}.delta", delta=piece, **more) for piece in pieces]


TEXT = deltas("output_text", "Hel", "lo")
DONE = event("output_text.done", text="Hello")
ADDED = event("output_item.added", output_index=0, item=message_item("", id="msg_1", content=[]))
ITEM_DONE = event("output_item.done", output_index=0, item=message_item("Hello", id="msg_1"))
PART_DONE = event("content_part.done", part={"type": "output_text", "text": "Hello"})
COMPLETED = event("completed", response=response(message_item("Hello", id="msg_1")))
EMPTY = event("completed", response=response())
CREATED = event("created", response=response(status="in_progress"))


@pytest.mark.parametrize(
    "events",
    [
        [CREATED, ADDED, *TEXT, DONE, PART_DONE, ITEM_DONE, COMPLETED],
        [COMPLETED],
        [*TEXT, EMPTY],
        [*TEXT, DONE, COMPLETED],
        [*TEXT, COMPLETED, COMPLETED],
        [DONE, EMPTY],
        [DONE, PART_DONE, ITEM_DONE, COMPLETED],
        [ITEM_DONE, COMPLETED],
        [ADDED, *TEXT[:1], COMPLETED],
        [ADDED, *TEXT[:1], ITEM_DONE, EMPTY],
        [*TEXT],
        [*TEXT, event("completed", response=response(message_item("Hello", id="msg_rotated")))],
        [*TEXT, event("completed", response=response(message_item("Different", id="msg_1")))],
        [ADDED, *deltas("output_text", "Hel", "lo", item_id="msg_9", output_index=0), COMPLETED],
        [*deltas("refusal", "Hel", "lo"), event("refusal.done", refusal="Hello"), EMPTY],
        [response(message_item("Hello"))],
        [{"output": [message_item("Hello")]}],
    ],
)
def test_text_arrives_once_however_it_is_sent(events: list[Event]) -> None:
    """Otherwise the user sees the answer twice, or not at all."""
    message, _ = fold(*events)
    assert message.text == "Hello"
    assert message.stop_reason == "stop"


CALL_ADDED = event("output_item.added", output_index=0, item=call_item(arguments="", id="fc_1"))
PIECES = deltas("function_call_arguments", ARGUMENTS[:5], ARGUMENTS[5:], item_id="fc_1", output_index=0)
CALL_DONE = event("function_call_arguments.done", arguments=ARGUMENTS, item_id="fc_1", output_index=0)
CALL_ITEM_DONE = event("output_item.done", output_index=0, item=call_item(id="fc_1"))
CALL_COMPLETED = event("completed", response=response(call_item(id="fc_1")))
FULL_ADDED = event("output_item.added", output_index=0, item=call_item(id="fc_1"))


@pytest.mark.parametrize(
    "events",
    [
        [CALL_ADDED, *PIECES, CALL_DONE, CALL_ITEM_DONE, CALL_COMPLETED],
        [CALL_COMPLETED],
        [CALL_ADDED, CALL_DONE, EMPTY],
        [CALL_ADDED, *PIECES, EMPTY],
        [*PIECES, CALL_ITEM_DONE, EMPTY],
        [*PIECES[:1], CALL_COMPLETED],
        [CALL_ITEM_DONE, CALL_COMPLETED],
        [FULL_ADDED, EMPTY],
        [FULL_ADDED, *PIECES, CALL_DONE, EMPTY],
        [FULL_ADDED, *PIECES, EMPTY],
        [CALL_ADDED, *PIECES, event("completed", response=response(call_item(id="fc_rotated")))],
        [event("completed", response=response(call_item(arguments={"command": "ls"})))],
        [
            event("output_item.added", item=call_item(arguments="")),
            *deltas("function_call_arguments", ARGUMENTS),
        ],
    ],
)
def test_a_call_arrives_once_however_it_is_sent(events: list[Event]) -> None:
    """Otherwise a command runs twice, or not at all."""
    message, seen = fold(*events)
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("c1", "bash", {"command": "ls"})
    ]
    assert message.tool_calls[0].problem is None
    assert message.stop_reason == "toolUse"
    written = [delta for delta in seen if isinstance(delta, ToolCallDelta)]
    assert "bash" in {delta.name for delta in written}
    assert "".join(delta.delta for delta in written) in {"", ARGUMENTS}


def test_parallel_calls_are_not_mixed_up() -> None:
    """Otherwise the arguments of one call run under the name of another."""
    added = [
        event("output_item.added", output_index=n, item=call_item(f"c{n}", "", id=f"fc_{n}")) for n in (0, 1)
    ]
    pieces = [
        event("function_call_arguments.delta", item_id=f"fc_{n}", output_index=n, delta=piece)
        for piece in ('{"command":', '"%d"}')
        for n in (0, 1)
    ]
    pieces = [piece | {"delta": piece["delta"].replace("%d", str(piece["output_index"]))} for piece in pieces]
    for events in (
        [*added, *pieces],
        [*added, *[piece | {"item_id": "rotated"} for piece in pieces]],
        [*added, *[{k: v for k, v in piece.items() if k != "output_index"} for piece in pieces]],
    ):
        message, _ = fold(*events, EMPTY)
        assert [call.arguments for call in message.tool_calls] == [{"command": "0"}, {"command": "1"}]
        assert [call.id for call in message.tool_calls] == ["c0", "c1"]


def test_text_that_comes_too_late_is_left_out() -> None:
    """Otherwise the message that is kept would differ from the one that the user read."""
    first = deltas("output_text", "One", item_id="msg_1", output_index=0)
    second = deltas("output_text", "Two", item_id="msg_2", output_index=1)
    whole = response(message_item("One, late", id="msg_1"), message_item("Two", id="msg_2"))
    assert fold(*first, *second, event("completed", response=whole))[0].text == "OneTwo"


def test_calls_without_ids_get_different_ones() -> None:
    """Otherwise the results of two calls could not be told apart."""
    message, _ = fold(event("completed", response=response(call_item(""), call_item(""), call_item("x"))))
    assert len({call.id for call in message.tool_calls}) == 3


def test_reasoning_keeps_its_order_parts_and_signature() -> None:
    """Otherwise the reasoning could not go back, and the model would start again after each call."""
    summary = "reasoning_summary_text"
    message, seen = fold(
        event("output_item.added", output_index=0, item=reasoning_item()),
        *deltas(summary, "One", ".", item_id="rs_1", summary_index=0),
        *deltas(summary, "Two.", item_id="rs_1", summary_index=1),
        event("output_item.done", output_index=0, item=reasoning_item("One.", "Two.", encrypted_content="x")),
        event(
            "output_item.done",
            output_index=1,
            item=message_item("I look.", id="msg_1", phase="commentary"),
        ),
        event("output_item.done", output_index=2, item=reasoning_item(id="rs_2", encrypted_content="y")),
        event("output_item.done", output_index=3, item=call_item(id="fc_1")),
        EMPTY,
    )
    first, _, second, call = message.content
    assert isinstance(first, ThinkingContent)
    assert isinstance(second, ThinkingContent)
    assert (first.thinking, second.thinking) == ("One.\n\nTwo.", "")
    assert "".join(delta.delta for delta in seen if isinstance(delta, ThinkingDelta)) == first.thinking
    assert json.loads(first.signature or "") == {
        "id": "rs_1",
        "encrypted": "x",
        "message_id": "msg_1",
        "phase": "commentary",
    }
    assert json.loads(second.signature or "") == {"id": "rs_2", "encrypted": "y"}
    assert call is message.tool_calls[0]
    assert message.tool_calls[0].signature == "responses:fc_1"


def test_raw_reasoning_is_taken_once() -> None:
    """Otherwise a local model's reasoning is lost or doubled; vLLM counts each piece as a part, and miscounts the item."""
    pieces = [
        event("reasoning_text.delta", item_id="r", output_index=7, content_index=n, delta=piece)
        for n, piece in enumerate(["Let", " me", " see"])
    ]
    content = [{"type": "reasoning_text", "text": "Let me see"}]
    item = {"type": "reasoning", "id": "r", "summary": [{"text": "Seeing"}], "content": content}
    summary = deltas("reasoning_summary_text", "Seeing", item_id="r")
    message, _ = fold(*pieces, *summary, event("output_item.done", output_index=8, item=item), EMPTY)
    (thought,) = message.content
    assert isinstance(thought, ThinkingContent)
    assert thought.thinking == "Let me see"
    assert json.loads(thought.signature or "")["is_raw"] is True


@pytest.mark.parametrize(
    ("end", "stop", "problems"),
    [
        (
            event("incomplete", response=response(incomplete_details={"reason": "max_output_tokens"})),
            "length",
            1,
        ),
        (event("completed", response=response(status="incomplete")), "length", 1),
        (event("incomplete", response=response(incomplete_details={"reason": "content_filter"})), "error", 1),
        (EMPTY, "toolUse", 0),
    ],
)
def test_the_reason_to_stop_decides_about_the_last_call(end: Event, stop: str, problems: int) -> None:
    """Otherwise half of a command would run, or a whole one would not."""
    done = [event("output_item.done", output_index=n, item=call_item(f"c{n}")) for n in (0, 1)]
    message, _ = fold(*done, end)
    assert message.stop_reason == stop
    assert [call.problem is not None for call in message.tool_calls] == [False, bool(problems)]


def test_an_unfinished_call_of_an_incomplete_response_does_not_run() -> None:
    """Otherwise a call that only looks whole would run with a part of its arguments."""
    unfinished = event("output_item.added", output_index=0, item=call_item("c0", "", id="fc_0"))
    piece = event("function_call_arguments.delta", item_id="fc_0", output_index=0, delta=ARGUMENTS)
    done = event("output_item.done", output_index=1, item=call_item("c1", id="fc_1"))
    message, _ = fold(unfinished, piece, done, event("incomplete", response={}))
    assert all(call.problem for call in message.tool_calls)
    marked = event("output_item.done", output_index=0, item=call_item(status="incomplete"))
    assert fold(marked, EMPTY)[0].tool_calls[0].problem


def test_usage_counts_the_cached_part() -> None:
    """Otherwise the user sees wrong costs."""
    usage = {"input_tokens": 9, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
    counted = fold(event("completed", response=response(usage=usage)))[0].usage
    assert (counted.input, counted.output, counted.cache_read) == (9, 5, 4)
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    assert fold(event("completed", response=response(usage=usage)))[0].usage.total == 14


def test_an_empty_stream_is_no_answer() -> None:
    """Otherwise a broken gateway looks like a silent model."""
    with pytest.raises(BadResponse):
        fold({"choices": [{"delta": {"content": "x"}}]})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from(["", "x", "rs_1", ARGUMENTS, "message", "reasoning"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "type",
                    "text",
                    "summary",
                    "content",
                    "arguments",
                    "call_id",
                    "name",
                    "status",
                    "error",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
KINDS = [
    *(
        "created",
        "output_item.added",
        "output_item.done",
        "output_text.delta",
        "output_text.done",
        "completed",
    ),
    *("reasoning_summary_text.delta", "reasoning_text.delta", "refusal.delta", "failed", "incomplete"),
    *("function_call_arguments.delta", "function_call_arguments.done"),
]
FIELDS = st.dictionaries(
    st.sampled_from(
        [
            "item",
            "item_id",
            "output_index",
            "delta",
            "text",
            "arguments",
            "summary_index",
            "response",
            "name",
            "output",
        ]
    ),
    VALUES,
)


@given(st.lists(st.tuples(st.sampled_from(KINDS), FIELDS), max_size=12))
def test_no_event_breaks_anything_but_the_response(events: list[tuple[str, Event]]) -> None:
    """Otherwise a hostile server ends the session with a stack trace."""
    with suppress(ProviderError):
        fold(*[fields | {"type": f"response.{kind}"} for kind, fields in events])
