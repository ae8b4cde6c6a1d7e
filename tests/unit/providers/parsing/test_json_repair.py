"""If these fail, a call with slightly broken JSON is lost, or runs with arguments that the model did not mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.ports import ToolSpec
from newel.providers.parsing.tool_calls import ToolIndex, read_arguments
from newel.text.json import MAX_REPAIR, to_json

WRITE = ToolSpec("write", "Write a file.", {"type": "object"}, aliases=("write_file", "Write"))
READ = ToolSpec("read", "Read a file.", {"type": "object"}, aliases=("read_file",))
TOOLS = ToolIndex([WRITE, READ])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(alphabet=st.characters(codec="utf-8")), JSON, max_size=4))
def test_valid_json_is_read_exactly(arguments: dict[str, Any]) -> None:
    """Otherwise a file is written with other bytes than the model sent."""
    text = to_json(arguments).decode()
    expected = read_arguments(text, may_repair=False)
    assert expected.problem is None
    assert read_arguments(to_json(text).decode(), may_repair=False) == expected
    assert to_json(expected.values).decode() == text


@pytest.mark.parametrize("raw", [None, "", "  ", "null", "{}", {}, '"{}"', '"\\"{}\\""'])
def test_no_arguments_are_an_empty_object(raw: object) -> None:
    """Otherwise a tool without arguments could not be called on half of the servers."""
    assert read_arguments(raw, may_repair=False) == ({}, None)


def test_raw_line_breaks_in_strings_are_kept() -> None:
    """Otherwise a common and unambiguous mistake of small models costs a request each time."""
    assert read_arguments('{"content": "a\n\tb"}', may_repair=False) == ({"content": "a\n\tb"}, None)


def test_broken_json_is_repaired_only_for_harmless_tools() -> None:
    """Otherwise a guess would be written into a file."""
    broken = '{"file_path": "a.py", "limit": 5'
    assert TOOLS.call("1", "read", broken).arguments == {"file_path": "a.py", "limit": 5}
    assert TOOLS.call("1", "read", broken).problem is None
    refused = TOOLS.call("1", "write_file", broken)
    assert (refused.name, refused.arguments) == ("write", {})
    assert refused.problem == (
        "its arguments are not valid JSON (line 1, column 33: Expecting ',' delimiter). Send the call again."
    )


@pytest.mark.parametrize("name", ["write", "Write", "write_file", " functions.write "])
def test_a_repaired_call_of_a_changing_tool_does_not_run(name: str) -> None:
    """Otherwise an alias bypasses the rule."""
    call = TOOLS.call("1", name, {"content": "x"}, repaired=True)
    assert call.name == "write"
    assert call.problem == "its JSON was broken. Send the call again with valid JSON."


def test_a_truncated_call_never_runs() -> None:
    """Otherwise half a file would replace a whole one."""
    assert TOOLS.call("1", "read", '{"a": 1}', cut=True).problem == (
        "it was cut off by the output limit. Send it again in smaller pieces."
    )


@pytest.mark.parametrize("raw", ["[1]", "7", '"text"', [1], 7, True])
def test_arguments_that_are_not_an_object_are_returned_to_the_model(raw: object) -> None:
    """Otherwise the tool fails with a message that does not help the model to correct the call."""
    assert read_arguments(raw, may_repair=False).problem


@pytest.mark.parametrize(
    "junk", ["[" * 200_000, '{"a":' * 50_000, "\\" * 100_000, '{"a": "' + "x" * MAX_REPAIR, "{" * 100_000]
)
def test_junk_is_refused_and_not_executed(junk: str) -> None:
    """Otherwise a hostile server could hang the agent or end it."""
    assert read_arguments(junk, may_repair=True).problem
