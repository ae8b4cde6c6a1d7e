"""If these fail, tool calls of weak models are lost, or quoted text is run as a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.ports import ToolSpec
from newel.providers.parsing.text_tool_calls import ToolCallTextFilter, find_calls
from newel.providers.parsing.tool_calls import ToolIndex
from tests.properties import one_in

READ = ToolSpec(
    "read",
    "Read a file.",
    {"type": "object", "properties": {"file_path": {"type": "string"}, "limit": {"type": "integer"}}},
    aliases=("read_file", "Read"),
    argument_aliases={"path": "file_path"},
)
BASH = ToolSpec("bash", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})
TOOLS = ToolIndex([READ, BASH])
CALL = '{"name": "read", "arguments": {"file_path": "a.py"}}'
A_PY = [("read", {"file_path": "a.py"})]


def through_gate(pieces: list[str]) -> tuple[str, str]:
    gate = ToolCallTextFilter(TOOLS)
    return "".join(gate.feed(piece) for piece in pieces), gate.close()


def calls(text: str) -> list[tuple[str, Any]]:
    """The calls in a text in one piece; they must be the same in single characters."""
    passed, kept = through_gate([text])
    assert through_gate(list(text)) == (passed, kept)
    return [(call.name, call.arguments) for call in find_calls(kept, TOOLS)[1]]


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"```json\n{CALL}\n```",
        f"I will read it.\n\n```json\n{CALL}\n```\nThen I go on.",
        f"```\n[{CALL}]\n```",
        f"```json\n{CALL}",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"Sure.<tool_call>{CALL}</tool_call> Done.",
        f"```xml\n<tool_call>{CALL}</tool_call>\n```",
        f"<tools>\n{CALL}\n</tools>",
        f"<|python_tag|>{CALL}<|eom_id|>",
        f"<|tool_call|>[{CALL}]<|/tool_call|>",
        f"[TOOL_CALLS][{CALL}]",
        '[TOOL_CALLS]read[ARGS]{"file_path": "a.py"}',
        '<function=read>{"file_path": "a.py"}</function>',
        "<tool_call>\n<function=read>\n<parameter=file_path>\na.py\n</parameter>\n</function>\n</tool_call>",
        '<invoke name="read"><parameter name="file_path">a.py</parameter></invoke>',
        "<tool_call>read\n<arg_key>file_path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>",
        '{"type": "function", "function": {"name": "read", "arguments": {"file_path": "a.py"}}}',
        '{"tool_calls": [{"function": {"name": "read", "arguments": {"file_path": "a.py"}}}]}',
        '{"tool": "read", "parameters": {"file_path": "a.py"}}',
        '{"arguments": {"file_path": "a.py"}, "name": "read"}',
        '{"name": "read", "file_path": "a.py"}',
        '{"name": "functions.read", "input": {"file_path": "a.py"}}',
    ],
)
def test_common_formats_of_calls_are_recognized(text: str) -> None:
    """Otherwise a small local model would never get a tool to run."""
    found = [(name.removeprefix("functions."), arguments) for name, arguments in calls(text)]
    assert found in (A_PY, [("read", '{"file_path": "a.py"}')])


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "deploy", "arguments": {"host": "x"}}',
        'For example:\n```json\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n```\nThat is a call.',
        '<tool_call>{"name": "deploy", "arguments": {}}</tool_call>',
        "<function=deploy>{}</function>",
        '```json\n{"name": "my-app", "version": "1.0.0"}\n```',
        '{"name": "read", "version": 1}',
        '{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}',
        "Use [brackets] and `read` and {braces}.\n{ not json",
        "plain words",
        "",
    ],
)
def test_other_text_stays_text(text: str) -> None:
    """Otherwise talking about a tool would run one, or an answer would lose a part."""
    passed, kept = through_gate([text])
    assert passed + kept == text
    assert find_calls(kept, TOOLS) == (kept, [])


def test_several_calls_and_the_prose_around_them() -> None:
    """Otherwise only the first of a model's steps would happen, and its words would be lost."""
    text = f'First.\n```json\n{CALL}\n```\nthen\n```json\n{{"name": "bash", "arguments": {{"command": "ls"}}}}\n```\nend'
    passed, kept = through_gate([text])
    prose, found = find_calls(kept, TOOLS)
    assert passed + prose == "First.\nthen\n\nend"
    assert [call.name for call in found] == ["read", "bash"]


def test_a_fence_inside_an_argument_does_not_end_the_call() -> None:
    """Otherwise a model could not write a Markdown file with code in it."""
    content = "# Title\n```python\nprint()\n```\n"
    call = json.dumps({"name": "bash", "arguments": {"command": content}})
    assert calls(f"```json\n{call}\n```") == [("bash", {"command": content})]


def test_values_are_typed_by_the_schema() -> None:
    """Otherwise numbers written in tags would be refused, and texts that look like numbers be changed."""
    text = "<function=read><parameter=file_path>7</parameter><parameter=limit>5</parameter></function>"
    assert calls(text) == [("read", {"file_path": "7", "limit": 5})]


def test_broken_json_is_marked_as_repaired() -> None:
    """Otherwise a guess at a command would be run as if the model had said it."""
    _, found = find_calls('{"name": "bash", "arguments": {"command": "echo "hi""}}', TOOLS)
    assert [(call.name, call.repaired) for call in found] == [("bash", True)]


def test_text_streams_while_no_call_is_near() -> None:
    """Otherwise nothing is shown of an answer until its end."""
    gate = ToolCallTextFilter(TOOLS)
    assert (
        gate.feed('Code:\n```json\n{"name": "my-app"') + gate.feed(", more")
        == 'Code:\n```json\n{"name": "my-app", more'
    )
    assert gate.feed("\n```json\n") == "\n"
    assert gate.feed("{") == ""
    assert gate.feed("}") == "```json\n{}"


FRAGMENTS = [
    "```",
    "json",
    "\n",
    "{",
    "[",
    '"name"',
    ":",
    ' "read"',
    ' "x"',
    "}",
    "<tool_call>",
    "<",
    "tool",
    " ",
    "`",
    "]",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
def test_the_filter_loses_nothing_however_the_text_is_cut(text: str) -> None:
    """Otherwise what a user reads would depend on the network."""
    passed, kept = through_gate([text])
    assert passed + kept == text
    assert through_gate(list(text)) == (passed, kept)
    find_calls(kept, TOOLS)


JUNK = [
    " ",
    "\n",
    "\t",
    "a ",
    "<tool_call>",
    "<tool_call ",
    "[TOOL_CALLS]",
    '{"name": "read", ',
    '{"name": "read"}\n',
    "```\n",
    "<function=read>",
    "<function=",
    "<parameter=",
    '<invoke name="',
    "<arg_key>",
    "[",
    "`",
    "<",
]


@pytest.mark.parametrize("start", ["<tool_call>read", "[TOOL_CALLS]read"])
def test_white_space_without_end_is_read_at_once(start: str) -> None:
    """What a small model repeats until its limit."""
    passed, kept = through_gate([start + "\n" * 30_000])
    assert find_calls(kept, TOOLS)[1] == []
    assert passed + kept == start + "\n" * 30_000


@pytest.mark.slow  # twelve megabytes, piece by piece
@pytest.mark.parametrize("junk", one_in(3, JUNK))
def test_a_megabyte_of_junk_is_handled(junk: str) -> None:
    """Otherwise a hostile server can hang the agent: this must end well within the test's timeout."""
    text = junk * (1_000_000 // len(junk))
    for start in ("", "<tool_call>", "<tool_call>read", "```\nread", "[TOOL_CALLS]read", "<function=read>"):
        passed, kept = through_gate([start + text])
        find_calls(kept, TOOLS)
        assert len(passed) + len(kept) == len(start + text)
