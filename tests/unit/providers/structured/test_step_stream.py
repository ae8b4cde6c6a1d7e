"""If these fail, the user of a small model sees JSON in place of an answer, or an answer that is not the model's."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from newel.agent.events import TextDelta, ThinkingDelta, ToolCallDelta
from newel.providers.structured.step_stream import StepStream, StringScanner
from newel.text.json import as_dict, as_list

NAMES = st.text(min_size=1, max_size=6)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def strings(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        return [(path, value)]
    members = [*as_dict(value).items(), *(("", inner) for inner in as_list(value))]
    return [each for name, inner in members for each in strings(inner, (*path, name))]


def scanned(pieces: list[str]) -> list[tuple[tuple[str, ...], str]]:
    """The strings, each whole: an empty piece ends one."""
    scanner, found, text = StringScanner(), list[tuple[tuple[str, ...], str]](), ""
    for piece in pieces:
        for path, part in scanner.feed(piece):
            text += part
            if not part:
                found.append((path, text))
                text = ""
    return found


@given(
    st.dictionaries(NAMES, VALUES, max_size=4), st.integers(1, 7), st.booleans(), st.sampled_from([None, 1])
)
def test_every_string_is_found_with_its_path_however_the_json_is_cut(
    value: dict[str, Any],
    size: int,
    ascii_only: bool,
    indent: int | None,
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert scanned(pieces) == strings(value)


def deltas(text: str, size: int = 3) -> list[Any]:
    stream = StepStream()
    return [each for at in range(0, len(text), size) for each in stream.feed(text[at : at + size])]


def joined(kind: type[Any], found: list[Any]) -> str:
    return "".join(each.delta for each in found if isinstance(each, kind))


def test_the_thought_and_the_answer_are_shown_as_they_are_written() -> None:
    found = deltas(
        '{"thought": "It \\"works\\".", "action": {"tool": "answer", "text": "Gr\\u00fc\\u00dfe \\ud83d\\ude00"}}'
    )
    assert joined(ThinkingDelta, found) == 'It "works".'
    assert joined(TextDelta, found) == "Grüße 😀"
    assert joined(ToolCallDelta, found) == ""


def test_a_call_is_announced_by_name_before_its_arguments_are_there() -> None:
    found = deltas('{"thought": "T", "action": {"tool": "write", "file_path": "a", "text": "not an answer"}}')
    calls = [each for each in found if isinstance(each, ToolCallDelta)]
    assert calls[0].name == "write"
    assert "not an answer" in joined(ToolCallDelta, found)
    assert joined(TextDelta, found) == ""


def test_a_text_before_the_tool_is_known_is_not_shown() -> None:
    """A server without schemas may write the members in any order; the answer is then shown when it is complete."""
    assert joined(TextDelta, deltas('{"action": {"text": "rm -rf", "tool": "bash"}}')) == ""


def test_garbage_is_no_answer() -> None:
    for garbage in (
        "",
        "{",
        '{"action": {"tool"',
        "]]}}{",
        '"\\ud83d',
        '{"thought": "\\u12',
        "\\",
        '{"a":"\\q"}',
    ):
        assert not joined(TextDelta, deltas(garbage))
