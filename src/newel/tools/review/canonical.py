"""A call and its result in the form that traces and clients get, whatever the model's protocol."""

from __future__ import annotations

from typing import Any

import msgspec

from newel.agent.messages import ToolCall, ToolResultMessage


class CanonicalCall(msgspec.Struct, frozen=True, kw_only=True):
    tool_call_id: str
    name: str
    arguments: dict[str, Any]


class CanonicalResult(msgspec.Struct, frozen=True, kw_only=True):
    """``result`` is the tool's JSON object, or ``{"output": …}`` for a plain-text answer; ``error`` is the message of a failed call. One
    of them is None.
    """

    tool_call_id: str
    name: str
    ok: bool
    result: dict[str, Any] | None
    error: str | None


def canonical_call(call: ToolCall) -> CanonicalCall:
    return CanonicalCall(tool_call_id=call.id, name=call.name, arguments=call.arguments)


def canonical_result(message: ToolResultMessage) -> CanonicalResult:
    failed = message.is_error
    return CanonicalResult(
        tool_call_id=message.tool_call_id,
        name=message.tool_name,
        ok=not failed,
        result=None if failed else _object(message.output),
        error=message.output if failed else None,
    )


def _object(output: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(output, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError):  # plain text, perhaps with half of a surrogate pair
        return {"output": output}
