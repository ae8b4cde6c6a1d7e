"""Accumulates the events of a response into deltas, and finally into a message.

``AnthropicAccumulator`` accepts unvalidated events of the Messages API, and whole ``message`` objects. A message is a list of blocks,
whose order is kept: the signatures of thoughts cover it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from newel.agent.errors import BadResponse
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, StopReason, TextContent, ThinkingContent, ToolCall, Usage
from newel.agent.ports import ToolSpec
from newel.providers.anthropic.compat import REDACTED_FIELD, THINKING_FIELD
from newel.providers.parsing.tool_calls import MAX_CALLS, ToolIndex, fresh_id, limit_run
from newel.text.json import as_count, as_dict, as_list, as_str, to_json

TEXT, THINKING, REDACTED, CALL = "text", "thinking", "redacted_thinking", "tool_use"
LENGTHS = {"max_tokens", "model_context_window_exceeded", "length"}
REFUSED = {"refusal", "sensitive"}
REFUSAL = "The model refused to answer."


class _ContentBlock:
    """A part of the message that is arriving."""

    def __init__(self, kind: str, fields: dict[str, Any]) -> None:
        self.kind = kind
        self.id = as_str(fields.get("id"))
        self.name = as_str(fields.get("name"))
        self.position = 0
        """Of a call among the calls."""
        self.pieces: list[str] = []
        self.signature: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class AnthropicAccumulator:
    """Feed it events, pass on the deltas, then get the message. ``tools`` are the offered ones."""

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._tools = ToolIndex(tools)
        self._blocks: list[_ContentBlock] = []
        self._by_index: dict[int, _ContentBlock] = {}
        self._ignored: set[int] = set()
        self._calls = 0
        self._usage: dict[str, int] = {}
        self._stop = ""
        self._refusal = ""
        self.started = False
        """Whether any part of a response has arrived."""

    @property
    def finished(self) -> bool:
        """Whether the server has declared the response complete."""
        return bool(self._stop)

    def feed(self, fields: dict[str, Any]) -> list[Delta]:
        """Accumulate one event, or a whole message. Raises ``BadResponse`` for too many blocks."""
        match fields.get("type"):
            case "message":
                return self._feed_message(fields)
            case "message_start":
                return self._feed_message(as_dict(fields.get("message")))
            case "content_block_start":
                return self._start_block(fields.get("index"), as_dict(fields.get("content_block")))
            case "content_block_delta":
                return self._extend_block(fields.get("index"), as_dict(fields.get("delta")))
            case "message_delta":
                self._update(as_dict(fields.get("delta")), as_dict(fields.get("usage")))
            case "message_stop":
                self._set_stop("end_turn")
            case _:
                pass  # a ping, the end of a block, or an event of the future
        return []

    def on_done(self) -> None:
        """Handle the end of a document: the response is complete, even without a stop reason."""
        self._set_stop("end_turn")

    def close(self) -> list[Delta]:
        """Return the deltas that were held back: none."""
        return []

    def message(self, *, model: str, provider: str) -> AssistantMessage:
        """Return the message. Raises ``BadResponse`` if nothing arrived."""
        if not self.started:
            raise BadResponse("The server sent an empty response.")
        calls = self._finished_calls()
        content: list[TextContent | ThinkingContent | ToolCall] = []
        for block in self._blocks:
            match block.kind:
                case "tool_use":
                    if call := calls.get(id(block)):
                        content.append(call)
                case "text":
                    if block.pieces:
                        content.append(TextContent(block.text))
                case _:
                    if block.pieces or block.signature:
                        content.append(_thought(block))
        refused = self._stop in REFUSED
        return AssistantMessage(
            content=content,
            model=model,
            provider=provider,
            usage=self._read_usage(),
            stop_reason="error" if refused else self._stop_reason(bool(calls)),
            error_message=self._refusal or REFUSAL if refused else None,
        )

    def _feed_message(self, message: dict[str, Any]) -> list[Delta]:
        self.started = True
        deltas: list[Delta] = []
        for index, block in enumerate(as_list(message.get("content"))):
            deltas += self._start_block(index, as_dict(block))
        self._update(message, as_dict(message.get("usage")))
        return deltas

    def _start_block(self, index: object, fields: dict[str, Any]) -> list[Delta]:
        """Start a block, and handle the content that it has from the start, all of it in a document."""
        self.started = True
        kind = as_str(fields.get("type"))
        if kind not in {TEXT, THINKING, REDACTED, CALL}:
            if isinstance(index, int):
                self._ignored.add(index)
            return []  # a tool that the server runs itself, or a block of the future
        if len(self._blocks) >= MAX_CALLS:
            raise BadResponse(f"The server sent more than {MAX_CALLS:,} blocks in one message; refused.")
        block = _ContentBlock(kind, fields)
        self._blocks.append(block)
        if isinstance(index, int):
            self._by_index[index] = block
        deltas: list[Delta] = []
        if kind == CALL:
            block.position = self._calls
            self._calls += 1
            deltas.append(ToolCallDelta(index=block.position, name=block.name or None))
            if arguments := fields.get("input"):
                text = arguments if isinstance(arguments, str) else to_json(arguments).decode()
                deltas += self._append(block, text)
        else:
            block.signature.append(
                as_str(fields.get("data") if kind == REDACTED else fields.get("signature"))
            )
            deltas += self._append(block, as_str(fields.get(kind)))
        return deltas

    def _extend_block(self, index: object, delta: dict[str, Any]) -> list[Delta]:
        self.started = True
        if isinstance(index, int) and index in self._ignored:
            return []
        match delta.get("type"):
            case "text_delta":
                return self._append(self._block(index, TEXT), as_str(delta.get("text")))
            case "thinking_delta":
                return self._append(self._block(index, THINKING), as_str(delta.get("thinking")))
            case "signature_delta":
                self._block(index, THINKING).signature.append(as_str(delta.get("signature")))
            case "input_json_delta":
                return self._append(self._block(index, CALL), as_str(delta.get("partial_json")))
            case _:
                pass
        return []

    def _block(self, index: object, kind: str) -> _ContentBlock:
        """Return the block that a delta extends. Some servers omit its start or its index."""
        block = self._by_index.get(index) if isinstance(index, int) else None
        if block is None and self._blocks and not isinstance(index, int):
            block = self._blocks[-1]
        if block is None or block.kind != kind:
            self._start_block(index, {"type": kind})
            block = self._blocks[-1]
        return block

    def _append(self, block: _ContentBlock, text: str) -> list[Delta]:
        if not text:
            return []
        block.pieces.append(text)
        match block.kind:
            case "text":
                return [TextDelta(text)]
            case "tool_use":
                return [ToolCallDelta(index=block.position, delta=text)]
            case _:
                return [ThinkingDelta(text)]

    def _update(self, fields: dict[str, Any], usage: dict[str, Any]) -> None:
        """Take over the stop reason, and the token counts, which are those of the message so far."""
        self._usage |= {name: count for name, value in usage.items() if (count := as_count(value))}
        if reason := as_str(fields.get("stop_reason")):
            self._refusal = as_str(as_dict(fields.get("stop_details")).get("explanation"))
            self._set_stop(reason)

    def _set_stop(self, reason: str) -> None:
        self._stop = self._stop or reason

    def _finished_calls(self) -> dict[int, ToolCall]:
        """Return the calls, by the identity of their blocks."""
        used: set[str] = set()
        calls: dict[int, ToolCall] = {}
        for block in self._blocks:
            if block.kind != CALL or not (block.name or block.pieces):
                continue
            call_id = block.id if block.id and block.id not in used else fresh_id()
            used.add(call_id)
            cut = self._stop in LENGTHS and block is self._blocks[-1]
            calls[id(block)] = self._tools.call(call_id, block.name, block.text, cut=cut)
        return dict(zip(calls, limit_run(list(calls.values())), strict=True))

    def _stop_reason(self, has_calls: bool) -> StopReason:
        if self._stop in LENGTHS:
            return "length"
        return "toolUse" if has_calls else "stop"

    def _read_usage(self) -> Usage:
        """Return the token counts. The API counts cached tokens apart from the others."""
        read = self._usage.get("cache_read_input_tokens", 0)
        written = self._usage.get("cache_creation_input_tokens", 0)
        return Usage(
            input=self._usage.get("input_tokens", 0) + read + written,
            output=self._usage.get("output_tokens", 0),
            cache_read=read,
            cache_write=written,
        )


def _thought(block: _ContentBlock) -> ThinkingContent:
    field = REDACTED_FIELD if block.kind == REDACTED else THINKING_FIELD
    return ThinkingContent(block.text, field=field, signature="".join(block.signature) or None)
