"""Assembles tool calls from the pieces that servers send, and parses their arguments.

The protocol gives each piece an ``index``, and the first one an ``id`` and a ``name``. Servers omit any of them, repeat the
name, give every call the same index or every piece a new id, and send arguments as text, as text encoded twice, or as an
object.

Arguments are parsed exactly if possible, and repaired if that is harmless. Strict JSON is tried first; strings with raw line
breaks are accepted too, because their meaning is clear. Otherwise ``json_repair`` guesses. A guess may be used for a read-only
tool; a call of another tool is not run, and the model has to repeat it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from newel.agent.errors import BadResponse
from newel.agent.events import ToolCallDelta
from newel.agent.messages import ToolCall, new_id
from newel.agent.ports import ToolSpec
from newel.text.json import as_dict, as_list, as_str, parse, repair

NEVER_REPAIR = frozenset({"write", "edit", "bash"})
"""Tools for which guessed arguments could do harm."""


PREFIXES = ("functions.", "function.", "tools.", "default_api.")
NESTED = 3
"""How many levels of JSON within a JSON string are unpacked."""

TRUNCATED = "it was cut off by the output limit. Send it again in smaller pieces."


class Arguments(NamedTuple):
    """``problem`` says why the call must not run; ``values`` is then the readable part."""

    values: dict[str, Any]
    problem: str | None = None


class ToolIndex:
    """The offered tools, by all their names and aliases."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools: dict[str, ToolSpec] = {}
        for tool in tools:
            for name in (*tool.aliases, *(alias.lower() for alias in tool.aliases), tool.name.lower()):
                self._tools.setdefault(name, tool)
        self._tools |= {tool.name: tool for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def find(self, name: str) -> ToolSpec | None:
        """The tool that a model refers to as ``name``."""
        name = name.strip()
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        return self._tools.get(name) or self._tools.get(name.lower())

    def call(
        self, call_id: str, name: str, raw: object, *, repaired: bool = False, cut: bool = False
    ) -> ToolCall:
        """Create the call. ``raw``: its arguments as received; ``repaired``: they were repaired already; ``cut``: the
        output limit may have truncated them.
        """
        tool = self.find(name)
        name = tool.name if tool else name.strip()
        arguments = read_arguments(raw, may_repair=not cut and name not in NEVER_REPAIR)
        problem = arguments.problem
        if repaired and name in NEVER_REPAIR:
            problem = "its JSON was broken. Send the call again with valid JSON."
        if cut:
            problem = TRUNCATED
        return ToolCall(id=call_id, name=name, arguments=arguments.values, problem=problem)


def read_arguments(raw: object, *, may_repair: bool) -> Arguments:
    """Parse a call's arguments: an object, its JSON text, or JSON text within JSON text."""
    value: Any = raw
    for _ in range(NESTED):
        if not isinstance(value, str):
            break
        if not value.strip():
            return Arguments({})
        try:
            value = parse(value, strict=False)
        except ValueError as error:
            return _repair_arguments(value, error, may_repair=may_repair)
    if value is None:
        return Arguments({})
    if isinstance(value, dict):
        return Arguments(cast("dict[str, Any]", value))
    return Arguments({}, "its arguments are JSON, but not an object. Send the call again with an object.")


def _repair_arguments(text: str, error: ValueError, *, may_repair: bool) -> Arguments:
    guess = as_dict(repair(text)) if may_repair else {}
    if guess:
        return Arguments(guess)
    return Arguments(
        {}, f"its arguments are not valid JSON ({describe_position(error)}). Send the call again."
    )


def describe_position(error: ValueError) -> str:
    """The position of a JSON error in a text, for a message."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return str(error)


MAX_RUN = 256
"""Calls of one message that are run; each further one gets an error result."""

MAX_CALLS = 8192
"""Calls of one message; a response with more is rejected."""

MAX_COMPARED = 64 * 1024
"""Characters of arguments up to which each further piece is compared with the whole call."""


class _PartialCall:
    def __init__(self, position: int, index: int | None, call_id: str) -> None:
        self.position = position
        self.index = index
        self.id = call_id
        self.name = ""
        self.size = 0
        self._arguments: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._arguments)

    def add(self, text: str) -> None:
        self._arguments.append(text)
        self.size += len(text)

    def is_whole(self) -> bool:
        """Whether the arguments are complete, so that a further piece starts another call."""
        if not self.size or self.size > MAX_COMPARED or not self._arguments[-1].rstrip().endswith("}"):
            return False
        try:
            parse(self.text)
        except ValueError:
            return False
        return True

    def repeats(self, text: str) -> bool:
        """Whether a piece repeats the whole call, as some servers do in their last chunk."""
        return len(text) == self.size and self.is_whole() and text == self.text


class ToolCallAssembler:
    """Feed it the ``tool_calls`` of each chunk; ``finish`` returns the calls."""

    def __init__(self, tools: ToolIndex) -> None:
        self._tools = tools
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}
        self._by_id: dict[str, _PartialCall] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, pieces: object) -> list[ToolCallDelta]:
        """Accept ``delta.tool_calls``: a list, or one object without the list. Raises
        ``BadResponse`` for too many calls.
        """
        deltas: list[ToolCallDelta] = []
        for piece in as_list(pieces) or [pieces]:
            fields = as_dict(piece)
            if fields and (delta := self._add_piece(fields)):
                deltas.append(delta)
        return deltas

    def finish(self, *, cut: bool) -> list[ToolCall]:
        """Return the calls in order. ``cut`` means that the output limit ended the message, within the last call or right after
        it, so that the last call must not be run.
        """
        finished: list[ToolCall] = []
        used: set[str] = set()
        calls = [call for call in self._calls if call.name or call.size]
        for call in calls:
            call_id = call.id if call.id and call.id not in used else fresh_id()
            used.add(call_id)
            finished.append(self._tools.call(call_id, call.name, call.text, cut=cut and call is calls[-1]))
        return finished

    def _add_piece(self, fields: dict[str, Any]) -> ToolCallDelta | None:
        function = as_dict(fields.get("function")) or fields
        name = as_str(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = json.dumps(arguments, ensure_ascii=False)
        text = as_str(arguments)
        call = self._find(fields, name)
        new_name = self._name(call, name)
        if call.repeats(text):
            text = ""
        if text:
            call.add(text)
        if not text and not new_name:
            return None
        return ToolCallDelta(index=call.position, name=new_name, delta=text)

    def _find(self, fields: dict[str, Any], name: str) -> _PartialCall:
        """Return the call that a piece belongs to, or a new one."""
        index, call_id = fields.get("index"), as_str(fields.get("id"))
        if isinstance(index, bool) or not isinstance(index, int):
            index = None
        last = self._calls[-1] if self._calls else None
        if index is not None:
            existing = self._by_index.get(index)
        elif call_id:
            existing = self._by_id.get(call_id)
            if existing is None and last and not name and last.index is None:
                existing = last
        else:
            existing = last
        if existing and not (name and self._is_another(existing, call_id, name, has_index=index is not None)):
            return existing
        if len(self._calls) >= MAX_CALLS:
            raise BadResponse(f"The server sent more than {MAX_CALLS:,} tool calls in one message; refused.")
        call = _PartialCall(len(self._calls), index, call_id)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id.setdefault(call_id, call)
        return call

    def _is_another(self, call: _PartialCall, call_id: str, name: str, *, has_index: bool) -> bool:
        """Whether a piece with a name, which seems to belong to ``call``, starts another call."""
        if call_id and call_id == call.id:
            return False
        if has_index and not (call_id and call.id):
            return False
        if not call.size:
            return bool(call_id and call.id)
        return call.is_whole() or name != call.name

    def _name(self, call: _PartialCall, name: str) -> str | None:
        """Extend the call's name; returns it if it changed. Servers repeat names, extend them, or send them in pieces."""
        if not name or name == call.name or self._tools.find(call.name):
            return None
        call.name = name if name.startswith(call.name) else call.name + name
        return call.name


def limit_run(calls: list[ToolCall]) -> list[ToolCall]:
    """Return the calls; those beyond ``MAX_RUN`` have a ``problem``, so that they do not run."""
    problem = f"there were too many calls in one message; {MAX_RUN} are run. Send it again."
    return calls[:MAX_RUN] + [msgspec.structs.replace(call, problem=problem) for call in calls[MAX_RUN:]]


def fresh_id() -> str:
    """Return an id for a call without one: nine characters, the only length that one vendor accepts."""
    return new_id()[:9]
