"""The JSON Schema of one step of a model: a thought, then a tool call or the answer.

    {"thought": "The task is a rename.", "action": {"tool": "bash", "command": "mv a.txt b.txt"}}
    {"thought": "It is done.", "action": {"tool": "answer", "text": "a.txt is now b.txt."}}

Members are in this order: servers generate them as the schema lists them, and the thought is to come before the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from newel.agent.ports import ToolSpec
from newel.text.json import as_dict, as_list, as_str

ANSWER: Final = "answer"
"""The name of the action that ends the run; a tool of this name cannot be called."""

ANSWER_MEANS: Final = "The task is done, or a question can be answered now."
"""The description of that action."""

TOOL: Final = "tool"
"""The member that names the action; an argument of this name cannot be given."""

TEXT: Final = "text"
MAX_THOUGHT: Final = 300
"""Characters of a thought: a small model may otherwise think until its window is full."""

MAX_DEPTH: Final = 6
"""Levels of a tool's parameters; anything is accepted below, as servers limit the size of grammars."""

_KEYWORDS: Final = ("type", "enum", "const", "description")


def step_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the schema of a step with these tools; without any, only an answer is left."""
    actions = [_action(tool.name, small_parameters(tool)) for tool in tools if tool.name != ANSWER]
    actions.append(_action(ANSWER, {TEXT: {"type": "string"}}))
    return _object(
        {
            "thought": {"type": "string", "maxLength": MAX_THOUGHT},
            "action": {"anyOf": actions} if len(actions) > 1 else actions[0],
        }
    )


def small_parameters(tool: ToolSpec) -> dict[str, dict[str, Any]]:
    """Return the schemas of the arguments that a small model is offered: the essential ones, else the required ones, else all."""
    properties = as_dict(tool.parameters.get("properties"))
    definitions = as_dict(tool.parameters.get("$defs")) | as_dict(tool.parameters.get("definitions"))
    names = tool.essential or [as_str(name) for name in as_list(tool.parameters.get("required"))]
    offered = [name for name in names if name in properties] or list(properties)
    return {name: _plain(properties[name], definitions, MAX_DEPTH) for name in offered if name != TOOL}


def _action(name: str, parameters: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return _object({TOOL: {"const": name}} | parameters)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _plain(schema: object, definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    """A schema with the few keywords that every server turns into a grammar. It accepts whatever the original accepts."""
    fields = as_dict(schema)
    if not depth:
        return {}
    if reference := as_str(fields.get("$ref")):
        return _plain(definitions.get(reference.rpartition("/")[2]), definitions, depth - 1)
    plain = {name: fields[name] for name in _KEYWORDS if name in fields}
    for keyword in ("anyOf", "oneOf"):
        if choices := as_list(fields.get(keyword)):
            plain["anyOf"] = [_plain(choice, definitions, depth - 1) for choice in choices]
    if properties := as_dict(fields.get("properties")):
        plain["properties"] = {
            name: _plain(each, definitions, depth - 1) for name, each in properties.items()
        }
        plain["required"] = as_list(fields.get("required"))
    if "items" in fields:
        plain["items"] = _plain(fields["items"], definitions, depth - 1)
    return plain
