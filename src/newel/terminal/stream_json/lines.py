"""The lines of ``--output-format stream-json``: Newel's messages and results in the shapes that scripts for Claude Code read.

``docs/stream-json.md`` lists every field, and where its meaning differs.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from newel.agent.events import Retry
from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.terminal.run_result import PromptResult, SessionStarted

Line = dict[str, Any]

_MODES: Final = {
    "auto": "bypassPermissions",
    "ask": "default",
    "review": "acceptEdits",
    "plan": "plan",
    "read-only": "plan",
}
_SERVER_STATES: Final = {"active": "connected", "broken": "failed", "starting": "pending"}
_STOP_REASONS: Final = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}
_SUBTYPES: Final = {"max_turns": "error_max_turns", "max_cost": "error_max_budget_usd"}


def init_line(session: SessionStarted, *, key_source: str) -> Line:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": session.cwd,
        "session_id": session.session_id,
        "tools": session.tools,
        "mcp_servers": [
            {"name": server.name, "status": _SERVER_STATES.get(server.state, "disabled")}
            for server in session.mcp_servers
        ],
        "model": session.model,
        "permissionMode": _MODES.get(session.approve, "default"),
        "slash_commands": session.commands,
        "apiKeySource": key_source,
        "output_style": "default",
        "agents": [],
        "skills": [],
        "plugins": [],
        "newel_version": session.version,
    }


def assistant_lines(message: AssistantMessage, parent: str | None) -> list[Line]:
    """One line for each content block; they share the message's id and usage. ``parent`` is the call whose subagent sends it."""
    return [
        {
            "type": "assistant",
            "message": message_object(message, [_block(part)]),
            "parent_tool_use_id": parent,
        }
        for part in message.content
    ]


def message_object(message: AssistantMessage, content: list[Line]) -> Line:
    """Anthropic's message object with this content."""
    return {
        "id": message_id(message.id),
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": content,
        "stop_reason": stop_reason(message.stop_reason),
        "stop_sequence": None,
        "usage": usage_object(message.usage),
    }


def message_id(newels: str) -> str:
    return f"msg_{newels}"


def stop_reason(newels: str | None) -> str | None:
    return _STOP_REASONS.get(newels or "")


def usage_object(usage: Usage) -> Line:
    """Anthropic counts cached tokens beside ``input_tokens``, Newel as a part of the input."""
    return {
        "input_tokens": max(usage.input - usage.cache_read - usage.cache_write, 0),
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }


def _block(part: TextContent | ThinkingContent | ToolCall) -> Line:
    match part:
        case TextContent():
            return {"type": "text", "text": part.text}
        case ThinkingContent():
            return {"type": "thinking", "thinking": part.thinking, "signature": part.signature or ""}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}


def tool_result_line(message: ToolResultMessage, parent: str | None) -> Line:
    content: str | list[Line] = message.output
    if message.images:
        content = [{"type": "text", "text": message.output}, *map(_image_block, message.images)]
    block = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": content,
        "is_error": message.is_error,
    }
    line: Line = {
        "type": "user",
        "message": {"role": "user", "content": [block]},
        "parent_tool_use_id": parent,
    }
    return line | {"tool_use_result": message.details} if message.details else line


def prompt_line(message: UserMessage, parent: str | None) -> Line:
    """A message to the model that is not the program's."""
    return {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": message.text}]},
        "parent_tool_use_id": parent,
    }


def inserted_line(message: UserMessage) -> Line:
    """A message that Newel itself put into the conversation."""
    return prompt_line(message, None) | {"isSynthetic": True}


def _image_block(image: ImageContent) -> Line:
    source = {"type": "base64", "media_type": image.mime_type, "data": image.data}
    return {"type": "image", "source": source}


def retry_line(event: Retry) -> Line:
    return {
        "type": "system",
        "subtype": "api_retry",
        "attempt": event.attempt,
        "max_retries": event.max_attempts,
        "retry_delay_ms": round(event.delay * 1000),
        "error_status": None,
        "error": event.reason,
    }


def compact_line(tokens: int) -> Line:
    """``tokens`` is the size of the conversation before."""
    metadata = {"trigger": "auto", "pre_tokens": tokens}
    return {"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata}


def notice_line(code: str, message: str, *, is_error: bool) -> Line:
    return {
        "type": "system",
        "subtype": "error" if is_error else "notice",
        "code": code,
        "message": message,
    }


def result_line(result: PromptResult) -> Line:
    failed = result.exit_code != 0
    subtype = "success"
    if failed:
        subtype = _SUBTYPES.get(result.reason, "error_during_execution")
    if result.schema_error:
        subtype = "error_max_structured_output_retries"
    line: Line = {
        "type": "result",
        "subtype": subtype,
        "is_error": failed,
        "duration_ms": result.duration,
        "duration_api_ms": result.model_duration,
        "num_turns": result.turns,
        "stop_reason": stop_reason(result.stop_reason),
        "total_cost_usd": result.cost,
        "usage": usage_object(result.usage),
        "modelUsage": {
            name: {
                "inputTokens": max(use.usage.input - use.usage.cache_read - use.usage.cache_write, 0),
                "outputTokens": use.usage.output,
                "cacheReadInputTokens": use.usage.cache_read,
                "cacheCreationInputTokens": use.usage.cache_write,
                "webSearchRequests": 0,
                "costUSD": use.cost,
                "contextWindow": use.window,
                "maxOutputTokens": use.max_output,
            }
            for name, use in result.models.items()
        },
        "permission_denials": [
            {"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.arguments}
            for call in result.denied
        ],
    }
    if result.text or not failed:
        line["result"] = result.text
    if failed:
        line["errors"] = [result.message or "Stopped."]
    if result.structured_output is not UNSET:
        line["structured_output"] = msgspec.to_builtins(result.structured_output)
    return line
