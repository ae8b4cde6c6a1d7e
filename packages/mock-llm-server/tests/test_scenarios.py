"""If these fail, a documented scenario file is refused, or an invalid one is accepted or refused without file, line and reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mock_llm_server import ScenarioError, load, parse
from mock_llm_server.scenarios import BUNDLED

PLAIN = """{
  "scenarios": [
    {
      "name": "greeting",
      "trigger": "hello world",
      "steps": [
        {
          "response": {
            "content": "Writing.",
            "tool_calls": [
              {
                "id": "call_001",
                "type": "function",
                "function": {
                  "name": "write_file",
                  "arguments": "{\\"path\\": \\"hello.py\\"}"
                }
              }
            ]
          }
        },
        {"response": {"content": "Done ✓"}}
      ]
    }
  ],
  "default_response": {"content": "?"}
}
"""


def refusal(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as error:
        parse(text, "file.json")
    return error.value


def test_the_plain_format_loads() -> None:
    script = parse(PLAIN)
    assert script.scenarios[0].steps[0].response is not None
    call = script.scenarios[0].steps[0].response.tool_calls[0]
    assert (call.id, call.function.arguments) == ("call_001", '{"path": "hello.py"}')
    assert script.default_response.content == "?"


def test_the_bundled_scenarios_load_and_include_the_documented_ones() -> None:
    names = {scenario.name: scenario for scenario in load().scenarios}
    assert names["hello-world"].trigger == "hello world"
    assert len(names["hello-world"].steps) == 3
    assert names["simple-chat"].trigger == "how are you"


def test_the_scenarios_beside_the_package_are_the_bundled_ones() -> None:
    beside = Path(__file__).parent.parent / "scenarios.json"
    assert beside.read_bytes() == BUNDLED.read_bytes()


def test_the_examples_of_the_readme_load() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    file, step = re.findall(r"```json\n(.*?)```", readme, re.DOTALL)
    assert parse(file).scenarios[0].name == "list-files"
    wrapped = '{"scenarios": [{"name": "x", "trigger": "", "steps": [' + step + "]}]}"
    assert len(parse(wrapped).scenarios[0].steps[0].faults) == 2


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ('"trigger": "hello world",', '"triger": "hello world",', 5, "unknown field `triger`"),
        ('"trigger": "hello world",', "", 3, '"trigger" is missing'),
        ('"trigger": "hello world",', '"trigger_regex": "(",', 3, "not a valid regular expression"),
        ('"id": "call_001",', '"id": 1,', 12, "Expected `str"),
        ('"content": "Writing.",', '"content": "Writing."', 10, "malformed"),
        ('"content": "Writing.",', '"content": "{{ usr }}",', 8, "is not a known value"),
        ('{"content": "Done ✓"}}', '{"content": ""}, "fault": {"kind": "rest"}}', 22, "status, reset, stall"),
        ('{"content": "Done ✓"}}', '{"content": ""}, "fault": {"kind": "reset", "times": 0}}', 22, ">= 1"),
        ('"response": {"content": "Done ✓"}', '"delay_ms": 1', 22, '"response" is missing'),
        (
            '{"content": "Done ✓"}}',
            '{}, "fault": {"kind": "malformed_arguments"}}',
            22,
            "needs a response with tool",
        ),
        (
            '{"content": "Done ✓"}}',
            '{}, "fault": [{"kind": "reset"}, {"kind": "reset"}]}',
            22,
            "only the last",
        ),
        (
            '{"content": "Done ✓"}}',
            '{}, "fault": {"kind": "status", "headers": {"a": "b\\r\\nc"}}}',
            22,
            "is not a valid HTTP header",
        ),
        ('{"content": "?"}', '{"content": "{{ nix }}"}', 26, "is not a known value"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_reason(old: str, new: str, line: int, reason: str) -> None:
    assert old in PLAIN
    error = refusal(PLAIN.replace(old, new))
    assert (error.line, reason in error.reason) == (line, True), str(error)
    assert str(error).startswith(f"file.json:{line}: ")


@given(st.integers(min_value=0, max_value=len(PLAIN.rstrip()) - 1))
def test_a_file_cut_anywhere_is_refused_with_a_line(length: int) -> None:
    """A half-written file must be refused, not start a server with half of its answers."""
    error = refusal(PLAIN[:length])
    assert error.line is not None
    assert 1 <= error.line <= PLAIN.count("\n") + 1


@given(st.integers(min_value=0, max_value=len(PLAIN.encode()) - 1), st.integers(min_value=0, max_value=255))
def test_a_file_with_one_wrong_byte_loads_or_is_refused_with_a_line(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    data = bytearray(PLAIN.encode())
    data[at] = byte
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_bytes(data)
    error = None
    try:
        load(path)
    except ScenarioError as refused:
        error = refused
    assert error is None or (error.line and error.reason)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["scenarios", "name", "steps"]), inner)
        ),
    )
)
def test_any_other_json_is_refused_with_a_line(value: object) -> None:
    text = json.dumps(value, indent=1)
    if isinstance(value, dict) and value == {"scenarios": []}:
        return
    assert refusal(text).line is not None


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"scenarios": ' + "[" * 100_000])
def test_hostile_json_is_refused_without_a_traceback(text: str) -> None:
    assert refusal(text).line == 1


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"absent\.json: cannot be read: No such file"):
        load(tmp_path / "absent.json")
