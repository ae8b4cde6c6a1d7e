"""If these fail, text of a tool or a user passes for an instruction or a call of somebody else."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, ToolSpec
from newel.providers.parsing.text_protocol import describe_tools, format_prompt
from newel.providers.parsing.text_tool_calls import find_calls
from newel.providers.parsing.tool_calls import ToolIndex

BASH = ToolSpec("bash", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})
TAGS = [
    f"<{slash}{name}>" for name in ("user", "assistant", "tool_call", "tool_response") for slash in ("", "/")
]
WORDS = st.lists(st.sampled_from([*TAGS, "\n", " ", "x", "<", "\\"])).map("".join) | st.text()


@settings(max_examples=60)
@given(WORDS, WORDS, WORDS, WORDS)
def test_no_text_can_pose_as_another_speaker(first: str, said: str, command: str, output: str) -> None:
    messages = [
        UserMessage(first),
        AssistantMessage([TextContent(said), ToolCall("1", "bash", {"command": command})]),
        ToolResultMessage("1", "bash", output, is_error=False),
    ]
    told = format_prompt(ModelRequest(Model("m"), "Be brief.", messages))
    order = [
        "user",
        "/user",
        "assistant",
        "tool_call",
        "/tool_call",
        "/assistant",
        "tool_response",
        "/tool_response",
    ]
    assert re.findall(r"<(/?(?:user|assistant|tool_call|tool_response)\b)", told) == order


@settings(max_examples=30)
@given(WORDS)
def test_a_first_prompt_reaches_the_model_unchanged(text: str) -> None:
    assert format_prompt(ModelRequest(Model("m"), "Be brief.", [UserMessage(text)])) == "\n\n".join(
        part for part in ("Be brief.", text) if part
    )


def test_a_call_in_the_requested_format_is_recognized() -> None:
    told = describe_tools("", [BASH]).replace("the tool's name", "bash")
    _, calls = find_calls(told.partition("Available tools")[0], ToolIndex([BASH]))
    assert [call.name for call in calls] == ["bash"]
