"""The rules of Anthropic's Messages API: why a request to it would be refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, cast

from mock_llm_server.conversation import Problem

FIELDS = {
    *("cache_control", "container", "context_management", "inference_geo", "max_tokens", "mcp_servers"),
    *("messages", "metadata", "model", "output_config", "service_tier", "speed", "stop_sequences"),
    *("stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p"),
}
BLOCKS = {
    "user": {"text", "image", "document", "tool_result", "search_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}
THINKING = {"thinking", "redacted_thinking"}
THINKING_TYPES = {"enabled", "adaptive", "disabled", "between_tools"}
EFFORTS = {"low", "medium", "high", "xhigh", "max"}
IMAGE_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
MIN_BUDGET = 1024
MAX_MARKS = 4
TOOL_NAME = r"[a-zA-Z0-9_-]{1,128}"
CALL_ID = r"[a-zA-Z0-9_-]+"
LACKS_RESULTS = (
    "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must "
    "have a corresponding `tool_result` block in the next message."
)
LACKS_CALL = (
    "unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must have a "
    "corresponding `tool_use` block in the previous message."
)
LACKS_THOUGHT = (
    "Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final "
    "`assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and "
    "`tool_result` blocks)."
)

Block = dict[str, Any]
Turn = tuple[str, list[Block]]
"""A role, and the blocks of its messages in a row, which the API merges."""


def find_problem(body: Any, sign: Callable[[str], str]) -> Problem | None:
    """Return the first problem of a request. ``sign`` gives the signature of a thought."""
    turns = _turns(body["messages"])
    checks = (
        _field_problems(body),
        _thinking_problems(body),
        _tool_problems(_blocks(body.get("tools"))),
        _cache_problems(body),
        _block_problems(turns, sign),
        _pairing_problems(turns),
        _order_problems(body, turns),
    )
    return next((problem for check in checks for problem in check), None)


def _turns(messages: list[dict[str, Any]]) -> list[Turn]:
    turns: list[Turn] = []
    for role, group in groupby(messages, lambda message: str(message["role"])):
        turns.append((role, [block for message in group for block in _blocks(message["content"])]))
    return turns


def _blocks(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return cast("list[Block]", content) if isinstance(content, list) else []


def _object(value: Any) -> Block:
    return cast("Block", value) if isinstance(value, dict) else {}


def _field_problems(body: dict[str, Any]) -> Iterator[Problem]:
    for name in body.keys() - FIELDS:
        yield name, "Extra inputs are not permitted"
    for name in ("model", "max_tokens"):
        if name not in body:
            yield name, "Field required"
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens", "Input should be greater than or equal to 1"
    effort = _object(body.get("output_config")).get("effort")
    if effort is not None and effort not in EFFORTS:
        yield "output_config.effort", f"Input should be one of {', '.join(sorted(EFFORTS))}"
    for number, message in enumerate(body["messages"]):
        if not message["content"]:
            yield f"messages.{number}", "all messages must have non-empty content"
    for block in _blocks(body.get("system")):
        if not str(block.get("text", "")).strip():
            yield "system", "text content blocks must be non-empty"


def _thinking_problems(body: dict[str, Any]) -> Iterator[Problem]:
    thinking = _object(body.get("thinking"))
    if not thinking:
        return
    kind = thinking.get("type")
    if kind not in THINKING_TYPES:
        yield "thinking.type", f"Input tag '{kind}' does not match any of the expected tags"
    for name in thinking.keys() - {"type", "budget_tokens", "display"}:
        yield f"thinking.{kind}.{name}", "Extra inputs are not permitted"
    budget = thinking.get("budget_tokens")
    if kind != "enabled":
        if budget is not None:
            yield f"thinking.{kind}.budget_tokens", "Extra inputs are not permitted"
    elif not isinstance(budget, int) or budget < MIN_BUDGET:
        yield "thinking.enabled.budget_tokens", f"Input should be greater than or equal to {MIN_BUDGET}"
    elif budget >= body.get("max_tokens", 0):
        yield "max_tokens", "must be greater than `thinking.budget_tokens`"
    if kind in {"enabled", "adaptive"} and body.get("temperature", 1) != 1:
        yield "temperature", "may only be set to 1 when thinking is enabled"


def _tool_problems(tools: list[dict[str, Any]]) -> Iterator[Problem]:
    names = [str(tool.get("name")) for tool in tools]
    for index, tool in enumerate(tools):
        if not re.fullmatch(TOOL_NAME, names[index]):
            yield f"tools.{index}.custom.name", f"String should match pattern '^{TOOL_NAME}$'"
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or cast("Block", schema).get("type") != "object":
            yield f"tools.{index}.custom.input_schema.type", "Field required"
        elif {"oneOf", "allOf", "anyOf"} & cast("Block", schema).keys():
            field = f"tools.{index}.custom.input_schema"
            yield field, "input_schema does not support oneOf, allOf, or anyOf at the top level"
    if len(set(names)) < len(names):
        yield "tools", "Tool names must be unique."


def _cache_problems(body: dict[str, Any]) -> Iterator[Problem]:
    blocks = [*_blocks(body.get("system")), *_blocks(body.get("tools")), body]
    for message in body["messages"]:
        blocks += _blocks(message["content"])
    marked = [block for block in blocks if block.get("cache_control")]
    if len(marked) > MAX_MARKS:
        reason = f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(marked)}."
        yield "cache_control", reason
    for block in marked:
        if block.get("type") in THINKING:
            yield "messages", "cache_control cannot be set for thinking blocks"
        if _object(block["cache_control"]).get("type") != "ephemeral":
            yield "cache_control.type", "Input should be 'ephemeral'"


def _block_problems(turns: list[Turn], sign: Callable[[str], str]) -> Iterator[Problem]:
    for number, (role, blocks) in enumerate(turns):
        if role not in BLOCKS:
            yield f"messages.{number}.role", "Input should be 'user' or 'assistant'"
            continue
        for index, block in enumerate(blocks):
            field = f"messages.{number}.content.{index}"
            kind = block.get("type")
            if kind not in BLOCKS[role]:
                yield f"{field}.type", f"Input tag '{kind}' does not match any of the expected tags"
            elif reason := _block_problem(block, sign):
                yield field, reason


def _block_problem(block: Block, sign: Callable[[str], str]) -> str | None:
    match block["type"]:
        case "text" if not block.get("text"):
            return "text content blocks must be non-empty"
        case "text" if not block["text"].strip():
            return "text content blocks must contain non-whitespace text"
        case "thinking" if "signature" not in block:
            return "thinking.signature: Field required"
        case "thinking" if block["signature"] != sign(block.get("thinking", "")):
            return "Invalid `signature` in `thinking` block"
        case "redacted_thinking" if not block.get("data"):
            return "redacted_thinking.data: Field required"
        case "tool_use" if not re.fullmatch(CALL_ID, block.get("id", "")):
            return f"tool_use.id: String should match pattern '^{CALL_ID}$'"
        case "tool_use" if not re.fullmatch(TOOL_NAME, block.get("name", "")):
            return f"tool_use.name: String should match pattern '^{TOOL_NAME}$'"
        case "tool_use" if not isinstance(block.get("input"), dict):
            return "tool_use.input: Input should be a valid dictionary"
        case "tool_result":
            parts = _blocks(block.get("content"))
            if block.get("is_error") and not parts:
                return "tool_result: content cannot be empty if `is_error` is true"
            reasons = (_block_problem(part, sign) for part in parts)
            return next((f"tool_result.{reason}" for reason in reasons if reason), None)
        case "image" if block.get("source", {}).get("media_type") not in IMAGE_TYPES:
            return f"image.source.media_type: Input should be one of {', '.join(sorted(IMAGE_TYPES))}"
        case _:
            return None


def _pairing_problems(turns: list[Turn]) -> Iterator[Problem]:
    """Each call needs one result, at the start of the next message."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for number, (role, blocks) in enumerate(turns):
        results = [str(block["tool_use_id"]) for block in blocks if block["type"] == "tool_result"]
        field = f"messages.{number}"
        if role == "user":
            if missing := [call for call in open_calls if call not in results]:
                yield f"messages.{number - 1}", LACKS_RESULTS.format(", ".join(missing))
            if any(block["type"] == "tool_result" for block in blocks[len(results) :]):
                yield field, "`tool_result` blocks must come first in the content"
        for result in results:
            if result not in open_calls:
                yield field, LACKS_CALL.format(result)
        if len(set(results)) < len(results):
            yield field, "each tool_use must have a single result"
        open_calls = [str(block["id"]) for block in blocks if block["type"] == "tool_use"]
        for call in open_calls:
            if call in seen:
                yield field, "`tool_use` ids must be unique"
            seen.add(call)
    if open_calls:
        yield "messages", LACKS_RESULTS.format(", ".join(open_calls))


def _order_problems(body: dict[str, Any], turns: list[Turn]) -> Iterator[Problem]:
    if turns[0][0] != "user":
        yield "messages", 'first message must use the "user" role'
    for number, (role, blocks) in enumerate(turns):
        if role == "assistant" and blocks and blocks[-1]["type"] in THINKING:
            yield f"messages.{number}", "The final block in an assistant message cannot be `thinking`."
    role, blocks = turns[-1]
    if role == "assistant" and blocks:
        text = str(blocks[-1].get("text", ""))
        if text != text.rstrip():
            yield "messages", "final assistant content cannot end with trailing whitespace"
    if _object(body.get("thinking")).get("type") == "enabled" and (first := _first_of_chain(turns)):
        number, kind = first
        if kind not in THINKING:
            yield f"messages.{number}.content.0.type", LACKS_THOUGHT.format(kind)


def _first_of_chain(turns: list[Turn]) -> tuple[int, str] | None:
    """The number of the message that began the last chain of calls and results, and the type of its first block."""
    first = None
    for number in range(len(turns) - 1, 0, -1):
        role, blocks = turns[number]
        if role != "user":
            continue
        if not any(block["type"] == "tool_result" for block in blocks):
            break
        if first is not None and any(block["type"] != "tool_result" for block in blocks):
            break  # the user spoke here: a new turn
        first = number - 1
    return None if first is None else (first, turns[first][1][0]["type"])
