"""Parse the arguments of tool calls: exactly if possible, repaired if that is harmless.

Strict JSON is tried first; strings with raw line breaks are accepted too, because their meaning is clear.
Otherwise ``json_repair`` guesses. A guess may be used for a read-only tool; a call of another tool is not run,
and the model has to repeat it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from newel.agent.messages import ToolCall
from newel.agent.ports import ToolSpec
from newel.text.json import as_dict, parse, repair

NEVER_MEND = frozenset({"write", "edit", "bash"})
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
        self, call_id: str, name: str, raw: object, *, mended: bool = False, cut: bool = False
    ) -> ToolCall:
        """Create the call. ``raw``: its arguments as received; ``mended``: they were repaired already; ``cut``: the
        output limit may have truncated them.
        """
        tool = self.find(name)
        name = tool.name if tool else name.strip()
        arguments = read_arguments(raw, mend=not cut and name not in NEVER_MEND)
        problem = arguments.problem
        if mended and name in NEVER_MEND:
            problem = "its JSON was broken. Send the call again with valid JSON."
        if cut:
            problem = TRUNCATED
        return ToolCall(id=call_id, name=name, arguments=arguments.values, problem=problem)


def read_arguments(raw: object, *, mend: bool) -> Arguments:
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
            return _mended(value, error, mend=mend)
    if value is None:
        return Arguments({})
    if isinstance(value, dict):
        return Arguments(cast("dict[str, Any]", value))
    return Arguments({}, "its arguments are JSON, but not an object. Send the call again with an object.")


def _mended(text: str, error: ValueError, *, mend: bool) -> Arguments:
    guess = as_dict(repair(text)) if mend else {}
    if guess:
        return Arguments(guess)
    return Arguments({}, f"its arguments are not valid JSON ({where(error)}). Send the call again.")


def where(error: ValueError) -> str:
    """The position of a JSON error in a text, for a message."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return str(error)
