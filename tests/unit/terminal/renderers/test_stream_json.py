"""If these fail, a script for Claude Code misses reasoning, images or retries, or reads a message that was made void."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from claude_agent_sdk import AssistantMessage as SdkAssistant
from claude_agent_sdk import ThinkingBlock
from claude_agent_sdk._internal.message_parser import parse_message

from newel.agent.events import (
    AgentEvent,
    AgentStart,
    ErrorEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolExecutionUpdate,
    TurnStart,
)
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.terminal.stream_json.renderer import StreamJsonRenderer

RETRY = Retry(attempt=1, max_attempts=3, delay=0.5, reason="The server is overloaded.")


def written(events: Sequence[AgentEvent], *, partial: bool = False) -> list[dict[str, Any]]:
    out = io.BytesIO()
    renderer = StreamJsonRenderer(out, partial=partial)
    for event in events:
        renderer.handle(event)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    for line in lines:
        assert parse_message(line) is not None
    return lines


def test_reasoning_has_its_signature() -> None:
    message = AssistantMessage([ThinkingContent("Hm.", signature="sig"), ThinkingContent("So.")], model="m")
    lines = written([MessageEnd(message=message)])
    blocks = [parsed.content for line in lines if isinstance(parsed := parse_message(line), SdkAssistant)]
    assert blocks == [[ThinkingBlock("Hm.", "sig")], [ThinkingBlock("So.", "")]]


def test_images_of_a_result_are_blocks() -> None:
    result = ToolResultMessage(
        "c", "read", "a picture", is_error=False, images=[ImageContent("aGk=", "image/png")]
    )
    (line,) = written([MessageEnd(message=result)])
    (block,) = line["message"]["content"]
    assert block["content"] == [
        {"type": "text", "text": "a picture"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    ]


def test_the_prompt_is_not_repeated_and_what_newel_inserts_is_marked() -> None:
    lines = written(
        [
            MessageEnd(message=UserMessage("You undid a change.")),
            AgentStart(),
            MessageEnd(message=UserMessage("the prompt")),
            TurnStart(),
            MessageEnd(message=UserMessage("Your answer does not fit.")),
        ]
    )
    assert [line["message"]["content"][0]["text"] for line in lines] == [
        "You undid a change.",
        "Your answer does not fit.",
    ]
    assert all(line["isSynthetic"] for line in lines)


def test_a_retry_a_summary_and_an_error_are_system_lines() -> None:
    answer = AssistantMessage([TextContent("x")], usage=Usage(input=90, output=10))
    lines = written(
        [
            RETRY,
            MessageEnd(message=answer),
            MessageEnd(message=CustomMessage("compaction", {"summary": "s"})),
            ErrorEvent(code="request_rejected", message="No."),
            ErrorEvent(code="progress", message="Scanning …", level="info"),
        ]
    )
    system = [line for line in lines if line["type"] == "system"]
    assert [line["subtype"] for line in system] == ["api_retry", "compact_boundary", "error", "notice"]
    assert (system[0]["retry_delay_ms"], system[0]["max_retries"]) == (500, 3)
    assert system[1]["compact_metadata"]["pre_tokens"] == 100


def test_cached_tokens_are_counted_beside_the_input() -> None:
    usage = Usage(input=100, output=7, cache_read=60, cache_write=30)
    (line,) = written([MessageEnd(message=AssistantMessage([TextContent("x")], usage=usage))])
    assert line["message"]["usage"] == {
        "input_tokens": 10,
        "output_tokens": 7,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
    }


def test_every_block_of_a_partial_message_is_opened_and_closed() -> None:
    start = AssistantMessage([], id="m")

    def piece(delta: TextDelta | ThinkingDelta | ToolCallDelta) -> MessageUpdate:
        return MessageUpdate(message_id="m", assistant_message_event=delta)

    events: list[AgentEvent] = [
        MessageStart(message=start),
        piece(ThinkingDelta("Hm.")),
        RETRY,
        piece(ThinkingDelta("So.")),
        piece(TextDelta("I ")),
        piece(TextDelta("look.")),
        piece(ToolCallDelta(0, "read")),
        piece(ToolCallDelta(0, None, "{}")),
        piece(ToolCallDelta(1, "bash", "{}")),
        MessageEnd(message=AssistantMessage([ToolCall("c", "read", {})], id="m", stop_reason="toolUse")),
    ]
    stream = [line["event"] for line in written(events, partial=True) if line["type"] == "stream_event"]
    kinds = [(event["type"].removeprefix("content_block_"), event.get("index")) for event in stream]
    assert kinds == [
        ("message_start", None),
        ("start", 0),
        ("delta", 0),
        ("stop", 0),
        ("message_start", None),
        ("start", 0),
        ("delta", 0),
        ("stop", 0),
        ("start", 1),
        ("delta", 1),
        ("delta", 1),
        ("stop", 1),
        ("start", 2),
        ("delta", 2),
        ("delta", 2),
        ("stop", 2),
        ("start", 3),
        ("delta", 3),
        ("stop", 3),
        ("message_delta", None),
        ("message_stop", None),
    ]


def test_messages_of_a_subagent_name_its_call_and_all_others_none() -> None:
    def nested(message: AppMessage) -> ToolExecutionUpdate:
        return ToolExecutionUpdate(tool_call_id="c1", delta="", event=MessageEnd(message=message))

    task = ToolCall(id="c1", name="task", arguments={"description": "look", "prompt": "look around"})
    look = ToolCall(id="c2", name="bash", arguments={"command": "ls"})
    lines = written(
        [
            AgentStart(),
            TurnStart(),
            MessageEnd(message=AssistantMessage(content=[task], stop_reason="toolUse")),
            nested(UserMessage(content="look around")),
            nested(AssistantMessage(content=[TextContent("I look."), look], stop_reason="toolUse")),
            nested(ToolResultMessage(tool_call_id="c2", tool_name="bash", output="a.py", is_error=False)),
            MessageEnd(
                message=ToolResultMessage(tool_call_id="c1", tool_name="task", output="a.py", is_error=False)
            ),
            MessageEnd(message=AssistantMessage(content=[TextContent("It has a.py.")])),
        ]
    )
    assert [(line["type"], line["parent_tool_use_id"]) for line in lines] == [
        ("assistant", None),
        ("user", "c1"),
        ("assistant", "c1"),
        ("assistant", "c1"),
        ("user", "c1"),
        ("user", None),
        ("assistant", None),
    ]
    assert lines[4]["message"]["content"][0]["tool_use_id"] == "c2"
    assert not any(line.get("isSynthetic") for line in lines)
