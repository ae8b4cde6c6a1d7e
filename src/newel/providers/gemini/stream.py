"""Accumulates the chunks of a Gemini response into deltas, and finally into a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from newel.agent.errors import BadResponse, GarbledAnswer, RequestRejected, ServerFailed, as_sentence
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, StopReason, TextContent, ThinkingContent, ToolCall, Usage
from newel.agent.ports import ToolSpec
from newel.providers.errors import quote
from newel.providers.gemini.encoder import REASONING
from newel.providers.parsing.tool_calls import MAX_CALLS, ToolIndex, fresh_id, limit_run
from newel.providers.signatures import name_signature
from newel.text.json import as_count, as_dict, as_list, as_str, to_json

STOP = "STOP"
LENGTHS = ("MAX_TOKENS", "CONTINUATION")
BROKEN = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
"""Finish reasons of an answer that the model garbled; another attempt usually succeeds."""

UNSIGNED = "MISSING_THOUGHT_SIGNATURE"
UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
BLOCKED = {
    "SAFETY": "its safety filter cut the answer off",
    "RECITATION": "the answer would have recited its training data",
    "PROHIBITED_CONTENT": "the answer may have been prohibited content",
    "BLOCKLIST": "the answer contained a blocked term",
    "SPII": "the answer may have contained personal data",
    "LANGUAGE": "the language is not supported",
}


class _TextPart:
    """Text of one kind as it grows. A signature of text without one becomes a part of its own."""

    def __init__(self, *, thought: bool) -> None:
        self.thought = thought
        self.pieces: list[str] = []
        self.signature = ""

    def content(self) -> list[TextContent | ThinkingContent]:
        text, signature = "".join(self.pieces), self.signature or None
        if self.thought:
            return [ThinkingContent(text, field=REASONING, signature=signature)]
        texts: list[TextContent | ThinkingContent] = [TextContent(text)] if text else []
        return [*texts, ThinkingContent("", field=REASONING, signature=signature)] if signature else texts


class _CallPart(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: object
    signature: str | None


class GeminiAccumulator:
    """Feed it chunks, pass on the deltas, then get the message. ``tools`` are the offered ones."""

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._tools = ToolIndex(tools)
        self._parts: list[_TextPart | _CallPart] = []
        self._ids: set[str] = set()
        self._calls = 0
        self._usage = Usage()
        self._finish = ""
        self._error = ""
        self.started = False

    @property
    def finished(self) -> bool:
        return bool(self._finish)

    def feed(self, fields: dict[str, Any], /) -> list[Delta]:
        """Accumulate one chunk. Raises ``ProviderError`` if the model garbled the answer."""
        if usage := as_dict(fields.get("usageMetadata")):
            self._usage = read_usage(usage)
        candidates = as_list(fields.get("candidates"))
        candidate = as_dict(candidates[0]) if candidates else {}
        feedback = as_dict(fields.get("promptFeedback"))
        self.started = self.started or bool(candidates or feedback or usage)
        deltas: list[Delta] = []
        for part in as_list(as_dict(candidate.get("content")).get("parts")):
            deltas += self._feed_part(as_dict(part))
        if reason := as_str(feedback.get("blockReason")):
            self._finish = self._finish or reason
            detail = as_str(feedback.get("blockReasonMessage"))
            self._error = f"Gemini blocked the prompt ({reason}). {_quoted(detail)}".rstrip()
        if reason := as_str(candidate.get("finishReason")):
            self._set_finish(reason, as_str(candidate.get("finishMessage")))
        return deltas

    def on_done(self) -> None:
        self._finish = self._finish or STOP

    def close(self) -> list[Delta]:
        return []

    def message(self, *, model: str, provider: str) -> AssistantMessage:
        """Return the message. Raises ``ServerFailed``, to be retried, for an answer without text and calls."""
        if not self.started:
            raise BadResponse("The server sent an empty response.")
        is_empty = not any(
            isinstance(part, _CallPart) or (not part.thought and any(part.pieces)) for part in self._parts
        )
        if is_empty and self._finish == STOP:
            raise ServerFailed("Gemini sent an answer without text and calls.")
        calls = iter(self._finished_calls())
        content: list[TextContent | ThinkingContent | ToolCall] = []
        for part in self._parts:
            if isinstance(part, _CallPart):
                content.append(next(calls))
            else:
                content += part.content()
        return AssistantMessage(
            content=content,
            model=model,
            provider=provider,
            usage=self._usage,
            stop_reason=self._stop_reason(),
            error_message=self._error or None,
        )

    def _finished_calls(self) -> list[ToolCall]:
        calls: list[ToolCall] = []
        for part in self._parts:
            if isinstance(part, _CallPart):
                cut = self._finish in LENGTHS and part is self._parts[-1]
                call = self._tools.call(part.id, part.name, part.arguments, cut=cut)
                calls.append(
                    msgspec.structs.replace(call, signature=name_signature(REASONING, part.signature or ""))
                )
        return limit_run(calls)

    def _stop_reason(self) -> StopReason:
        if self._error:
            return "error"
        if self._finish in LENGTHS:
            return "length"
        return "toolUse" if self._calls else "stop"

    def _set_finish(self, reason: str, message: str) -> None:
        if self._finish or reason == UNSPECIFIED:
            return
        detail = _quoted(message)
        if reason in BROKEN:
            raise GarbledAnswer(f"Gemini garbled its answer ({reason}). {detail}".rstrip())
        if reason == UNSIGNED:
            raise RequestRejected(
                f"Gemini did not get back a thought signature that it had sent. {detail}".rstrip(), status=400
            )
        self._finish = reason
        if reason != STOP and reason not in LENGTHS:
            cause = BLOCKED.get(reason, "it gave no other reason")
            self._error = f"Gemini stopped ({reason}): {cause}. {detail}".rstrip()

    def _feed_part(self, part: dict[str, Any]) -> list[Delta]:
        signature = as_str(part.get("thoughtSignature"))
        if call := part.get("functionCall"):
            return [self._add_call(as_dict(call), signature)]
        text = as_str(part.get("text"))
        if not text and not signature:
            return []
        thought = part.get("thought") is True
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _TextPart) or last.thought != thought or last.signature:
            last = _TextPart(thought=thought)
            self._parts.append(last)
        last.pieces.append(text)
        last.signature = signature
        if not text:
            return []
        return [ThinkingDelta(text) if thought else TextDelta(text)]

    def _add_call(self, call: dict[str, Any], signature: str) -> ToolCallDelta:
        if self._calls >= MAX_CALLS:
            raise BadResponse(f"The server sent more than {MAX_CALLS:,} tool calls in one message; refused.")
        call_id = as_str(call.get("id"))
        if not call_id or call_id in self._ids:
            call_id = fresh_id()
        self._ids.add(call_id)
        name, arguments = as_str(call.get("name")), call.get("args")
        self._parts.append(_CallPart(call_id, name, arguments, signature or None))
        self._calls += 1
        delta = arguments if isinstance(arguments, str) else to_json(arguments or {}).decode()
        return ToolCallDelta(index=self._calls - 1, name=name, delta=delta)


def _quoted(message: str) -> str:
    return as_sentence(quote(message, ""))


def read_usage(usage: dict[str, Any]) -> Usage:
    """Return the server's token counts; missing ones are 0."""
    return Usage(
        input=as_count(usage.get("promptTokenCount")),
        output=as_count(usage.get("candidatesTokenCount")) + as_count(usage.get("thoughtsTokenCount")),
        cache_read=as_count(usage.get("cachedContentTokenCount")),
    )
