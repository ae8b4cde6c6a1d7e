"""Accumulates the chunks of a response into deltas, and finally into a message.

``ResponseAccumulator`` accepts unvalidated ``chat.completion.chunk`` objects, and whole ``chat.completion`` objects. Reasoning may
be in fields of its own, or in the text between ``<think>`` or ``<thinking>`` tags. A tag counts unless it is quoted: after a
backtick or a quotation mark, or in a fenced block. An unclosed block lasts to the end of the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from newel.agent.errors import BadResponse, ServerFailed
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, StopReason, TextContent, ThinkingContent, ToolCall, Usage
from newel.agent.ports import ToolSpec
from newel.providers.parsing.text_tool_calls import ToolCallTextFilter, find_calls
from newel.providers.parsing.tool_calls import ToolCallAssembler, ToolIndex, fresh_id, limit_run
from newel.text.json import as_count, as_dict, as_list, as_str, regex

OPENERS = ("<think>", "<thinking>")
CLOSERS = {"<think>": "</think>", "<thinking>": "</thinking>"}
QUOTES = "`\"'"
FENCE = 3
"""Backticks that open or close a fenced block."""

_TICKS = r"`+"


def held_back(text: str, marks: tuple[str, ...]) -> int:
    """Return how many characters at the end of ``text`` may be the start of one of ``marks``."""
    at = text.rfind("<")
    return len(text) - at if at >= 0 and any(mark.startswith(text[at:]) for mark in marks) else 0


class ThinkSplitter:
    """Splits text into ``(is_thinking, piece)`` pairs as it arrives; no piece is empty.

    White space around a block that opens the message belongs to neither.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._closer = ""
        self._last = ""
        self._ticks = 0
        self._in_fence = False
        self._said = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        if not self._pending and not self._closer and self._said and "<" not in text:
            self._track_quotes(text)  # the usual case, once the answer has begun
            return [(False, text)]
        self._pending += text
        pieces: list[tuple[bool, str]] = []
        while self._step(pieces):
            pass
        return pieces

    def close(self) -> list[tuple[bool, str]]:
        """Return the text that was held back because it might have become a tag."""
        pieces: list[tuple[bool, str]] = []
        self._emit(pieces, self._pending, thinking=bool(self._closer))
        self._pending = ""
        return pieces

    def _step(self, pieces: list[tuple[bool, str]]) -> bool:
        """Consume the text up to the next tag; False if none has arrived."""
        marks = (self._closer,) if self._closer else OPENERS
        positions = [(at, mark) for mark in marks if (at := self._pending.find(mark)) >= 0]
        if not positions:
            keep = len(self._pending) - held_back(self._pending, marks)
            self._emit(pieces, self._pending[:keep], thinking=bool(self._closer))
            self._pending = self._pending[keep:]
            return False
        at, mark = min(positions)
        self._emit(pieces, self._pending[:at], thinking=bool(self._closer))
        self._pending = self._pending[at + len(mark) :]
        if self._closer:
            self._closer = ""
        elif self._in_fence or (self._last and self._last in QUOTES):
            self._emit(pieces, mark, thinking=False)
        else:
            self._closer = CLOSERS[mark]
        return True

    def _emit(self, pieces: list[tuple[bool, str]], text: str, *, thinking: bool) -> None:
        if not thinking and not self._said:
            text = text.lstrip()
        if not text:
            return
        if not thinking:
            self._said = True
            self._track_quotes(text)
        pieces.append((thinking, text))

    def _track_quotes(self, text: str) -> None:
        """Remember what precedes the next tag."""
        for run in regex(_TICKS).finditer(text):
            before = self._ticks if run.start() == 0 else 0
            length = before + len(run[0])
            self._in_fence ^= before < FENCE <= length
            self._ticks = length
        if not text.endswith("`"):
            self._ticks = 0
        self._last = text[-1]


REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Fields in which servers send reasoning. Only the first with text counts, because some servers send it in two of them."""

FAILED = {"error", "insufficient_system_resource"}
"""Finish reasons that mean a failure of the server."""

LENGTH = "length"
LENGTHS = {LENGTH, "max_tokens", "max_output_tokens", "model_length"}
FILTERED = "content_filter"
TEXT = "text"


class ResponseAccumulator:
    """Feed it chunks, pass on the deltas, then get the message. ``tools`` are the offered ones."""

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._tools = ToolIndex(tools)
        self._splitter = ThinkSplitter()
        self._call_filter = ToolCallTextFilter(self._tools)
        self._assembler = ToolCallAssembler(self._tools)
        self._parts: list[tuple[str, list[str]]] = []
        self._text_calls: list[ToolCall] = []
        self._usage = Usage()
        self._finish = ""
        self.started = False
        """Whether any part of a response has arrived."""

    @property
    def finished(self) -> bool:
        """Whether the server has declared the response complete."""
        return bool(self._finish)

    def feed(self, chunk: dict[str, Any]) -> list[Delta]:
        """Accumulate one chunk. Raises ``ServerFailed`` if the server gave up on the response."""
        if usage := chunk.get("usage"):
            self._usage = read_usage(as_dict(usage))
        choices = as_list(chunk.get("choices"))
        if not choices:
            return []
        self.started = True
        choice = as_dict(choices[0])
        if as_count(choice.get("index")):
            return []
        if usage := choice.get("usage"):
            self._usage = read_usage(as_dict(usage))
        delta = as_dict(choice.get("delta"))
        if not delta and not (self._parts or self._assembler):
            delta = as_dict(choice.get("message"))
        deltas = self._feed_delta(delta) if delta else []
        if finish := as_str(choice.get("finish_reason")):
            self._set_finish(finish)
        return deltas

    def on_done(self) -> None:
        """Handle ``[DONE]``: the response is complete, even without a finish reason."""
        self._finish = self._finish or "stop"

    def close(self) -> list[Delta]:
        """Return the deltas that were held back, after the last chunk."""
        deltas: list[Delta] = []
        for thinking, text in self._splitter.close():
            self._text(deltas, text, thinking=thinking)
        held = self._call_filter.close()
        if held and not self._assembler:
            held, calls = find_calls(held, self._tools)
            for index, call in enumerate(calls):
                cut = self._finish == LENGTH and index == len(calls) - 1
                new_call = self._tools.call(
                    fresh_id(), call.name, call.arguments, repaired=call.repaired, cut=cut
                )
                self._text_calls.append(new_call)
                deltas.append(ToolCallDelta(index=index, name=new_call.name))
        if held:
            deltas.insert(0, self._append(TEXT, held))
        return deltas

    def message(self, *, model: str, provider: str) -> AssistantMessage:
        """Return the message. Raises ``BadResponse`` if nothing arrived."""
        if not self.started:
            raise BadResponse("The server sent an empty response.")
        calls = limit_run(self._text_calls or self._assembler.finish(cut=self._finish == LENGTH))
        content: list[TextContent | ThinkingContent | ToolCall] = []
        for kind, pieces in self._parts:
            text = "".join(pieces)
            content.append(TextContent(text) if kind == TEXT else ThinkingContent(text, field=kind or None))
        content += calls
        filtered = self._finish == FILTERED
        return AssistantMessage(
            content=content,
            model=model,
            provider=provider,
            usage=self._usage,
            stop_reason="error" if filtered else self._stop_reason(calls),
            error_message="The provider's content filter cut the answer off." if filtered else None,
        )

    def _stop_reason(self, calls: list[ToolCall]) -> StopReason:
        if self._finish == LENGTH:
            return "length"
        return "toolUse" if calls else "stop"

    def _set_finish(self, finish: str) -> None:
        if self._finish:
            return
        if finish in FAILED:
            raise ServerFailed("The server failed in the middle of its response.")
        self._finish = LENGTH if finish.lower() in LENGTHS else finish

    def _feed_delta(self, delta: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        for field in REASONING_FIELDS:
            if text := as_str(delta.get(field)):
                deltas.append(self._append(field, text))
                break
        content = delta.get("content")
        if isinstance(content, str):
            self._content(deltas, content)
        elif content is not None:
            for part in as_list(content):
                self._part(deltas, as_dict(part))
        if refusal := as_str(delta.get("refusal")):
            self._content(deltas, refusal)
        if pieces := delta.get("tool_calls"):
            deltas += self._assembler.feed(pieces)
        if call := as_dict(delta.get("function_call")):
            deltas += self._assembler.feed(call)
        return deltas

    def _part(self, deltas: list[Delta], part: dict[str, Any]) -> None:
        """Handle a content block, which some servers send instead of text."""
        thinking = part.get("thinking")
        if isinstance(thinking, str):
            deltas.append(self._append("", thinking))
        texts = [as_str(as_dict(inner).get("text")) for inner in as_list(thinking)]
        deltas += [self._append("", text) for text in texts if text]
        self._content(deltas, as_str(part.get("text")))

    def _content(self, deltas: list[Delta], text: str) -> None:
        if text:
            for thinking, piece in self._splitter.feed(text):
                self._text(deltas, piece, thinking=thinking)

    def _text(self, deltas: list[Delta], text: str, *, thinking: bool) -> None:
        if thinking:
            deltas.append(self._append("", text))
        elif passed := self._call_filter.feed(text):
            deltas.append(self._append(TEXT, passed))

    def _append(self, kind: str, text: str) -> TextDelta | ThinkingDelta:
        """Append to the message. ``kind`` is ``text``, or the field of reasoning, empty for reasoning in tags."""
        if not self._parts or self._parts[-1][0] != kind:
            self._parts.append((kind, []))
        self._parts[-1][1].append(text)
        return TextDelta(text) if kind == TEXT else ThinkingDelta(text)


def read_usage(usage: dict[str, Any]) -> Usage:
    """Return the server's token counts; missing ones are 0."""
    details = as_dict(usage.get("prompt_tokens_details"))
    return Usage(
        input=as_count(usage.get("prompt_tokens")),
        output=as_count(usage.get("completion_tokens")),
        cache_read=as_count(details.get("cached_tokens")) or as_count(usage.get("prompt_cache_hit_tokens")),
        cache_write=as_count(details.get("cache_write_tokens"))
        or as_count(usage.get("cache_creation_input_tokens")),
    )
