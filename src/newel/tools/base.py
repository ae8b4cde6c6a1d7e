"""A tool whose parameters are a struct: schema, checks and words for a wrong call come from it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import msgspec

from newel.agent.errors import InvalidArguments
from newel.agent.ports import OnOutput, Planned, PlannedCall, ToolResult, ToolSpec
from newel.tools.aliases import ARGUMENT_ALIASES, COMMENTARY, TOOL_ALIASES


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tools' parameters. An argument may be left out if its field has a default; ``T | None``
    is a field that can be left out and is never offered as null.
    """


P = TypeVar("P", bound=Parameters)


class TypedTool(ABC, Generic[P]):
    """Implements ``newel.agent.ports.Tool`` but for what the tool does."""

    name: str
    label: str
    description: str
    read_only: bool
    parameters: type[P]

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @cached_property
    def _spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=flat_schema(self.parameters),
            aliases=TOOL_ALIASES.get(self.name, ()),
            argument_aliases=ARGUMENT_ALIASES.get(self.name, {}),
        )

    def parse(self, arguments: dict[str, Any], /) -> P:
        """The arguments as a struct. Numbers and truth values may come as strings. Raises
        ``InvalidArguments`` naming the argument that is wrong and the ones there are.
        """
        given = renamed(arguments, self.spec.argument_aliases)
        wanted = {
            name: value
            for name, value in given.items()
            if value is not None and (name not in COMMENTARY or name in self._fields)
        }
        try:
            return msgspec.convert(wanted, self.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise self.invalid(_plain(str(error))) from None

    def invalid(self, problem: str) -> InvalidArguments:
        """An error about this tool's arguments that ends with a list of them."""
        names = ", ".join(
            f"`{name}`" if field.required else f"`{name}` (optional)" for name, field in self._fields.items()
        )
        return InvalidArguments(f"{self.name}: {problem}. The arguments are {names}.")

    @abstractmethod
    async def serial_key(self, arguments: P, /) -> str | None: ...

    @abstractmethod
    async def preview(self, arguments: P, /) -> str:
        """What the call would do, exactly; see ``newel.agent.ports.Preview``."""

    @abstractmethod
    async def execute(self, arguments: P, on_output: OnOutput, /) -> ToolResult: ...

    async def plan(self, arguments: P, /) -> PlannedCall:
        """For a tool that opens no files by itself. One that does overrides this, and says which."""
        return Planned(partial(self.preview, arguments), partial(self.execute, arguments))

    @cached_property
    def _fields(self) -> dict[str, msgspec.structs.FieldInfo]:
        return {field.encode_name: field for field in msgspec.structs.fields(self.parameters)}


def renamed(arguments: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """The arguments under our names. Where an argument came under both, ours counts."""
    under_aliases = {aliases[name]: value for name, value in arguments.items() if name in aliases}
    return under_aliases | {name: value for name, value in arguments.items() if name not in aliases}


def flat_schema(parameters: type[Parameters]) -> dict[str, Any]:
    """The JSON Schema of a struct as small models read it best: one object without references, titles,
    defaults or null.
    """
    schema = msgspec.json.schema(parameters)
    return _flatten(schema, schema["$defs"])


def _flatten(whole: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if reference := whole.get("$ref"):
        return _flatten(definitions[reference.rpartition("/")[2]], definitions)
    if choices := whole.get("anyOf"):
        one = next(choice for choice in choices if choice != {"type": "null"})
        whole = {**whole, **one}
    flat = {key: value for key, value in whole.items() if key not in {"title", "default", "anyOf"}}
    if "properties" in flat:
        flat["properties"] = {
            name: _flatten(value, definitions) for name, value in whole["properties"].items()
        }
    if "items" in flat:
        flat["items"] = _flatten(flat["items"], definitions)
    return flat


def _plain(problem: str) -> str:
    """What msgspec says, in words that name the argument first."""
    if found := re.fullmatch(r"Object missing required field `(.+?)`(?: - at `\$\.(.+)`)?", problem):
        where = f" in `{found[2]}`" if found[2] else ""
        return f"missing required argument `{found[1]}`{where}"
    if found := re.fullmatch(r"Object contains unknown field `(.+?)`(?: - at `\$\.(.+)`)?", problem):
        where = f" in `{found[2]}`" if found[2] else ""
        return f"unknown argument `{found[1]}`{where}"
    if found := re.fullmatch(r"(.+) - at `\$\.(.+)`", problem):
        return f"argument `{found[2]}`: {found[1][0].lower()}{found[1][1:]}"
    return problem
