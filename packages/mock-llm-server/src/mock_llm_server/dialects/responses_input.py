"""Requests of the Responses API: reading them, and what a strict endpoint refuses in them, in OpenAI's words."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import field

from mock_llm_server.conversation import ChatRequest, Message, Part, Problem, ToolCallRef

JsonObject = dict[str, Any]

ENCRYPTED = "reasoning.encrypted_content"
_SEAL = "mock:"
PART_SEPARATOR = "\n\n"
"""Separates the parts of a summary in scripted reasoning."""

_PARAMETERS = frozenset(
    [
        "background",
        "background_options",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)
_INCLUDES = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    ENCRYPTED,
    "message.output_text.logprobs",
)
_REASONING: dict[str, tuple[str, ...]] = {
    "effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "summary": ("auto", "concise", "detailed"),
    "generate_summary": ("auto", "concise", "detailed"),
}
_ITEMS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "message": (("role", "content"), frozenset({"type", "role", "content", "id", "status", "phase"})),
    "reasoning": (("id", "summary"), frozenset({"type", "id", "summary", "content", "encrypted_content"})),
    "function_call": (
        ("call_id", "name", "arguments"),
        frozenset({"type", "id", "call_id", "name", "arguments", "status"}),
    ),
    "function_call_output": (("call_id", "output"), frozenset({"type", "id", "call_id", "output", "status"})),
}
"""The required fields of each type of item, and all of them."""

_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_ROLES = ("assistant", "system", "developer", "user")
_INPUT_PARTS = {"input_text": "text", "input_image": "image_url", "input_file": "file_data"}
_OUTPUT_PARTS = {"output_text": "text", "refusal": "refusal"}
_TOOL_FIELDS = frozenset({"type", "name", "description", "parameters", "strict"})
_NAME = r"^[a-zA-Z0-9_-]+$"
_MAX_ID = 64
_MIN_OUTPUT = 16


def as_object(value: Any) -> JsonObject:
    """``value`` if it is an object, else an empty one."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[JsonObject]:
    """The objects of ``value`` if it is an array, else none."""
    return [as_object(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


class ResponsesRequest(ChatRequest):
    """A request as a conversation, and its body."""

    body: JsonObject = field(default_factory=dict[str, Any])


def read_request(data: bytes) -> ResponsesRequest:
    """Read a body. Raises ``msgspec.DecodeError`` if it has no ``input`` of the right type."""
    body = msgspec.json.decode(data, type=dict[str, Any])
    given = msgspec.convert(body.get("input"), str | list[dict[str, Any]])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [_message(item) for item in items]
    if messages and (instructions := body.get("instructions")):
        messages.insert(0, Message("system", msgspec.convert(instructions, str)))
    return ResponsesRequest(
        messages=messages,
        model=msgspec.convert(body.get("model", "mock-model"), str),
        stream=msgspec.convert(body.get("stream"), bool | None),
        body=body,
    )


def _message(item: JsonObject) -> Message:
    match item_type(item):
        case "message":
            return Message(str(item.get("role")), _content(item.get("content")))
        case "function_call":
            return Message("assistant", tool_calls=[ToolCallRef(str(item.get("call_id")))])
        case "function_call_output":
            return Message("tool", _content(item.get("output")), tool_call_id=str(item.get("call_id")))
        case kind:
            return Message(kind)  # no part of the conversation that scenarios match


def _content(value: Any) -> str | list[Part]:
    if not isinstance(value, list):
        return str(value or "")
    parts = msgspec.convert(value, list[dict[str, Any]])
    return [Part(part.get("text") or part.get("refusal")) for part in parts]


def item_type(item: JsonObject) -> str:
    """The type of an item; a message may omit it."""
    return str(item.get("type") or "message")


# -- reasoning ------------------------------------------------------------------------------------


def reasoning_id(text: str) -> str:
    """The id of a reasoning item: the same for the same text, so that an altered item is recognized without state."""
    return f"rs_{hashlib.sha256(text.encode()).hexdigest()[:48]}"


def encrypt(text: str) -> str:
    """An opaque form of reasoning, never empty, from which its id follows."""
    return b64encode(f"{_SEAL}{text}".encode()).decode()


def _decrypt(content: str) -> str | None:
    try:
        sealed = b64decode(content, validate=True).decode()
    except ValueError:
        return None
    return sealed.removeprefix(_SEAL) if sealed.startswith(_SEAL) else None


# -- what a strict endpoint refuses ---------------------------------------------------------------


def request_problem(body: JsonObject) -> Problem | None:
    """The first reason why a strict endpoint would refuse a request; None if it is valid."""
    items = as_objects(body.get("input"))
    checks: list[Callable[[], Iterator[Problem]]] = [
        lambda: _parameter_problems(body),
        lambda: _tool_problems(body),
        lambda: _item_problems(items),
        lambda: _pairing_problems(items),
        lambda: _reasoning_problems(items, stored=body.get("store") is not False),
    ]
    return next((problem for check in checks for problem in check()), None)


def _parameter_problems(body: JsonObject) -> Iterator[Problem]:
    yield from _unknown(body, _PARAMETERS, "")
    if not body.get("model"):
        yield "model", "Missing required parameter: 'model'."
    limit = body.get("max_output_tokens")
    if isinstance(limit, int) and limit < _MIN_OUTPUT:
        yield (
            "max_output_tokens",
            (
                "Invalid 'max_output_tokens': integer below minimum value. "
                f"Expected a value >= {_MIN_OUTPUT}, but got {limit} instead."
            ),
        )
    for i, value in enumerate(body.get("include") or []):
        yield from _choice(value, _INCLUDES, f"include[{i}]")
    reasoning = as_object(body.get("reasoning"))
    yield from _unknown(reasoning, frozenset(_REASONING), "reasoning.")
    for name, value in reasoning.items():
        if value is not None:
            yield from _choice(value, _REASONING[name], f"reasoning.{name}")
    yield from _too_long(body.get("prompt_cache_key"), "prompt_cache_key")


def _tool_problems(body: JsonObject) -> Iterator[Problem]:
    for i, tool in enumerate(as_objects(body.get("tools"))):
        place = f"tools[{i}]"
        yield from _missing(tool, ("type", "name"), place)
        if tool["type"] != "function":
            continue
        yield from _unknown(tool, _TOOL_FIELDS, f"{place}.")
        yield from _wrong_name(tool["name"], f"{place}.name")
        yield from _missing(tool, ("parameters",), place)


def _item_problems(items: Sequence[JsonObject]) -> Iterator[Problem]:
    for i, item in enumerate(items):
        place, kind = f"input[{i}]", item_type(item)
        yield from _choice(kind, tuple(_ITEMS), f"{place}.type")
        required, known = _ITEMS[kind]
        yield from _missing(item, required, place)
        yield from _unknown(item, known, f"{place}.")
        own_id, prefix = item.get("id"), _PREFIXES.get(kind)
        if own_id is not None and prefix and not str(own_id).startswith(prefix):
            yield (
                f"{place}.id",
                f"Invalid '{place}.id': '{own_id}'. Expected an ID that begins with '{prefix}'.",
            )
        for name in ("id", "call_id"):
            yield from _too_long(item.get(name), f"{place}.{name}")
        if kind == "message":
            yield from _choice(item["role"], _ROLES, f"{place}.role")
            parts = _OUTPUT_PARTS if item["role"] == "assistant" else _INPUT_PARTS
            yield from _content_problems(item["content"], parts, f"{place}.content")
        elif kind == "function_call":
            yield from _wrong_name(item["name"], f"{place}.name")
        elif kind == "function_call_output":
            yield from _content_problems(item["output"], _INPUT_PARTS, f"{place}.output")


def _content_problems(content: Any, parts: dict[str, str], place: str) -> Iterator[Problem]:
    if isinstance(content, str):
        return
    for i, part in enumerate(as_objects(content)):
        yield from _missing(part, ("type",), f"{place}[{i}]")
        yield from _choice(part["type"], tuple(parts), f"{place}[{i}]")
        yield from _missing(part, (parts[part["type"]],), f"{place}[{i}]")


def _pairing_problems(items: Sequence[JsonObject]) -> Iterator[Problem]:
    """Each call needs exactly one output, after it."""
    open_calls: dict[str, None] = {}
    for item in items:
        if item_type(item) == "function_call":
            open_calls[item["call_id"]] = None
        elif item_type(item) == "function_call_output":
            if item["call_id"] not in open_calls:
                yield (
                    "input",
                    f"No tool call found for function call output with call_id {item['call_id']}.",
                )
            open_calls.pop(item["call_id"], None)
    for call_id in open_calls:
        yield "input", f"No tool output found for function call {call_id}."


def _reasoning_problems(items: Sequence[JsonObject], *, stored: bool) -> Iterator[Problem]:
    for i, item in enumerate(items):
        if item_type(item) != "reasoning":
            continue
        own_id, encrypted = str(item["id"]), item.get("encrypted_content")
        text = _decrypt(str(encrypted or ""))
        if not encrypted and not stored:
            yield (
                "input",
                (
                    f"Item with id '{own_id}' not found. Items are not persisted when `store` is set to false. "
                    "Try again with `store` set to true, or remove this item from your input."
                ),
            )
        elif encrypted and (text is None or reasoning_id(text) != own_id):
            yield "input", f"The encrypted content for item {own_id} could not be verified."
        summary = PART_SEPARATOR.join(str(part.get("text")) for part in as_objects(item["summary"]))
        if summary and reasoning_id(summary) != own_id:
            yield f"input[{i}].summary", f"The summary of item {own_id} is not that of the response."
        if not _continues(items, i):
            yield (
                "input",
                f"Item '{own_id}' of type 'reasoning' was provided without its required following item.",
            )


def _continues(items: Sequence[JsonObject], at: int) -> bool:
    """Whether an item of the same answer follows."""
    if at + 1 == len(items):
        return False
    following = items[at + 1]
    kind = item_type(following)
    return kind in {"reasoning", "function_call"} or (
        kind == "message" and following.get("role") == "assistant"
    )


def _unknown(fields: JsonObject, known: frozenset[str], prefix: str) -> Iterator[Problem]:
    for name in fields:
        if name not in known:
            yield f"{prefix}{name}", f"Unknown parameter: '{prefix}{name}'."


def _missing(fields: JsonObject, required: tuple[str, ...], place: str) -> Iterator[Problem]:
    for name in required:
        if fields.get(name) is None:
            yield f"{place}.{name}", f"Missing required parameter: '{place}.{name}'."


def _choice(value: Any, choices: tuple[str, ...], place: str) -> Iterator[Problem]:
    if value not in choices:
        listed = ", ".join(f"'{choice}'" for choice in choices)
        yield place, f"Invalid value: '{value}'. Supported values are: {listed}."


def _too_long(value: Any, place: str) -> Iterator[Problem]:
    if isinstance(value, str) and len(value) > _MAX_ID:
        yield (
            place,
            (
                f"Invalid '{place}': string too long. Expected a string with maximum length {_MAX_ID}, "
                f"but got a string with length {len(value)} instead."
            ),
        )


def _wrong_name(name: str, place: str) -> Iterator[Problem]:
    if not re.search(_NAME, name):
        yield (
            place,
            f"Invalid '{place}': string does not match pattern. Expected a string that matches the pattern '{_NAME}'.",
        )
