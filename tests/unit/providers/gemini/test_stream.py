"""If these fail, an answer is assembled wrongly from the chunks of the Gemini API."""

from __future__ import annotations

from typing import Any

import pytest

from newel.agent.errors import BadResponse, RequestRejected, ServerFailed
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, Usage
from newel.agent.ports import ToolSpec
from newel.providers.gemini.stream import GeminiAccumulator

TOOLS = [
    ToolSpec("read", "Read.", {"type": "object", "properties": {"file_path": {}}}, aliases=("read_file",)),
    ToolSpec("bash", "Run.", {"type": "object", "properties": {"command": {}}}),
]


def chunk(*parts: Any, finish: str | None = None, message: str | None = None) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts)}, "finishReason": finish, "finishMessage": message}
    return {"candidates": [candidate]}


def call(name: Any = "read", args: Any = None, **fields: Any) -> dict[str, Any]:
    signature = {"thoughtSignature": fields.pop("signature")} if "signature" in fields else {}
    return {"functionCall": {"name": name, "args": args, **fields}, **signature}


def fold(*chunks: Any) -> tuple[AssistantMessage, list[Delta]]:
    folding = GeminiAccumulator(TOOLS)
    deltas = [delta for piece in chunks for delta in folding.feed(piece)] + folding.close()
    return folding.message(model="m", provider="p"), deltas


def test_text_thoughts_and_usage() -> None:
    """Otherwise an answer would lack its words, its thoughts or its cost."""
    message, deltas = fold(
        chunk({"text": "Hm", "thought": True}),
        chunk({"text": ", so", "thought": True}, {"text": "Ye"}),
        chunk({"text": "s."}),
        chunk({"text": "", "thoughtSignature": "c2ln"}, finish="STOP")
        | {
            "usageMetadata": {
                "promptTokenCount": 9,
                "cachedContentTokenCount": 3,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 5,
            }
        },
    )
    assert deltas == [ThinkingDelta("Hm"), ThinkingDelta(", so"), TextDelta("Ye"), TextDelta("s.")]
    assert message.content == [
        ThinkingContent("Hm, so", field="gemini"),
        TextContent("Yes."),
        ThinkingContent("", field="gemini", signature="c2ln"),
    ]
    assert (message.usage, message.stop_reason) == (Usage(input=9, output=9, cache_read=3), "stop")


def test_signatures_stay_with_their_parts() -> None:
    """Otherwise the server would refuse them, or lose the thread of the model's reasoning."""
    message, _ = fold(
        chunk({"text": "a", "thought": True, "thoughtSignature": "MQ=="}, {"text": "b", "thought": True}),
        chunk({"text": "c", "thoughtSignature": "Mg=="}, {"text": "d"}),
        chunk(
            call(args={"file_path": "a"}, id="x", signature="Mw=="), {"text": "", "thoughtSignature": "NA=="}
        ),
        chunk(finish="STOP"),
    )
    assert message.content == [
        ThinkingContent("a", field="gemini", signature="MQ=="),
        ThinkingContent("b", field="gemini"),
        TextContent("c"),
        ThinkingContent("", field="gemini", signature="Mg=="),
        TextContent("d"),
        ToolCall("x", "read", {"file_path": "a"}, signature="gemini:Mw=="),
        ThinkingContent("", field="gemini", signature="NA=="),
    ]


def test_parallel_calls_keep_their_order_and_get_ids() -> None:
    """Otherwise two calls would become one, or a result would answer another call."""
    message, deltas = fold(
        chunk(call("read_file", {"file_path": "a"}, id="x"), call("bash", {"command": "ls"}, id="x")),
        chunk(call("default_api.bash", None)),
        chunk(finish="STOP"),
    )
    calls = message.tool_calls
    assert [(each.name, each.arguments) for each in calls] == [
        ("read", {"file_path": "a"}),
        ("bash", {"command": "ls"}),
        ("bash", {}),
    ]
    assert calls[0].id == "x"
    assert len({each.id for each in calls if each.id}) == 3
    assert message.stop_reason == "toolUse"
    assert deltas[1] == ToolCallDelta(index=1, name="bash", delta='{"command":"ls"}')


def test_the_call_at_the_output_limit_does_not_run_and_earlier_ones_do() -> None:
    """Otherwise a file could be written by half, or finished work be thrown away."""
    message, _ = fold(
        chunk(call(args={"file_path": "a"}), call("bash", {"command": "rm -rf /tmp/x"})),
        chunk(finish="MAX_TOKENS"),
    )
    first, last = message.tool_calls
    assert (first.problem, message.stop_reason) == (None, "length")
    assert last.problem == "it was cut off by the output limit. Send it again in smaller pieces."


def test_an_answer_of_thoughts_at_the_output_limit_is_complete() -> None:
    """Otherwise a small limit would cost ten requests instead of a message."""
    message, _ = fold(chunk({"text": "Hm", "thought": True}, finish="MAX_TOKENS"))
    assert (message.text, message.stop_reason) == ("", "length")


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (chunk(finish="SAFETY"), "Gemini stopped (SAFETY): its safety filter cut the answer off."),
        (
            chunk(finish="RECITATION", message="See the\nsource"),
            "Gemini stopped (RECITATION): the answer would have recited its training data. See the source.",
        ),
        (chunk(finish="OTHER"), "Gemini stopped (OTHER): it gave no other reason."),
        (
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
            "Gemini blocked the prompt (PROHIBITED_CONTENT).",
        ),
        (
            {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "No"}},
            "Gemini blocked the prompt (SAFETY). No.",
        ),
    ],
)
def test_a_blocked_answer_says_so(last: dict[str, Any], text: str) -> None:
    """Otherwise half an answer, or none, would look like a whole one."""
    message, _ = fold(chunk({"text": "Half"}), last)
    assert (message.text, message.stop_reason, message.error_message) == ("Half", "error", text)
    alone, _ = fold(last)
    assert (alone.content, alone.stop_reason) == ([], "error")


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"])
def test_a_garbled_answer_is_asked_for_again(reason: str) -> None:
    """Otherwise the run would end in the middle of the work."""
    with pytest.raises(ServerFailed, match=rf"\({reason}\)"):
        fold(chunk({"text": "I call"}), chunk(finish=reason))


def test_a_missing_signature_can_be_learned() -> None:
    with pytest.raises(RequestRejected, match="thought signature") as failure:
        fold(chunk(finish="MISSING_THOUGHT_SIGNATURE"))
    assert failure.value.status == 400


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(finish="STOP")],
        [
            chunk({"text": "Hm", "thought": True}),
            chunk({"text": "", "thoughtSignature": "eA=="}, finish="STOP"),
        ],
        [{"candidates": [{"finishReason": "STOP"}]}],
    ],
)
def test_an_answer_without_text_and_calls_is_asked_for_again(chunks: list[dict[str, Any]]) -> None:
    """Otherwise the model's lapse after a tool call would end the run in silence."""
    with pytest.raises(ServerFailed, match="without text and calls"):
        fold(*chunks)


def test_no_call_is_lost_however_many_there_are() -> None:
    """Otherwise a model believes that all was done, and nobody ever knows."""
    message, _ = fold(chunk(*(call("bash", {"command": str(n)}) for n in range(300)), finish="STOP"))
    assert [found.arguments["command"] for found in message.tool_calls] == [str(n) for n in range(300)]
    assert [bool(found.problem) for found in message.tool_calls] == [False] * 256 + [True] * 44


def test_endless_calls_are_refused() -> None:
    """Otherwise a server could fill the memory with calls of a few bytes each."""
    with pytest.raises(BadResponse, match=r"more than 8,192 tool calls"):
        fold(chunk(*(call() for _ in range(9_000))))


JUNK: list[Any] = [
    {"candidates": None},
    {"candidates": [None]},
    {"candidates": "x"},
    {"candidates": [{"content": "x", "finishReason": 7, "finishMessage": []}]},
    {"candidates": [{"content": {"parts": {"text": "x"}}}]},
    chunk(None, 7, "x", {}, {"text": 7}, {"text": None, "thoughtSignature": 3}, {"inlineData": {}}),
    {"usageMetadata": "x", "promptFeedback": ["x"]},
    {"usageMetadata": {"promptTokenCount": "many", "candidatesTokenCount": -1}},
    chunk(finish="FINISH_REASON_UNSPECIFIED"),
]


@pytest.mark.parametrize("junk", JUNK)
def test_junk_in_a_chunk_is_ignored(junk: dict[str, Any]) -> None:
    """Otherwise one odd field would end a run."""
    message, _ = fold(chunk({"text": "Hi"}), junk, chunk(finish="STOP"))
    assert (message.text, message.tool_calls, message.usage) == ("Hi", [], Usage())
    assert message.stop_reason == "stop"


@pytest.mark.parametrize(
    ("part", "name", "problem"),
    [
        (call("bash", '{"command": "l'), "bash", "its arguments are not valid JSON"),
        (call("bash", ["ls"]), "bash", "not an object"),
        ({"functionCall": "bash"}, "", None),
        (call(7), "", None),
    ],
)
def test_junk_in_a_call_is_reported_to_the_model(
    part: dict[str, Any], name: str, problem: str | None
) -> None:
    """Otherwise a call would vanish, or a half command run."""
    message, _ = fold(chunk(part, finish="STOP"))
    [found] = message.tool_calls
    assert found.name == name
    assert (problem or "") in (found.problem or "")


def test_an_empty_response_is_not_an_answer() -> None:
    """Otherwise an empty message would look like the model's silence."""
    with pytest.raises(BadResponse):
        fold({})
