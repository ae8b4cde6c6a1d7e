"""If these fail, a slip of a server in one item costs the user all of its answer."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import methods

from newel.mcp.tolerant_reader import reduce_result

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
"""A result of the last one says its type."""


def accepted(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """The reduced result, which every version of the protocol accepts."""
    reduce_result(result)
    for version in VERSIONS:
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        methods.validate_server_result(method, version, result | more if version == VERSIONS[-1] else result)
    return result


def blocks(content: Any) -> list[dict[str, Any]]:
    return accepted("tools/call", {"content": content})["content"]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    "content",
    [
        "words",
        ["words"],
        text("words"),
        [text("words")],
        [{**text("words"), "annotations": {"priority": 7}}],
        [{**text("words"), "_meta": "none"}],
    ],
)
def test_a_text_arrives_whatever_is_wrong_around_it(content: Any) -> None:
    assert blocks(content) == [text("words")]


@pytest.mark.parametrize(
    ("block", "note"),
    [
        ({"type": "video", "data": "AAAA"}, "content of the unknown type 'video' left out"),
        ({"type": "text"}, "invalid content left out"),
        ({"type": "text", "text": 5}, "invalid content left out"),
        ({"type": "image"}, "invalid content left out"),
        ({"type": "resource"}, "invalid content left out"),
        ({"type": "resource_link", "name": "n"}, "invalid content left out"),
        ({}, "invalid content left out"),
        (None, "invalid content left out"),
        (7, "invalid content left out"),
    ],
)
def test_what_cannot_be_read_is_named_in_its_place(block: Any, note: str) -> None:
    first, second = blocks([block, text("words")])
    assert first["text"] == note
    assert second == text("words")


def test_fields_that_a_server_forgot_are_filled_in() -> None:
    image, link, resource = blocks(
        [
            {"type": "image", "data": "AAAA"},
            {"type": "resource_link", "uri": "a://b"},
            {"type": "resource", "resource": {"text": "inside"}},
        ]
    )
    assert image["mimeType"] == "unknown type"
    assert link["name"] == "(unnamed)"
    assert resource["resource"] == {"uri": "(unnamed)", "text": "inside"}


@pytest.mark.parametrize(("structured", "kept"), [({"a": 1}, {"a": 1}), ([1, 2], {"result": [1, 2]})])
def test_structured_content_needs_no_other_content(structured: Any, kept: Any) -> None:
    result = accepted("tools/call", {"structuredContent": structured, "isError": None})
    assert result == {"content": [], "structuredContent": kept}


def test_a_result_of_another_kind_is_left_alone() -> None:
    result = {"resultType": "input_required", "requestState": "s", "contents": [7]}
    before = dict(result)
    reduce_result(result)
    assert result == before


@pytest.mark.parametrize("schema", [None, True, {}, {"type": "string"}, {"properties": [], "required": "x"}])
def test_a_tool_with_an_invalid_schema_can_be_called(schema: Any) -> None:
    result = accepted("tools/list", {"tools": [{"name": "now", "inputSchema": schema}, {"name": "later"}]})
    assert [tool["name"] for tool in result["tools"]] == ["now", "later"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in result["tools"])


def test_a_valid_schema_is_unchanged() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": True},
        "required": ["a"],
        "additionalProperties": False,
    }
    result = accepted("tools/list", {"tools": [{"name": "now", "inputSchema": schema}]})
    assert result["tools"][0]["inputSchema"] == schema
    assert list(result["tools"][0]["inputSchema"]) == list(schema)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("outputSchema", {"type": "array"}),
        ("annotations", {"readOnlyHint": "yes"}),
        ("annotations", "none"),
        ("icons", [{"src": 1}]),
        ("execution", {"taskSupport": "sometimes"}),
        ("description", 5),
        ("_meta", []),
    ],
)
def test_a_wrong_field_costs_no_tool(field: str, value: Any) -> None:
    tool = {"name": "now", "inputSchema": {"type": "object"}, field: value}
    result = accepted("tools/list", {"tools": [tool]})
    assert result["tools"][0]["name"] == "now"
    assert result["tools"][0]["annotations"] == {"readOnlyHint": False}


@pytest.mark.parametrize("tool", [{}, {"name": 5}, {"name": None}, "now", None])
def test_a_tool_without_a_name_is_left_out(tool: Any) -> None:
    assert accepted("tools/list", {"tools": [tool]})["tools"] == []
