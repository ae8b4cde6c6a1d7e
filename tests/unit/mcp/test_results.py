"""If these fail, results of MCP tools reach the model incomplete, or fill its context."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mcp import types

from newel.agent.ports import ToolResult
from newel.mcp import tool_call
from newel.mcp.client_handlers import to_request
from newel.mcp.tolerant_reader import NOTE
from newel.mcp.tool_call import to_result

PNG = base64.b64encode(b"\x89PNG").decode()


def made(*content: dict[str, Any], **more: Any) -> ToolResult:
    answer = types.CallToolResult.model_validate({"content": list(content), **more})
    return to_result(answer, server="s", tool="t")


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(data: str, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": kind}


def test_texts_are_joined() -> None:
    assert made(text("a"), text("b")).output == "a\nb"


def test_a_tool_error_is_an_error_for_the_model() -> None:
    assert made(text("no"), isError=True).is_error


def test_structured_content_replaces_missing_text_and_is_kept_for_screens() -> None:
    result = made(structuredContent={"a": 1})
    assert result.output == '{"a":1}'
    assert result.details == {"server": "s", "tool": "t", "structured": {"a": 1}}
    assert made(text("words"), structuredContent={"a": 1}).output == "words"


def test_a_note_about_lost_content_hides_no_structured_content() -> None:
    lost = {**text("chart left out"), "_meta": {NOTE: True}}
    assert made(lost, structuredContent={"a": 1}).output == '[chart left out]\n{"a":1}'


def test_huge_structured_content_is_not_stored_twice() -> None:
    result = made(structuredContent={"a": "x" * tool_call.MAX_STRUCTURED})
    assert "structured" not in result.details
    assert "xxx" in result.output


def test_an_image_is_an_image_and_not_text() -> None:
    result = made(image(PNG))
    assert [(each.data, each.mime_type) for each in result.images] == [(PNG, "image/png")]
    assert result.output == ""


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (image(PNG, "image/tiff"), "image left out: image/tiff, 4 bytes"),
        (image("no base64!"), "not base64"),
        (image("A" * (tool_call.MAX_IMAGE // 3 * 4 + 8)), "more than 10 MiB"),
        ({"type": "audio", "data": PNG, "mimeType": "audio/wav"}, "audio left out: audio/wav, 4 bytes"),
        ({"type": "resource_link", "uri": "a://b", "name": "n", "description": "d"}, "resource n, a://b: d"),
        ({"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}, "inside"),
        (
            {"type": "resource", "resource": {"uri": "a://b", "mimeType": "x/y", "blob": PNG}},
            "resource a://b left out: x/y",
        ),
    ],
)
def test_unsupported_content_is_named(block: dict[str, Any], words: str) -> None:
    result = made(block)
    assert words in result.output
    assert result.images == []


def test_an_image_in_a_resource_is_sent() -> None:
    assert made(
        {"type": "resource", "resource": {"uri": "a://b", "mimeType": "image/png", "blob": PNG}}
    ).images


def test_images_are_limited_to_what_a_request_allows() -> None:
    result = made(*[image(PNG)] * (tool_call.MAX_IMAGES + 1))
    assert len(result.images) == tool_call.MAX_IMAGES
    assert "more than 20 images" in result.output


def test_a_very_long_text_keeps_its_head_and_tail() -> None:
    result = made(text("head" + "é" * tool_call.MAX_TEXT + "tail"))
    assert result.output.startswith("head")
    assert result.output.endswith("tail")
    assert "bytes omitted" in result.output
    assert len(result.output.encode()) < tool_call.MAX_TEXT + 300


def test_an_empty_result_is_not_a_failure() -> None:
    assert made().output == "(The tool returned nothing.)"


def test_half_a_surrogate_pair_does_not_fail() -> None:
    answer = types.CallToolResult(content=[types.TextContent(text="a\ud800b")])
    assert to_result(answer, server="s", tool="t").output == "a?b"


def test_a_servers_sampling_request_is_a_conversation() -> None:
    params = types.CreateMessageRequestParams.model_validate(
        {
            "messages": [
                {"role": "user", "content": [text("look"), image(PNG)]},
                {"role": "assistant", "content": text("I see")},
                {"role": "user", "content": {"type": "audio", "data": PNG, "mimeType": "audio/wav"}},
            ],
            "maxTokens": 0,
            "systemPrompt": "be short",
        }
    )
    request = to_request("s", params)
    assert [message.text for message in request.messages] == ["look", "I see", "[audio left out]"]  # type: ignore[union-attr]
    assert (request.max_tokens, request.system_prompt) == (1, "be short")
