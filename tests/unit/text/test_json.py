"""If these fail, JSON in a model's prose is missed, or prose is taken for JSON."""

from __future__ import annotations

import io
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.text.json import decode_at, decode_json, find_object, repair, to_printable_json
from newel.text.json_schema import compile_schema


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Here it is:\n```json\n{"a": {"b": "}"}}\n```\nDone.', {"a": {"b": "}"}}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ("{'a': True,}", {"a": True}),
        ("no object", {}),
        ("} {", {}),
        ("[1, 2]", {}),
    ],
)
def test_an_object_is_found_in_prose(text: str, found: dict[str, Any]) -> None:
    assert find_object(text) == found


def test_a_value_is_decoded_from_the_middle_of_a_text() -> None:
    text = 'x {"a": [1, 2]} y'
    assert decode_at(text, 2) == ({"a": [1, 2]}, 15)
    assert decode_at(text, 0) == (None, 0)
    assert decode_at("[" * 200_000, 0) == (None, 0)


def test_a_duplicate_member_can_be_refused() -> None:
    text = '{"a": 1, "a": 2}'
    assert decode_at(text, 0) == ({"a": 2}, len(text))
    assert decode_at(text, 0, unique=True) == (None, 0)


@pytest.mark.parametrize("junk", ["[" * 200_000, '{"a": "' + "x" * 10_000, "\\" * 100_000])
def test_an_overlong_value_is_not_repaired(junk: str) -> None:
    assert repair(junk) is None


@pytest.mark.parametrize(
    "text", [b"", b"{", b'"a', b"\xff", b'"\xff"', b"[" * 100_000 + b"]" * 100_000, b'{"a":1}']
)
@pytest.mark.parametrize("kind", [list[int], msgspec.json.Decoder(list[int])], ids=["type", "decoder"])
def test_what_others_wrote_fails_in_one_way(
    text: bytes, kind: type[list[int]] | msgspec.json.Decoder[list[int]]
) -> None:
    """Otherwise each reader of a hostile file has to know three errors, and forgets one."""
    assert decode_json(b"[1]", kind) == [1]
    with pytest.raises(msgspec.DecodeError):
        decode_json(text, kind)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=5
    )
)
def test_what_a_terminal_would_act_on_is_written_out_and_the_value_stays(value: Any) -> None:
    """Otherwise the name of a skill or the command of a hook hides what is behind it from who reads the list."""
    text = to_printable_json(value)
    assert text.isprintable()
    assert msgspec.json.decode(text) == value


def test_an_override_of_the_direction_is_written_out() -> None:
    assert to_printable_json({"command": "a\u202eb\x9b"}) == r'{"command":"a\u202eb\u009b"}'


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_on_standard_output_is_utf_8_in_every_locale(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """Else a program reads question marks, or nothing, in place of a name or an answer that fits a schema."""
    value = {"name": "Zo\xeb \u2603 \U0001f600"}
    answer = f' {{"name": "{value["name"]}"}}'
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    for text in (to_printable_json(value), compile_schema({"type": "object"}, "shape.json").read(answer)[1]):
        assert msgspec.json.decode(text.encode(encoding, "replace")) == value
