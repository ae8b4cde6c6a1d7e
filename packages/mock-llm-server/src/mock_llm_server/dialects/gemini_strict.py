"""The requests that the Gemini API refuses: unknown fields, thinking that a model lacks, unpaired calls, lost signatures."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from mock_llm_server.conversation import Problem


class Signatures(msgspec.Struct, frozen=True):
    """The signatures that the server gives: of a call by name and arguments, of an answer by its text."""

    of_call: Callable[[str, Any], str]
    of_text: Callable[[str], str]


_SKIP_TEXTS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_SKIP_VALUES = {
    *_SKIP_TEXTS,
    *(base64.b64encode(text.encode()).decode() for text in _SKIP_TEXTS),
}
"""The documented signatures for calls of other models."""

_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_OLD = re.compile(r"gemini-(?:1|2)\b|gemma")
"""Models before Gemini 3: they require no signatures and know no thinking levels."""
_LEVELS = {"MINIMAL", "LOW", "MEDIUM", "HIGH"}

_ANY = ""
_FIELDS: dict[str, dict[str, str]] = {
    "request": {
        "model": _ANY,
        "contents": "content[]",
        "systemInstruction": "content",
        "tools": "tool[]",
        "toolConfig": "toolConfig",
        "generationConfig": "generationConfig",
        "safetySettings": _ANY,
        "cachedContent": _ANY,
    },
    "content": {"role": _ANY, "parts": "part[]"},
    "part": {
        "functionCall": "functionCall",
        "functionResponse": "functionResponse",
        "inlineData": "blob",
        **dict.fromkeys(("text", "thought", "thoughtSignature", "partMetadata"), _ANY),
        **dict.fromkeys(("fileData", "executableCode", "codeExecutionResult"), _ANY),
        **dict.fromkeys(("videoMetadata", "mediaResolution", "toolCall", "toolResponse"), _ANY),
    },
    "blob": {"mimeType": _ANY, "data": _ANY},
    "functionCall": {"id": _ANY, "name": _ANY, "args": _ANY},
    "functionResponse": {
        "parts": "responsePart[]",
        **dict.fromkeys(("id", "name", "response", "willContinue", "scheduling"), _ANY),
    },
    "responsePart": {"inlineData": "blob"},
    "tool": {
        "functionDeclarations": "functionDeclaration[]",
        **dict.fromkeys(("googleSearch", "codeExecution", "urlContext", "fileSearch", "googleMaps"), _ANY),
    },
    "functionDeclaration": {
        "parameters": "schema",
        "response": "schema",
        **dict.fromkeys(
            ("name", "description", "behavior", "parametersJsonSchema", "responseJsonSchema"), _ANY
        ),
    },
    "schema": {
        "properties": "schema{}",
        "items": "schema",
        "anyOf": "schema[]",
        **dict.fromkeys(("type", "format", "title", "description", "nullable", "enum", "required"), _ANY),
        **dict.fromkeys(("default", "example", "pattern", "propertyOrdering", "minimum", "maximum"), _ANY),
        **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), _ANY),
        **dict.fromkeys(("minProperties", "maxProperties"), _ANY),
    },
    "toolConfig": {"functionCallingConfig": "functionCallingConfig", "retrievalConfig": _ANY},
    "functionCallingConfig": {"mode": _ANY, "allowedFunctionNames": _ANY},
    "generationConfig": {
        "thinkingConfig": "thinkingConfig",
        **dict.fromkeys(("maxOutputTokens", "temperature", "topP", "topK", "seed", "candidateCount"), _ANY),
        **dict.fromkeys(("stopSequences", "presencePenalty", "frequencyPenalty"), _ANY),
        **dict.fromkeys(("responseMimeType", "responseSchema", "responseJsonSchema"), _ANY),
        **dict.fromkeys(("responseLogprobs", "logprobs", "responseModalities", "mediaResolution"), _ANY),
        **dict.fromkeys(("speechConfig", "imageConfig", "enableEnhancedCivicAnswers"), _ANY),
    },
    "thinkingConfig": {"includeThoughts": _ANY, "thinkingBudget": _ANY, "thinkingLevel": _ANY},
}
"""The fields of each type of message, with their types."""


def request_problem(body: dict[str, Any], model: str, signatures: Signatures) -> Problem | None:
    """Why the API would refuse a request to a model; None if it is valid."""
    contents = _joined([as_fields(content) for content in as_items(body.get("contents"))])
    return (
        _unknown_name(body, "request", "")
        or _thinking_problem(body, model)
        or _tools_problem(body)
        or _history_problem(contents)
        or _signature_problem(contents, signatures, required=_OLD.match(model) is None)
    )


def _unknown_name(value: Any, kind: str, path: str) -> Problem | None:
    """The first field that its type of message does not have."""
    if kind.endswith("[]"):
        return _first(
            _unknown_name(each, kind[:-2], f"{path}[{i}]") for i, each in enumerate(as_items(value))
        )
    if kind.endswith("{}"):
        values = as_fields(value).values()
        return _first(_unknown_name(each, kind[:-2], f"{path}[{i}].value") for i, each in enumerate(values))
    known = _FIELDS[kind]
    for name, inner in as_fields(value).items():
        field = _camel_case(name)
        if field not in known:
            where = f" at '{path}'" if path else ""
            return (
                path,
                f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.',
            )
        snake_case = re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name)
        place = f"{path}.{snake_case}" if path else snake_case
        if known[field] and (problem := _unknown_name(inner, known[field], place)):
            return problem
    return None


def thinking_config(body: dict[str, Any]) -> dict[str, Any]:
    """The request's thinking config, with field names in camel case: the API takes both spellings, and clients mix them."""
    config = as_fields(as_fields(body.get("generationConfig")).get("thinkingConfig"))
    return {_camel_case(name): value for name, value in config.items()}


def _camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _thinking_problem(body: dict[str, Any], model: str) -> Problem | None:
    config = thinking_config(body)
    where = "generation_config.thinking_config"
    level, budget = config.get("thinkingLevel"), config.get("thinkingBudget")
    if level is not None and budget is not None:
        return where, "You can only set only one of thinking budget and thinking level."
    if config and re.match(r"gemini-(?:1|2\.0)|gemma", model):
        return where, "Thinking is not enabled for this model."
    if level is not None and _OLD.match(model):
        return where, "Thinking level is not supported for this model."
    coarse = model.startswith("gemini-3-pro") and level not in {None, "LOW", "HIGH"}
    if level is not None and (coarse or level not in _LEVELS):
        return where, f"Thinking level {level} is not supported for this model."
    if budget == 0 and model.startswith("gemini-2.5-pro"):
        return where, "Budget 0 is invalid. This model only works in thinking mode."
    return None


def _tools_problem(body: dict[str, Any]) -> Problem | None:
    names: Counter[str] = Counter()
    for i, tool in enumerate(as_items(body.get("tools"))):
        for j, declaration in enumerate(as_items(as_fields(tool).get("functionDeclarations"))):
            where = f"tools[{i}].function_declarations[{j}]"
            fields = as_fields(declaration)
            name = str(fields.get("name") or "")
            if not _FUNCTION_NAME.fullmatch(name):
                return f"{where}.name", f"[FieldNameInvalid] Invalid function name: {name}."
            names[name] += 1
            if names[name] > 1:
                return where, f"Duplicate function declaration found: {name}"
            if "parameters" in fields and "parametersJsonSchema" in fields:
                return where, "parameters_json_schema must not be set when parameters is set."
    return None


def _history_problem(contents: list[dict[str, Any]]) -> Problem | None:
    """Roles, empty contents, and calls without exactly one result each in the content that follows."""
    calls: list[dict[str, Any]] = []
    previous = ""
    for i, content in enumerate(contents):
        where = f"contents[{i}]"
        role = content.get("role") or "user"
        if role not in ("user", "model"):
            return f"{where}.role", "Please use a valid role: user, model."
        if not as_items(content.get("parts")):
            return f"{where}.parts", "contents.parts must not be empty."
        results = _parts(content, "functionResponse")
        made = _parts(content, "functionCall")
        if not previous and role == "model":
            return where, "Please ensure that multiturn requests begin with a user turn."
        if results and not calls:
            return where, (
                "Please ensure that function response turn comes immediately after a function call turn."
            )
        if not _is_paired(calls, results):
            return where, (
                "Please ensure that the number of function response parts is equal to the number of function "
                "call parts of the function call turn."
            )
        calls, previous = made, role
    if calls:
        return (
            "contents",
            "Please ensure that the function call turn is followed by a function response turn.",
        )
    return None


def _joined(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The contents, with neighbours of the model as one: clients send back each piece of a stream on its own."""
    joined: list[dict[str, Any]] = []
    for content in contents:
        if joined and content.get("role") == joined[-1].get("role") == "model":
            parts = as_items(joined[-1].get("parts")) + as_items(content.get("parts"))
            joined[-1] = {"role": "model", "parts": parts}
        else:
            joined.append(content)
    return joined


def _is_paired(calls: list[dict[str, Any]], results: list[dict[str, Any]]) -> bool:
    """Whether each call has one result with its name, and with its id if it has one."""
    asked = Counter((str(call.get("id") or ""), call.get("name")) for call in calls)
    return asked == Counter((str(result.get("id") or ""), result.get("name")) for result in results)


def _signature_problem(
    contents: list[dict[str, Any]], signatures: Signatures, *, required: bool
) -> Problem | None:
    """Changed signatures, and steps of the current turn whose first call lacks its own."""
    turns = [i for i, content in enumerate(contents) if _is_question(content)]
    for i, content in enumerate(contents):
        parts = [as_fields(part) for part in as_items(content.get("parts"))]
        text = "".join(str(part.get("text") or "") for part in parts if not part.get("thought"))
        calls = 0
        for j, part in enumerate(parts):
            given = part.get("thoughtSignature")
            call = as_fields(part.get("functionCall"))
            expected = (
                signatures.of_call(str(call.get("name")), call.get("args") or {})
                if call
                else signatures.of_text(text)
            )
            if given is not None and _standard(given) not in {expected, *map(_standard, _SKIP_VALUES)}:
                return f"contents[{i}].parts[{j}]", "Corrupted thought signature."
            calls += bool(call)
            is_current = not turns or i > turns[-1]
            if required and is_current and call and calls == 1 and given is None:
                return f"contents[{i}].parts[{j}]", (
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools "
                    f"to work correctly. Additional data, function call `{call.get('name')}`, position {j + 1}."
                )
    return None


def _standard(signature: Any) -> str:
    """A signature in the standard alphabet of base64: the API takes the one for URLs, too."""
    return str(signature).replace("-", "+").replace("_", "/")


def _is_question(content: dict[str, Any]) -> bool:
    """Whether a content begins a turn: it is the user's, and no result of a call."""
    return content.get("role") != "model" and not _parts(content, "functionResponse")


def _parts(content: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    parts = [as_fields(part) for part in as_items(content.get("parts"))]
    return [as_fields(part[kind]) for part in parts if kind in part]


def as_fields(value: Any) -> dict[str, Any]:
    """A value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_items(value: Any) -> list[Any]:
    """A value if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _first(problems: Iterator[Problem | None]) -> Problem | None:
    return next((problem for problem in problems if problem), None)
