"""If these fail, a feature that a server rejects is sent again and again, or one that it supports is never used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from newel.agent.errors import ContextOverflow, ProviderError, RateLimited, RequestRejected
from newel.agent.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, ToolSpec
from newel.providers.gemini.encoder import GeminiCompat, GeminiEncoder
from newel.providers.gemini.schema import plain_schema
from newel.providers.gemini.thinking import BUDGET, FROM_LOW, UNTOLD

TOOL = ToolSpec("f", "F.", {"type": "object", "$schema": "x", "properties": {"n": {"exclusiveMinimum": 0}}})
REQUEST = ModelRequest(Model("gemini-3-flash", max_output=100), "", [UserMessage("Hi")], [TOOL])


def rejected(message: str, status: int = 400) -> RequestRejected:
    return RequestRejected(f"http://x rejected the request ({status}): {message}", status=status)


@pytest.mark.parametrize(
    ("message", "adapted"),
    [
        ("Thinking level MINIMAL is not supported for this model.", GeminiCompat(thinking=FROM_LOW)),
        ("Budget 0 is invalid.", GeminiCompat(thinking=FROM_LOW)),
        (
            "Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call'",
            GeminiCompat(call_ids=False),
        ),
        (
            "Unknown name \"parametersJsonSchema\" at 'tools[0].function_declarations[0]'",
            GeminiCompat(json_schema=False),
        ),
        ("max_output_tokens must be in the range [1, 8193).", GeminiCompat(limit=False)),
        ("Streaming is not supported.", GeminiCompat(stream=False)),
    ],
)
def test_a_rejected_feature_is_left_out(message: str, adapted: GeminiCompat) -> None:
    """Otherwise the server could not be used at all."""
    found = GeminiCompat().adapted_to(rejected(message), REQUEST)
    assert found is not None
    assert found[0] == adapted


@pytest.mark.parametrize(
    "error",
    [
        rejected("contents is not specified"),
        rejected(
            "not found: https://x/v1beta/models/gemini-2.0-flash-thinking-exp:streamGenerateContent", 404
        ),
        rejected("Function call is missing a thought_signature in functionCall parts."),
        RateLimited("thinking tokens per minute", status=429),
        rejected("thinking is not supported for this key", 403),
        ContextOverflow("too long; thinking", status=400),
        ProviderError("thinking"),
    ],
)
def test_other_rejections_are_raised(error: ProviderError) -> None:
    """Otherwise the true reason would be hidden behind further failures."""
    assert GeminiCompat().adapted_to(error, REQUEST) is None


def test_each_setting_of_thinking_is_tried_once() -> None:
    """Otherwise a model without any would be asked forever."""
    compat, tried = GeminiCompat(), 0
    while adapted := compat.adapted_to(rejected("Thinking is not supported."), REQUEST):
        compat, tried = adapted[0], tried + 1
    assert (compat.thinking, tried) == (UNTOLD, 5)
    assert GeminiCompat().style("gemini-2.5-flash") == BUDGET


def test_signatures_are_learned_for_a_model_that_seems_old() -> None:
    """Otherwise a renamed model would refuse every history of another."""
    request = ModelRequest(Model("gemini-2.5-next"), "", [UserMessage("Hi")])
    error = rejected("Function call is missing a thought_signature in functionCall parts.")
    adapted = GeminiCompat().adapted_to(error, request)
    assert adapted is not None
    assert (GeminiCompat().signs("gemini-2.5-next"), adapted[0].signs("gemini-2.5-next")) == (False, True)


def test_rejected_features_do_not_reach_the_wire() -> None:
    """Otherwise they would be rejected again."""
    call = ToolCall("c1", "my tool!", {})
    request = ModelRequest(
        Model("gemini-3-flash", max_output=100),
        "Be brief.",
        [UserMessage("Hi"), AssistantMessage([call]), ToolResultMessage("c1", "", "ok", is_error=False)],
        [TOOL],
    )
    compat = GeminiCompat(limit=False, json_schema=False, call_ids=False, thinking=UNTOLD, signatures=False)
    encoder = GeminiEncoder("gemini")
    assert b'"id"' in encoder.body(request, GeminiCompat())
    body = json.loads(encoder.body(request, compat))
    assert body == {
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "f",
                        "description": "F.",
                        "parameters": {"type": "object", "properties": {"n": {}}},
                    }
                ]
            }
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "my_tool_", "args": {}}}]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "unknown", "response": {"output": "ok"}}}],
            },
        ],
    }


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"type": ["string", "null"], "default": 1}, {"type": "string", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"type": "integer", "enum": [1, 2], "minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"oneOf": [{"type": "string"}, True]}, {"anyOf": [{"type": "string"}, {}]}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        (
            {
                "type": "array",
                "items": {"$ref": "#/$defs/N"},
                "$defs": {"N": {"type": "number", "multipleOf": 2}},
            },
            {"type": "array", "items": {"type": "number"}},
        ),
        ({"$ref": "#/$defs/absent"}, {}),
        ({"properties": {"const": {"type": "string"}}}, {"properties": {"const": {"type": "string"}}}),
    ],
)
def test_a_simpler_schema_means_the_same(schema: dict[str, Any], plain: dict[str, Any]) -> None:
    """Otherwise a tool of a server could not be called, or the API would refuse it."""
    assert plain_schema(schema) == plain


def test_a_schema_that_refers_to_itself_ends() -> None:
    """Otherwise such a tool would hang every request."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    assert "next" in plain_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})["properties"]
