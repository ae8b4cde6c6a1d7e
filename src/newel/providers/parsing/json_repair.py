"""The arguments of tool calls: read exactly where possible, mended where that is harmless.

Strict JSON comes first; strings with raw line breaks in them are read too, for they mean one thing only.
What is left is given to ``json_repair``, which guesses. A guess may go to a tool that only reads; for a
tool that changes something the call is not run, and the model is asked for it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from newel.agent.messages import ToolCall
from newel.agent.ports import ToolSpec
from newel.text.json import as_dict, parse, repair

NEVER_MEND = frozenset({"write", "edit", "bash"})
"""Tools whose guessed arguments could do harm, by their own names."""


PREFIXES = ("functions.", "function.", "tools.", "default_api.")
NESTED = 3
"""How often arguments may be JSON inside a JSON string."""

TRUNCATED = "it was cut off by the output limit. Send it again in smaller pieces."


class Arguments(NamedTuple):
    """``problem`` says why the call must not run; ``values`` is then what could be made out."""

    values: dict[str, Any]
    problem: str | None = None


class ToolIndex:
    """The tools that were offered, under all names that mean them."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools: dict[str, ToolSpec] = {}
        for tool in tools:
            for name in (*tool.aliases, *(alias.lower() for alias in tool.aliases), tool.name.lower()):
                self._tools.setdefault(name, tool)
        self._tools |= {tool.name: tool for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def find(self, name: str) -> ToolSpec | None:
        """The tool that a model means by ``name``."""
        name = name.strip()
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        return self._tools.get(name) or self._tools.get(name.lower())

    def call(
        self, call_id: str, name: str, raw: object, *, mended: bool = False, cut: bool = False
    ) -> ToolCall:
        """Make the call. ``raw``: its arguments as they came; ``mended``: they have been guessed already;
        ``cut``: the output limit may have cut them off.
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
    """Read a call's arguments: an object, JSON text of one, or JSON text in JSON text."""
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
    """Where in a text its JSON broke, in words."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return str(error)
