"""Accumulates the events of a response into deltas, and finally into a message.

``ResponsesAccumulator`` accepts unvalidated events of the Responses API, and whole ``response`` objects. The same content comes up
to four times: as deltas, at the end of its part, at the end of its item, and in the whole response. Servers omit any of these,
or change the ids between them; only content that has not come before is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from newel.agent.errors import BadResponse, ServerFailed
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, StopReason, TextContent, ThinkingContent, ToolCall, Usage
from newel.agent.ports import ToolSpec
from newel.providers.errors import EndpointDescription, error_from_event
from newel.providers.openai.responses_encoder import FIELD, MAX_ID, ReasoningSignature
from newel.providers.parsing.tool_calls import MAX_CALLS, ToolIndex, fresh_id, limit_run
from newel.providers.signatures import name_signature
from newel.text.json import as_count, as_dict, as_list, as_str, to_json

REASONING = "reasoning"
MESSAGE = "message"
CALL = "function_call"
KINDS = (REASONING, MESSAGE, CALL)

PART_SEPARATOR = "\n\n"
"""Separates the parts of a reasoning summary."""

ENDS = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
FAILED = ("failed", "cancelled")
FILTERED = "content_filter"


class _OutputItem:
    """An output item, as far as it has come. ``index`` is its place in the output, None if the server did not say."""

    def __init__(self, kind: str, item_id: str, index: int | None) -> None:
        self.kind = kind
        self.id = item_id
        self.index = index
        self.pieces: list[str] = []
        self.size = 0
        self.is_done = False
        self.is_cut = False
        self.part = 0
        """The part of the summary that is arriving."""
        self.source = ""
        """The field of the reasoning: the first with text counts, as some servers send it in two."""
        self.encrypted = ""
        self.phase = ""
        self.position = 0
        """A call's place among the calls."""
        self.call_id = ""
        self.name = ""
        self.announced = ""
        """The arguments with which a call was added: some servers send them only there, others in the deltas again."""
        self.arguments = ""
        """A call's whole arguments, once they have come."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.size += len(text)


class ResponsesAccumulator:
    """Feed it events, pass on the deltas, then get the message. ``tools`` are the offered ones; ``endpoint`` describes the server in
    errors.
    """

    def __init__(self, tools: Sequence[ToolSpec], endpoint: EndpointDescription) -> None:
        self._tools = ToolIndex(tools)
        self._endpoint = endpoint
        self._items: list[_OutputItem] = []
        self._by_id: dict[tuple[str, str], _OutputItem] = {}
        self._by_index: dict[tuple[str, int], _OutputItem] = {}
        self._latest: dict[str, _OutputItem] = {}
        self._calls = 0
        self._usage = Usage()
        self._status = ""
        self._reason = ""
        self.started = False
        """Whether any part of a response has arrived."""

    @property
    def finished(self) -> bool:
        """Whether the server has declared the response complete."""
        return bool(self._status)

    def feed(self, fields: dict[str, Any]) -> list[Delta]:
        """Accumulate one event or a whole response. Raises ``ProviderError`` if the server gave up on the response."""
        kind = as_str(fields.get("type"))
        if self.finished:
            return []
        if fields.get("object") == "response" or (not kind and "output" in fields):
            return self._end(fields, as_str(fields.get("status")) or "completed")
        if kind == "error":
            raise error_from_event(fields, self._endpoint)
        if not kind.startswith("response."):
            return []
        self.started = True
        if status := ENDS.get(kind):
            return self._end(as_dict(fields.get("response")), status)
        return self._event(kind, fields)

    def on_done(self) -> None:
        """Handle the end of a document, and a ``[DONE]``, which some servers send: the response is complete."""
        self._status = self._status or "completed"

    def close(self) -> list[Delta]:
        """Return no deltas: none are held back."""
        return []

    def message(self, *, model: str, provider: str) -> AssistantMessage:
        """Return the message. Raises ``BadResponse`` if nothing arrived."""
        if not self.started:
            raise BadResponse("The server sent an empty response.")
        calls = {item.position: call for item, call in self._finish_calls()}
        content: list[TextContent | ThinkingContent | ToolCall] = []
        for position, item in enumerate(self._items):
            if item.kind == CALL:
                content.append(calls[item.position])
            elif item.kind == REASONING:
                following = self._items[position + 1] if position + 1 < len(self._items) else None
                if item.size or item.id:
                    content.append(ThinkingContent(item.text, field=FIELD, signature=_sign(item, following)))
            elif item.size:
                content.append(TextContent(item.text))
        filtered = self._status == "incomplete" and self._reason == FILTERED
        return AssistantMessage(
            content=content,
            model=model,
            provider=provider,
            usage=self._usage,
            stop_reason="error" if filtered else self._stop_reason(),
            error_message="The provider's content filter cut the answer off." if filtered else None,
        )

    def _stop_reason(self) -> StopReason:
        if self._status == "incomplete":
            return "length"
        return "toolUse" if self._calls else "stop"

    def _finish_calls(self) -> list[tuple[_OutputItem, ToolCall]]:
        """Return the calls. An incomplete response ended within the last call or right after it, so that one must not run."""
        items = [item for item in self._items if item.kind == CALL]
        used: set[str] = set()
        calls: list[ToolCall] = []
        for item in items:
            call_id = item.call_id or item.id
            call_id = call_id if call_id and call_id not in used else fresh_id()
            used.add(call_id)
            is_last = self._status == "incomplete" and (item is items[-1] or not item.is_done)
            raw = item.arguments or item.text or item.announced
            call = self._tools.call(call_id, item.name, raw, cut=item.is_cut or is_last)
            calls.append(
                msgspec.structs.replace(
                    call, signature=name_signature(FIELD, item.id) if len(item.id) <= MAX_ID else None
                )
            )
        return list(zip(items, limit_run(calls), strict=True))

    # -- events ----------------------------------------------------------------------------------

    def _event(self, kind: str, fields: dict[str, Any]) -> list[Delta]:
        match kind:
            case "response.output_item.added" | "response.output_item.done":
                entry = as_dict(fields.get("item"))
                item = self._item_of(entry, _index(fields), is_new=kind.endswith("added"))
                if item is None:
                    return []
                item.is_done = kind.endswith("done")
                if not item.is_done:
                    item.announced = _arguments_text(entry.pop("arguments", ""))
                return self._update(item, entry)
            case "response.output_text.delta" | "response.refusal.delta":
                return self._add(self._find(MESSAGE, fields), as_str(fields.get("delta")))
            case "response.output_text.done" | "response.refusal.done":
                item = self._find(MESSAGE, fields)
                text = as_str(fields.get("text")) or as_str(fields.get("refusal"))
                return [] if item.size else self._add(item, text)
            case "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta":
                return self._add_summary(fields)
            case "response.reasoning_text.delta" | "response.reasoning.delta":
                return self._think(self._find(REASONING, fields), "content", as_str(fields.get("delta")))
            case "response.function_call_arguments.delta":
                return self._add_arguments(self._find(CALL, fields), fields.get("delta"))
            case "response.function_call_arguments.done":
                return self._update(self._find(CALL, fields), {**fields, "id": "", "status": ""})
            case _:
                return []

    def _end(self, response: dict[str, Any], status: str) -> list[Delta]:
        self.started = True
        if usage := as_dict(response.get("usage")):
            self._usage = read_usage(usage)
        if status in FAILED:
            if error := response.get("error"):
                raise error_from_event(error, self._endpoint)
            raise ServerFailed("The server failed in the middle of its response.")
        deltas = self._add_output(as_list(response.get("output")))
        self._reason = as_str(as_dict(response.get("incomplete_details")).get("reason"))
        self._status = "incomplete" if "incomplete" in (status, as_str(response.get("status"))) else status
        return deltas

    def _add_output(self, output: list[Any]) -> list[Delta]:
        """Add the items of the whole response that have not come before. Some servers change ids, so the n-th item of a kind
        is also the n-th one that came.
        """
        deltas: list[Delta] = []
        streamed = {kind: [item for item in self._items if item.kind == kind] for kind in KINDS}
        counts = dict.fromkeys(KINDS, 0)
        for index, value in enumerate(output):
            entry = as_dict(value)
            kind = as_str(entry.get("type"))
            if kind not in counts:
                continue
            item = self._known(entry)
            if item is None and counts[kind] < len(streamed[kind]):
                item = streamed[kind][counts[kind]]
                if item.call_id and item.call_id != entry.get("call_id"):
                    item = None
            counts[kind] += 1
            item = item or self._new(kind, as_str(entry.get("id")), index)
            deltas += self._update(item, entry)
            item.is_done = True
        return deltas

    # -- items -----------------------------------------------------------------------------------

    def _item_of(self, entry: dict[str, Any], index: int | None, *, is_new: bool) -> _OutputItem | None:
        """Return the item that an entry describes, or a new one; None for a kind that we did not ask for."""
        kind, item_id = as_str(entry.get("type")), as_str(entry.get("id"))
        if kind not in KINDS:
            return None
        if item := self._known(entry):
            return item
        if is_new:
            return self._new(kind, item_id, index)
        return self._open(kind, item_id, index) or self._new(kind, item_id, index)

    def _known(self, entry: dict[str, Any]) -> _OutputItem | None:
        """Return the item with the id, or the call id, of an entry."""
        kind = as_str(entry.get("type"))
        names = [name for key in ("id", "call_id") if (name := as_str(entry.get(key)))]
        return next((item for name in names if (item := self._by_id.get((kind, name)))), None)

    def _find(self, kind: str, fields: dict[str, Any]) -> _OutputItem:
        """Return the item that an event belongs to, or a new one."""
        item_id, index = as_str(fields.get("item_id")), _index(fields)
        if item_id and (item := self._by_id.get((kind, item_id))):
            return item
        return self._open(kind, item_id, index) or self._new(kind, item_id, index)

    def _open(self, kind: str, item_id: str, index: int | None) -> _OutputItem | None:
        """Return the incomplete item at an index, or the latest one if the server does not tell its items apart."""
        if index is not None and (item := self._by_index.get((kind, index))) and not item.is_done:
            return item
        item = self._latest.get(kind)
        if item is None or item.is_done or item is not self._items[-1]:
            return None
        is_vague = (item.index is None or index is None) and not (item.id and item_id)
        return item if is_vague else None

    def _new(self, kind: str, item_id: str, index: int | None) -> _OutputItem:
        item = _OutputItem(kind, item_id, index)
        if kind == CALL:
            if self._calls >= MAX_CALLS:
                raise BadResponse(
                    f"The server sent more than {MAX_CALLS:,} tool calls in one message; refused."
                )
            item.position = self._calls
            self._calls += 1
        self._items.append(item)
        self._latest[kind] = item
        if item_id:
            self._by_id[kind, item_id] = item
        if index is not None:
            self._by_index[kind, index] = item
        return item

    def _update(self, item: _OutputItem, entry: dict[str, Any]) -> list[Delta]:
        """Take over an item's fields, and the rest of its content."""
        item.id = as_str(entry.get("id")) or item.id
        item.is_cut = item.is_cut or entry.get("status") == "incomplete"
        if item.kind == CALL:
            return self._update_call(item, entry)
        if item.kind == MESSAGE:
            item.phase = as_str(entry.get("phase")) or item.phase
            parts = [as_dict(part) for part in as_list(entry.get("content"))]
            text = "".join(as_str(part.get("text")) or as_str(part.get("refusal")) for part in parts)
            return self._add_rest(item, text)
        item.encrypted = as_str(entry.get("encrypted_content")) or item.encrypted
        for source, separator in (("summary", PART_SEPARATOR), ("content", "")):
            texts = [as_str(as_dict(part).get("text")) for part in as_list(entry.get(source))]
            if (text := separator.join(texts)) and item.source in ("", source):
                item.source = source
                return self._add_rest(item, text)
        return []

    def _update_call(self, item: _OutputItem, entry: dict[str, Any]) -> list[Delta]:
        if call_id := as_str(entry.get("call_id")):
            item.call_id = call_id
            self._by_id.setdefault((CALL, call_id), item)
        name = as_str(entry.get("name"))
        new_name = name if name and name != item.name else None
        item.name = name or item.name
        arguments = _arguments_text(entry.get("arguments"))
        item.arguments = arguments or item.arguments
        piece = _rest(item, arguments)
        if piece:
            item.add(piece)
        if not piece and not new_name:
            return []
        return [ToolCallDelta(index=item.position, name=new_name, delta=piece)]

    # -- content ---------------------------------------------------------------------------------

    def _add_summary(self, fields: dict[str, Any]) -> list[Delta]:
        item = self._find(REASONING, fields)
        part, text = as_count(fields.get("summary_index")), as_str(fields.get("delta"))
        if item.size and text and part != item.part:
            text = PART_SEPARATOR + text
        item.part = part
        return self._think(item, "summary", text)

    def _think(self, item: _OutputItem, source: str, text: str) -> list[Delta]:
        if not text or item.source not in ("", source):
            return []
        item.source = source
        return self._add(item, text)

    def _add_arguments(self, item: _OutputItem, value: object) -> list[Delta]:
        piece = _arguments_text(value)
        if not piece:
            return []
        item.add(piece)
        return [ToolCallDelta(index=item.position, delta=piece)]

    def _add_rest(self, item: _OutputItem, text: str) -> list[Delta]:
        """Add what has not come before of a whole text. Nothing, if it differs from the deltas, which were shown already, or if
        the text of a later item was.
        """
        latest = self._latest[item.kind]
        return [] if latest is not item and latest.size else self._add(item, _rest(item, text))

    def _add(self, item: _OutputItem, text: str) -> list[Delta]:
        if not text:
            return []
        item.add(text)
        return [TextDelta(text) if item.kind == MESSAGE else ThinkingDelta(text)]


def _rest(item: _OutputItem, text: str) -> str:
    """Return what has not come before of a whole text; nothing if it differs from what has come."""
    if len(text) <= item.size:
        return ""
    streamed = item.text
    return text[len(streamed) :] if text.startswith(streamed) else ""


def _index(fields: dict[str, Any]) -> int | None:
    index = fields.get("output_index")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _arguments_text(value: object) -> str:
    """Arguments as JSON text; some servers send the object itself."""
    return to_json(cast("object", value)).decode() if isinstance(value, dict | list) else as_str(value)


def _sign(item: _OutputItem, following: _OutputItem | None) -> str | None:
    if not item.id:
        return None
    text = following if following and following.kind == MESSAGE and following.size else None
    signature = ReasoningSignature(
        id=item.id,
        encrypted=item.encrypted,
        is_raw=item.source == "content",
        message_id=text.id if text and len(text.id) <= MAX_ID else "",
        phase=text.phase if text else "",
    )
    return to_json(signature).decode()


def read_usage(usage: dict[str, Any]) -> Usage:
    """Return the server's token counts; missing ones are 0. Some servers use the names of chat completions."""
    details = as_dict(usage.get("input_tokens_details")) or as_dict(usage.get("prompt_tokens_details"))
    return Usage(
        input=as_count(usage.get("input_tokens")) or as_count(usage.get("prompt_tokens")),
        output=as_count(usage.get("output_tokens")) or as_count(usage.get("completion_tokens")),
        cache_read=as_count(details.get("cached_tokens")),
        cache_write=as_count(details.get("cache_write_tokens")),
    )
