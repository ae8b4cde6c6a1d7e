"""If these fail, a person cannot answer a server's form, or a server gets what its form does not allow."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.mcp.elicitation_form import BadForm, Field, fields, with_defaults


def field(**asked: Any) -> Field:
    (made,) = fields({"type": "object", "properties": {"it": asked}})
    return made


TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]

KINDS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 2, "maxLength": 4},
    "whole": {"type": "integer", "minimum": -3, "maximum": 40},
    "number": {"type": "number", "maximum": 0.5},
    "boolean": {"type": "boolean"},
    "choice": {"type": "string", "enum": ["a", "b", "2"]},
    "titled": {"type": "string", "oneOf": TITLED},
    "legacy": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red"]},
    "several": {
        "type": "array",
        "items": {"type": "string", "enum": ["a", "b", "c"]},
        "minItems": 1,
        "maxItems": 2,
    },
    "titled several": {"type": "array", "items": {"anyOf": TITLED}, "uniqueItems": True},
}
TYPED = st.one_of(
    st.text(),
    st.integers().map(str),
    st.floats().map(str),
    st.lists(st.sampled_from(["a", "b", "1", "2", "3", "Red", "none", "true", "y"])).map(", ".join),
)


@pytest.mark.parametrize("kind", KINDS)
@given(typed=TYPED)
def test_any_input_gives_a_value_that_the_schema_allows(kind: str, typed: str) -> None:
    asked = field(**KINDS[kind])
    try:
        value = asked.read(typed)
    except ValueError:
        return
    jsonschema.validate(value, KINDS[kind])
    assert asked.show(value) or value == ""


@pytest.mark.parametrize(
    ("kind", "typed", "value"),
    [
        ("text", "Ada", "Ada"),
        ("whole", "-3", -3),
        ("number", "0.25", 0.25),
        ("boolean", "Yes", True),
        ("boolean", "n", False),
        ("choice", "b", "b"),
        ("choice", "1", "a"),
        ("choice", "2", "2"),
        ("titled", "Green", "g"),
        ("titled", "1", "r"),
        ("legacy", "Red", "r"),
        ("legacy", "g", "g"),
        ("several", "3, a,3", ["c", "a"]),
        ("titled several", "none", []),
        ("titled several", "Red, 2", ["r", "g"]),
    ],
)
def test_each_kind_of_field_can_be_filled_in(kind: str, typed: str, value: object) -> None:
    assert field(**KINDS[kind]).read(typed) == value


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("date", "2026-01-31", "2026-02-31"),
        ("date-time", "2026-01-31T09:30:00Z", "2026-01-31T09:30:00"),
        ("email", "ada@example.org", "ada"),
        ("uri", "https://example.org/a?b", "example.org"),
    ],
)
def test_a_formatted_text_is_validated_and_sent_as_typed(form: str, good: str, bad: str) -> None:
    asked = field(type="string", format=form)
    assert asked.read(good) == good
    with pytest.raises(ValueError, match=bad[:4]):
        asked.read(bad)


@pytest.mark.parametrize(
    ("asked", "wants"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "minLength": 3}, "text, at least 3 characters"),
        ({"type": "string", "format": "email", "maxLength": 9}, "an e-mail address, at most 9 characters"),
        ({"type": "integer", "minimum": 1, "maximum": 10}, "a whole number, 1 to 10"),
        ({"type": "number", "maximum": 0.5}, "a number, at most 0.5"),
        ({"type": "boolean"}, "y or n"),
        (KINDS["titled"], "one of these"),
        (KINDS["several"], "some of these, with commas between them, or `none`, 1 to 2"),
    ],
)
def test_the_allowed_input_is_described(asked: dict[str, Any], wants: str) -> None:
    assert field(**asked).wants == wants


def test_values_are_shown_by_their_titles() -> None:
    assert field(**KINDS["titled"]).show("g") == "Green"
    assert field(**KINDS["titled several"]).show(["r", "g"]) == "Red, Green"
    assert field(**KINDS["titled several"]).show([]) == "none"
    assert field(**KINDS["boolean"]).show(False) == "no"


def test_required_fields_and_defaults_are_known() -> None:
    form = {
        "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}},
        "required": ["b"],
    }
    a, b = fields(form)
    assert (a.required, a.default) == (False, "x")
    assert (b.required, b.default) == (True, None)


def test_a_pattern_that_takes_hours_is_not_evaluated() -> None:
    assert field(type="string", pattern="(a+)+$").read("a" * 40 + "!")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"a": 1}},
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": "string", "enum": [1, 2]}}},
        {"properties": {"a": {"type": "integer", "minimum": "x"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"a": {"type": "string", "enum": []}}},
        {"required": "a"},
    ],
)
def test_a_form_that_cannot_be_filled_in_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadForm, match="not supported"):
        fields(schema)


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": 1}}])
def test_meaningless_hints_are_ignored(schema: dict[str, Any]) -> None:
    assert with_defaults(schema, {"x": 1}) == {"x": 1}


def test_the_users_input_outweighs_a_default() -> None:
    schema = {"properties": {"a": {"default": 1}, "b": {"default": None}, "c": {}}}
    assert with_defaults(schema, {"a": 2}) == {"a": 2, "b": None}
