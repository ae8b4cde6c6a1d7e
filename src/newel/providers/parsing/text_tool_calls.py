"""Parse tool calls that a model wrote as text.

The formats are those that models were trained on: in tags, fenced blocks or bare JSON, and only with the name of
an offered tool. Everything else remains text, including the prose around a call.

``ToolCallTextFilter`` passes text on as it arrives and holds back possible calls, so that readers of the stream
never see a call as text. ``find_calls`` parses the calls in the text held back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from newel.providers.parsing.tool_calls import ToolIndex
from newel.text.json import as_dict, as_list, as_str, decode_at, regex, repair

MARKS = (
    "<tool_call",
    "<function=",
    "<function_call>",
    "<tool_use>",
    "<tools>",
    "<invoke ",
    "<minimax:tool_call>",
    "<|tool_call",
    "<|python_tag|>",
    "[TOOL_CALLS]",
)
NAME_KEYS = ("name", "tool", "tool_name", "function", "action", "recipient_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input")
WRAPPERS = ("function", "function_call", "tool_call")
LISTS = ("tool_calls", "tool_uses")
MAX_BLOCKS = 64
"""The maximum of calls, or beginnings of calls, in a message; the rest remains text. No honest message has more."""
INDENT = 16
"""The maximum of characters before a call on its line, including the line break."""
NEITHER = {"type", "id", *NAME_KEYS}

_CANDIDATE = r"[`{]|<(?=[tfim|]|\Z)|\[(?=[T\s{]|\Z)"
_FENCE = r"```[ \t]{0,8}(?:\w{1,20}[ \t]{0,8})?\n\s{0,20}"
_FENCE_PART = r"`{1,3}|```[ \t]{0,8}(?:\w{1,20}[ \t]{0,8})?"
_JSON = (
    r"(?:\[\s{0,20})?\{\s{0,20}\"(?:"
    rf"(?:{'|'.join(NAME_KEYS)})\"\s{{0,20}}:\s{{0,20}}(?:\"(?P<name>[^\"\n]{{1,64}})\"|\{{)"
    r"|type\"\s{0,20}:\s{0,20}\"(?:function|tool_call|tool_use)\""
    rf"|(?:id|{'|'.join((*ARGUMENT_KEYS, *WRAPPERS, *LISTS))})\"\s{{0,20}}:)"
)
_JSON_PART = r"(?:\[\s{0,20})?(?:\{\s{0,20}(?:\"\w{0,20}(?:\"\s{0,20}(?::\s{0,20}(?:\"[^\"\n]{0,64})?)?)?)?)?"
_LONGEST_START = 256
"""In characters: text that has not become the beginning of a call by then never will."""

_TAG = r"(?:tool_calls?|function_call|tool_use|tools|minimax:tool_call)"
_OPENER = (
    rf"<{_TAG}\b[^>]{{0,80}}>"
    r"|<\|(?:tool_call\|?|tool_call_begin\||python_tag\|)>"
    r"|(?P<mistral>\[TOOL_CALLS\])"
    r"|(?P<fence>```)[ \t]*(?:\w+[ \t]*)?\n"
)
_TAG_END = rf"</{_TAG}>|<\|/?(?:tool_call\|?|tool_call_end\||eom_id\||eot_id\|)>"
_END = rf"{_TAG_END}|(?=<{_TAG}\b)|\Z"
_MISTRAL_END = r"(?=\[TOOL_CALLS\])|\Z"
_FENCE_END = r"\n[ \t]*```|\Z"
_STRAY = rf"</?{_TAG}>"
_ENDS = rf"(?:\s*(?:{_TAG_END}|```))*"
_ELEMENT = (
    r"(?s)<function=(?P<function>[^>\n]{1,80})>(?P<body>.*?)(?:</function>|(?=<function=)|\Z)"
    r"|<invoke\s{1,8}name=\"(?P<invoke>[^\"\n]{1,80})\"\s{0,8}>(?P<content>.*?)(?:</invoke>|\Z)"
)
_PARAMETER = (
    r"(?s)<parameter(?:=(?P<key>[^>\n]{1,80})|\s{1,8}name=\"(?P<name>[^\"\n]{1,80})\"[^>]{0,80})>(?P<value>.*?)"
    r"(?:</parameter>|(?=<parameter)|\Z)"
)
_PAIR = r"(?s)<arg_key>([^<]{1,80})</arg_key>\s{0,20}<arg_value>(.*?)(?:</arg_value>|\Z)"
_NAMED = r"\s*+(?P<name>[\w.\-]++)\s*+(?:\[CALL_ID\][^\[{]*+)?(?:\[ARGS\])?\s*+(?=\{)"
_SEPARATORS = r"[\s,;]*"
_LINE_START = r"(?m)^[ \t]*(?=[\[{])"


class ParsedToolCall(NamedTuple):
    """A call found in text; ``repaired`` if its JSON was repaired."""

    name: str
    arguments: object
    repaired: bool = False


class _Block(NamedTuple):
    """A part of the text that consists of calls alone."""

    start: int
    end: int
    calls: list[ParsedToolCall]


class ToolCallTextFilter:
    """Feed it text; it returns the text that is certainly not a call. ``close`` returns the text held back."""

    def __init__(self, tools: ToolIndex) -> None:
        self._tools = tools
        self._pending = ""
        self._held: list[str] = []
        self._before = "\n"

    def feed(self, text: str) -> str:
        if self._held:
            self._held.append(text)
            return ""
        if not self._tools:
            return text
        text = self._pending + text
        keep = len(text)
        for candidate in regex(_CANDIDATE).finditer(text):
            at = candidate.start()
            starts_line = self._starts_line(text, at)
            if not starts_line and text[at] in "`{":
                continue
            if self._opens(text, at, starts_line=starts_line):
                self._held.append(text[at:])
                self._pending = ""
                return text[:at]
            if _may_open(text[at : at + _LONGEST_START + 1], starts_line=starts_line):
                keep = at
                break
        self._pending = text[keep:]
        self._before = (self._before + text[max(0, keep - INDENT) : keep])[-INDENT:]
        return text[:keep]

    def close(self) -> str:
        """The text from the first possible call to the end."""
        rest = "".join(self._held) or self._pending
        self._held.clear()
        self._pending = ""
        return rest

    def _starts_line(self, text: str, at: int) -> bool:
        before = (self._before + text[max(0, at - INDENT) : at])[-INDENT:]
        return before.rstrip(" \t").endswith("\n")

    def _opens(self, text: str, at: int, *, starts_line: bool) -> bool:
        if text.startswith(MARKS, at):
            return True
        if not starts_line:
            return False
        if fence := regex(_FENCE).match(text, at):
            at = fence.end()
            if text.startswith(MARKS, at):
                return True
        match = regex(_JSON).match(text, at)
        return match is not None and (not match["name"] or self._tools.find(match["name"]) is not None)


def _may_open(start: str, *, starts_line: bool) -> bool:
    """Whether more text could turn this into the beginning of a call."""
    if len(start) > _LONGEST_START:
        return False
    if any(mark.startswith(start) for mark in MARKS):
        return True
    if not starts_line:
        return False
    if regex(_FENCE_PART).fullmatch(start):
        return True
    fence = regex(_FENCE).match(start)
    body = start[fence.end() :] if fence else start
    return any(mark.startswith(body) for mark in MARKS) or regex(_JSON_PART).fullmatch(body) is not None


def find_calls(text: str, tools: ToolIndex) -> tuple[str, list[ParsedToolCall]]:
    """The text without its calls, and the calls in order."""
    prose: list[str] = []
    calls: list[ParsedToolCall] = []
    done = 0
    for block in _blocks(text, tools):
        prose.append(text[done : block.start])
        calls += block.calls
        done = block.end
    if not calls:
        return text, []
    prose.append(text[done:])
    cleaned = (regex(_STRAY).sub("", piece).strip() for piece in prose)
    return "\n\n".join(piece for piece in cleaned if piece), calls


def _blocks(text: str, tools: ToolIndex) -> Iterator[_Block]:
    """The parts of the text that are calls, in order."""
    readers = [_read_opened, _read_element, _read_bare]
    at = 0
    for _ in range(MAX_BLOCKS):
        blocks = [(block, reader) for reader in readers if (block := reader(text, at, tools))]
        if not blocks:
            return
        readers = [reader for _, reader in blocks]  # no match here means none further on
        nearest = min((block for block, _ in blocks), key=lambda block: block.start)
        yield nearest
        at = nearest.end


def _read_opened(text: str, at: int, tools: ToolIndex) -> _Block | None:
    """The content after an opening tag or fence. Exact JSON has its own end: a fence inside one of its strings does
    not end it.
    """
    for opener in islice(regex(_OPENER).finditer(text, at), MAX_BLOCKS):
        calls, end = _exact_calls(text, opener.end(), tools)
        if calls:
            ends = regex(_ENDS).match(text, end)
            return _Block(opener.start(), ends.end() if ends else end, calls)
        closer = _MISTRAL_END if opener["mistral"] else _FENCE_END if opener["fence"] else _END
        closed = regex(closer).search(text, opener.end())
        stop, end = closed.span() if closed else (len(text), len(text))
        if calls := _calls_in(text[opener.end() : stop], tools):
            return _Block(opener.start(), end, calls)
    return None


def _read_element(text: str, at: int, tools: ToolIndex) -> _Block | None:
    for match in islice(regex(_ELEMENT).finditer(text, at), MAX_BLOCKS):
        if call := _element_call(match, tools):
            return _Block(match.start(), match.end(), [call])
    return None


def _read_bare(text: str, at: int, tools: ToolIndex) -> _Block | None:
    """JSON that begins a line: exact, or broken to the end of the text."""
    for match in islice(regex(_LINE_START).finditer(text, at), MAX_BLOCKS):
        start = match.end()
        if not regex(_JSON).match(text, start):
            continue
        calls, end = _exact_calls(text, start, tools)
        if calls:
            return _Block(start, end, calls)
        if end == start:
            calls = _calls_of(repair(text[start:]), tools, repaired=True)
            return _Block(start, len(text), calls) if calls else None
    return None


def _exact_calls(text: str, at: int, tools: ToolIndex) -> tuple[list[ParsedToolCall], int]:
    """The calls in the JSON values that begin at ``at``, and where the last value read ends."""
    calls: list[ParsedToolCall] = []
    end = at
    while (start := regex(_SEPARATORS).match(text, end)) and text.startswith(("{", "["), start.end()):
        value, after = decode_at(text, start.end())
        if not after:
            break
        parsed = _calls_of(value, tools)
        if not parsed:
            return calls, end if calls else after
        calls += parsed
        end = after
    return calls, end


def _calls_in(body: str, tools: ToolIndex) -> list[ParsedToolCall]:
    """The calls between two tags or fences, if the content is not exact JSON."""
    if tagged := regex(_OPENER).search(body):
        exact, _ = _exact_calls(body, tagged.end(), tools)
        if exact:
            return exact
        body = body[tagged.end() :]
    elements = [
        call
        for match in islice(regex(_ELEMENT).finditer(body), MAX_BLOCKS)
        if (call := _element_call(match, tools))
    ]
    if elements:
        return elements
    if pairs := regex(_PAIR).findall(body):
        return _typed_call(body.partition("<arg_key>")[0].strip(), pairs, tools)
    if (named := regex(_NAMED).match(body)) and tools.find(named["name"]):
        return [ParsedToolCall(named["name"], body[named.end() :].strip())]
    if body.lstrip().startswith(("{", "[")):
        return _calls_of(repair(body), tools, repaired=True)
    return []


def _calls_of(value: Any, tools: ToolIndex, *, repaired: bool = False) -> list[ParsedToolCall]:
    """The calls that a JSON value describes; none if any part of it is something else."""
    items = as_list(value) or [value]
    calls: list[ParsedToolCall] = []
    for item in items:
        fields = as_dict(item)
        inner = next((fields[key] for key in LISTS if as_list(fields.get(key))), None)
        parsed = (
            _calls_of(inner, tools, repaired=repaired)
            if inner
            else _call_of(fields, tools, repaired=repaired)
        )
        if not parsed:
            return []
        calls += parsed
    return calls


def _call_of(fields: dict[str, Any], tools: ToolIndex, *, repaired: bool) -> list[ParsedToolCall]:
    for wrapper in WRAPPERS:
        if inner := as_dict(fields.get(wrapper)):
            return _call_of(inner, tools, repaired=repaired)
    name = next((name for key in NAME_KEYS if (name := as_str(fields.get(key)))), "")
    tool = tools.find(name)
    if tool is None:
        return []
    for key in ARGUMENT_KEYS:
        if key in fields and isinstance(fields[key], dict | str | None):
            return [] if _is_schema(fields[key]) else [ParsedToolCall(name, fields[key], repaired)]
    flat = {key: value for key, value in fields.items() if key not in NEITHER}
    parameters = as_dict(tool.parameters.get("properties")).keys() | tool.argument_aliases.keys()
    return [ParsedToolCall(name, flat, repaired)] if flat and flat.keys() <= parameters else []


def _is_schema(arguments: object) -> bool:
    """Whether a model has recited the tool's definition in place of a call."""
    fields = as_dict(arguments)
    return fields.get("type") == "object" and isinstance(fields.get("properties"), dict)


def _element_call(match: re.Match[str], tools: ToolIndex) -> ParsedToolCall | None:
    name = (match["function"] or match["invoke"]).strip().strip("\"'")
    body = (match["body"] or match["content"] or "").strip()
    if tools.find(name) is None:
        return None
    pairs = [
        ((part["key"] or part["name"]).strip(), part["value"]) for part in regex(_PARAMETER).finditer(body)
    ]
    if pairs or not body:
        return _typed_call(name, pairs, tools)[0]
    return ParsedToolCall(name, body)


def _typed_call(name: str, pairs: list[tuple[str, str]], tools: ToolIndex) -> list[ParsedToolCall]:
    """A call from named texts: a text is parsed as JSON unless the schema wants a string."""
    tool = tools.find(name)
    if tool is None:
        return []
    properties = as_dict(tool.parameters.get("properties"))
    arguments: dict[str, Any] = {}
    for key, text in pairs:
        schema = as_dict(properties.get(tool.argument_aliases.get(key, key)))
        text = text.removeprefix("\n").removesuffix("\n")  # noqa: PLW2901 — the line breaks belong to the tags
        arguments[key] = text if schema.get("type", "string") == "string" else _json_or_text(text)
    return [ParsedToolCall(name, arguments)]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
