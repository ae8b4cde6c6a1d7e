"""If these fail, an answer is assembled wrongly from the chunks of real servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from newel.agent.errors import BadResponse, ServerFailed
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, Usage
from newel.agent.ports import ToolSpec
from newel.providers.openai.stream import ResponseAccumulator

TOOLS = [
    ToolSpec("read", "Read.", {"type": "object", "properties": {"file_path": {}}}, aliases=("read_file",)),
    ToolSpec("bash", "Run.", {"type": "object", "properties": {"command": {}}}),
]


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(arguments: object = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{**fields, "function": function}]}


def fold(*chunks: dict[str, Any]) -> tuple[AssistantMessage, list[Delta]]:
    folding = ResponseAccumulator(TOOLS)
    deltas = [delta for piece in chunks for delta in folding.feed(piece)] + folding.close()
    return folding.message(model="m", provider="p"), deltas


def calls(*deltas: dict[str, Any], finish: str = "tool_calls") -> list[tuple[str, dict[str, Any]]]:
    message, _ = fold(*(chunk(**delta) for delta in deltas), chunk(finish))
    assert len({found.id for found in message.tool_calls}) == len(message.tool_calls)
    assert all(found.id and not found.problem for found in message.tool_calls)
    return [(found.name, found.arguments) for found in message.tool_calls]


A, B = ("read", {"file_path": "a"}), ("read", {"file_path": "b"})


def test_text_reasoning_and_usage() -> None:
    """Otherwise an answer would lack its words, its thoughts or its cost."""
    message, deltas = fold(
        chunk(role="assistant", content=""),
        chunk(reasoning_content="hm", reasoning="hm"),
        chunk(content="<think>so</think>Yes"),
        chunk(content="."),
        chunk("stop"),
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 3},
            },
        },
    )
    assert deltas == [ThinkingDelta("hm"), ThinkingDelta("so"), TextDelta("Yes"), TextDelta(".")]
    assert message.content == [
        ThinkingContent("hm", field="reasoning_content"),
        ThinkingContent("so"),
        TextContent("Yes."),
    ]
    assert (message.usage, message.stop_reason) == (Usage(input=9, output=4, cache_read=3), "stop")


def test_calls_in_the_standard_format() -> None:
    """Otherwise no tool would run with the servers that do everything right."""
    message, deltas = fold(
        chunk(**call("", index=0, id="c1", type="function", name="read")),
        chunk(**call("", index=1, id="c2", type="function", name="bash")),
        chunk(**call('{"file_', index=0)),
        chunk(**call('path": "a"}', index=0)),
        chunk(**call('{"command": "ls"}', index=1)),
        chunk("tool_calls"),
    )
    assert message.content == [
        ToolCall("c1", "read", {"file_path": "a"}),
        ToolCall("c2", "bash", {"command": "ls"}),
    ]
    assert message.stop_reason == "toolUse"
    assert deltas[:3] == [
        ToolCallDelta(index=0, name="read"),
        ToolCallDelta(index=1, name="bash"),
        ToolCallDelta(index=0, delta='{"file_'),
    ]


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([call('{"file_', name="read"), call('path": "a"}')], id="no index, no id"),
        pytest.param([call('{"file_', id="x", name="read"), call('path": "a"}', id="x")], id="no index"),
        pytest.param([call('{"file_', id="x", name="read"), call('path": "a"}', id="y")], id="new ids"),
        pytest.param([call('{"file_', index=0, name="read"), call('path": "a"}', index=0)], id="no id"),
        pytest.param(
            [
                call('{"file_', index=0, id="x", name="read"),
                call('path": "a"}', index=0, id="y", name="read"),
            ],
            id="index and name, but a new id with every piece",
        ),
        pytest.param(
            [
                call('{"file_', index=0, id="x", name="read"),
                call('path": "a"}', index=0, id="x", name="read"),
            ],
            id="repeated name",
        ),
        pytest.param(
            [call(index=0, name="re"), call('{"file_path": "a"}', index=0, name="ad")], id="name in pieces"
        ),
        pytest.param(
            [call(index=0, name="re"), call('{"file_path": "a"}', index=0, name="read")], id="growing name"
        ),
        pytest.param([call({"file_path": "a"}, index=0, name="read")], id="arguments as an object"),
        pytest.param([call('"{\\"file_path\\": \\"a\\"}"', index=0, name="read")], id="double-encoded"),
        pytest.param([call('{"file_path": "a"}', index=0, name="read_file")], id="another agent's name"),
        pytest.param(
            [call('{"file_path": "a"}', index="0", id=7, name="read")], id="index and id of wrong types"
        ),
        pytest.param(
            [{"tool_calls": call('{"file_path": "a"}', name="read")["tool_calls"][0]}], id="no list"
        ),
        pytest.param(
            [{"tool_calls": [{"name": "read", "arguments": '{"file_path": "a"}'}]}], id="no function"
        ),
        pytest.param(
            [
                {"function_call": {"name": "read", "arguments": '{"file_'}},
                {"function_call": {"arguments": 'path": "a"}'}},
            ],
            id="legacy function_call",
        ),
        pytest.param(
            [call('{"file_path": "a"}', index=0, id="x", name="read")] * 2, id="the whole call sent twice"
        ),
        pytest.param(
            [{"content": '{"name": "read", "arguments": {"file_path": "a"}}'}], id="written into the text"
        ),
    ],
)
def test_one_call_in_every_variant(deltas: list[dict[str, Any]]) -> None:
    """Otherwise tools would fail with one server or another."""
    assert calls(*deltas) == [A]
    assert calls(*deltas, finish="stop") == [A], "some servers end with 'stop' all the same"


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [call('{"file_path": "a"}', name="read"), call('{"file_path": "b"}', name="read")], id="nothing"
        ),
        pytest.param(
            [
                call('{"file_path": "a"}', index=0, id="x", name="read"),
                call('{"file_path": "b"}', index=0, id="y", name="read"),
            ],
            id="every index 0",
        ),
        pytest.param(
            [
                call('{"file_path": "a"}', id="x", name="read"),
                call('{"file_path": "b"}', id="y", name="read"),
            ],
            id="ids only",
        ),
        pytest.param(
            [
                call('{"file_path": "a"}', index=0, id="", name="read"),
                call('{"file_path": "b"}', index=1, id="", name="read"),
            ],
            id="empty ids",
        ),
        pytest.param(
            [
                call('{"file_path": "a"}', index=0, id="x", name="read"),
                call('{"file_path": "b"}', index=1, id="x", name="read"),
            ],
            id="the same id twice",
        ),
        pytest.param(
            [
                {
                    "tool_calls": [
                        *call({"file_path": "a"}, name="read")["tool_calls"],
                        *call({"file_path": "b"}, name="read")["tool_calls"],
                    ]
                }
            ],
            id="both in one chunk",
        ),
    ],
)
def test_two_calls_in_every_variant(deltas: list[dict[str, Any]]) -> None:
    """Otherwise two calls would become one broken one."""
    assert calls(*deltas) == [A, B]


def test_calls_in_the_last_chunk() -> None:
    """Otherwise the calls of servers that send them with the finish reason would be lost."""
    message, _ = fold(
        chunk(content="Now."), chunk("tool_calls", **call('{"file_path": "a"}', index=0, name="read"))
    )
    assert (message.text, [(c.name, c.arguments) for c in message.tool_calls]) == ("Now.", [A])


@pytest.mark.parametrize("written", [False, True])
def test_no_call_is_lost_however_many_there_are(written: bool) -> None:
    """Otherwise a model believes that all was done, and nobody ever knows."""
    commands = [str(number) for number in range(300)]
    if written:
        listed = [{"name": "bash", "arguments": {"command": command}} for command in commands]
        chunks = [chunk(content=f"```json\n{json.dumps(listed)}\n```")]
    else:
        chunks = [
            chunk(**call({"command": command}, name="bash", index=index, id=f"call{index}"))
            for index, command in enumerate(commands)
        ]
    message, _ = fold(*chunks, chunk("stop"))
    assert [found.arguments["command"] for found in message.tool_calls] == commands
    assert [found.problem for found in message.tool_calls[:256]] == [None] * 256
    assert {found.problem for found in message.tool_calls[256:]} == {
        "there were too many calls in one message; 256 are run. Send it again."
    }


def test_endless_calls_are_refused() -> None:
    """Otherwise a server could fill the memory with calls of a few bytes each."""
    pieces = [{"index": number, "function": {"name": "bash"}} for number in range(9_000)]
    with pytest.raises(BadResponse, match=r"more than 8,192 tool calls in one message"):
        fold(chunk(tool_calls=pieces))


def test_a_complete_response_is_accumulated_too() -> None:
    """Otherwise servers that cannot stream could not be used."""
    body: dict[str, Any] = {
        "choices": [
            {
                "message": {"content": "Hi", **call('{"file_path": "a"}', id="x", name="read")},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1},
    }
    message, deltas = fold(body)
    assert deltas[0] == TextDelta("Hi")
    assert message.tool_calls == [ToolCall("x", "read", {"file_path": "a"})]
    assert message.usage == Usage(input=2, output=1)


def test_the_text_is_the_sum_of_its_deltas_with_calls_in_it() -> None:
    """Otherwise the screen would show other words than the session keeps."""
    text = 'I read.\n```json\n{"name": "read", "arguments": {"file_path": "a"}}\n```\nThat was it. <b'
    message, deltas = fold(*(chunk(content=character) for character in text), chunk("stop"))
    assert message.text == "".join(delta.delta for delta in deltas if isinstance(delta, TextDelta))
    assert message.text == "I read.\nThat was it. <b"
    assert deltas[-1] == ToolCallDelta(index=0, name="read")


def test_a_text_call_beside_real_calls_stays_text() -> None:
    """Otherwise an explanation beside a call would run as a second one."""
    written = '{"name": "read", "arguments": {"file_path": "b"}}'
    message, _ = fold(
        chunk(content=written), chunk("tool_calls", **call('{"file_path": "a"}', index=0, name="read"))
    )
    assert (message.text, [(c.name, c.arguments) for c in message.tool_calls]) == (written, [A])


def test_the_call_at_the_output_limit_does_not_run_and_earlier_ones_do() -> None:
    """Otherwise a file could be written by half, or finished work be thrown away."""
    message, _ = fold(
        chunk(**call('{"file_path": "a"}', index=0, name="read")),
        chunk("length", **call('{"command": "rm -rf /tmp/x', index=1, name="bash")),
    )
    first, last = message.tool_calls
    assert (first.problem, message.stop_reason) == (None, "length")
    assert last.problem == "it was cut off by the output limit. Send it again in smaller pieces."


def test_content_blocks_are_read() -> None:
    """Otherwise the answers of servers that send blocks in place of text would be empty."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    message, _ = fold(chunk("stop", content=[thinking, {"type": "text", "text": "Yes"}]))
    assert message.content == [ThinkingContent("hm"), TextContent("Yes")]


def test_a_filtered_answer_says_so() -> None:
    """Otherwise half an answer would look like a whole one."""
    message, _ = fold(chunk("content_filter", content="Half"))
    assert (message.stop_reason, message.error_message) == (
        "error",
        "The provider's content filter cut the answer off.",
    )


def test_a_server_that_gives_up_can_be_retried() -> None:
    """Otherwise half an answer would count as the answer."""
    with pytest.raises(ServerFailed):
        ResponseAccumulator().feed(chunk("error", content="Half"))


JUNK: list[dict[str, Any]] = [
    {"choices": None},
    {"choices": [None]},
    {"choices": "x"},
    {"choices": [{"delta": {"tool_calls": [None, 3, {}], "content": 7, "function_call": []}}]},
    {"choices": [{"delta": {"content": [None, {"text": 3, "thinking": {}}]}}]},
    {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
    {"usage": {"prompt_tokens": "many", "completion_tokens": -1, "prompt_tokens_details": 3}},
]


@pytest.mark.parametrize("junk", JUNK)
def test_junk_in_a_chunk_is_ignored(junk: dict[str, Any]) -> None:
    """Otherwise one odd field would end a run."""
    message, _ = fold(chunk(content="Hi"), junk, chunk("stop"))
    assert (message.text, message.tool_calls, message.usage) == ("Hi", [], Usage())


def test_an_empty_response_is_not_an_answer() -> None:
    """Otherwise an empty message would look like the model's silence."""
    with pytest.raises(BadResponse):
        fold({"choices": [], "usage": {}})
