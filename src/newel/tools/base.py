"""Tools whose parameters are a struct: it gives the schema, the validation, and the error for an invalid call."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, cast

import msgspec

from newel.agent.errors import InvalidArguments
from newel.agent.ports import OnOutput, Planned, PlannedCall, ToolResult, ToolSpec
from newel.text.json import decode_json, to_json
from newel.tools.aliases import ARGUMENT_ALIASES, COMMENTARY, TOOL_ALIASES


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tools' parameters. An argument is optional if its field has a default; ``T | None`` is an optional field that
    the schema does not offer as null.
    """


P = TypeVar("P", bound=Parameters)


class ParsedTool(ABC, Generic[P]):
    """The part of ``newel.agent.ports.Tool`` that comes from the parameters: its specification, and checked arguments."""

    name: str
    label: str
    description: str
    read_only: bool
    parameters: type[P]
    essential: tuple[str, ...] = ()

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it, made from the class's attributes."""
        return self._spec

    @cached_property
    def _spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=flat_schema(self.parameters),
            aliases=TOOL_ALIASES.get(self.name, ()),
            argument_aliases=ARGUMENT_ALIASES.get(self.name, {}),
            essential=self.essential,
        )

    def parse(self, arguments: dict[str, Any], /) -> P:
        """The arguments as a struct; numbers and booleans may be strings. Raises ``InvalidArguments``, which names the invalid
        argument and lists the valid ones.
        """
        fields = {
            name: value
            for name, value in rename(arguments, self.spec.argument_aliases).items()
            if value is not None and (name in self._fields or not self._says_nothing(name, value))
        }
        try:
            return msgspec.convert(fields, self.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise self.invalid(_describe(str(error))) from None

    def _says_nothing(self, name: str, value: object) -> bool:
        """Of an argument that is none of the tool's. Very small models copy parts of the schema, such as ``required``."""
        return name in COMMENTARY or self.spec.parameters.get(name) == value

    def invalid(self, problem: str, *, missing: str = "") -> InvalidArguments:
        """An error about this tool's arguments that ends with a list of them. ``missing`` is one that these arguments need."""
        names = ", ".join(
            f"`{name}`" if field.required or name == missing else f"`{name}` (optional)"
            for name, field in self._fields.items()
        )
        return InvalidArguments(f"{self.name}: {problem}. The arguments are {names}.")

    @abstractmethod
    async def serial_key(self, arguments: P, /) -> str | None:
        """Which calls may overlap; see ``newel.agent.ports.Tool.serial_key``."""

    @abstractmethod
    async def plan(self, arguments: P, /) -> PlannedCall:
        """Bind the call; see ``newel.agent.ports.Tool.plan``."""

    @cached_property
    def _fields(self) -> dict[str, msgspec.structs.FieldInfo]:
        return {field.encode_name: field for field in msgspec.structs.fields(self.parameters)}


class TypedTool(ParsedTool[P]):
    """A tool that opens no files by itself: a call is what its arguments say."""

    @abstractmethod
    async def preview(self, arguments: P, /) -> str:
        """What the call would do, exactly; see ``newel.agent.ports.Preview``."""

    @abstractmethod
    async def execute(self, arguments: P, on_output: OnOutput, /) -> ToolResult:
        """Do it. ``on_output`` passes a piece of output to the screens. An exception becomes an error result for the model."""

    async def plan(self, arguments: P, /) -> PlannedCall:
        """A tool that opens files overrides this, and names them."""
        return Planned(partial(self.preview, arguments), partial(self._execute, arguments))

    async def _execute(self, arguments: P, on_output: OnOutput, /) -> ToolResult:
        result = cast("object", await self.execute(arguments, on_output))
        return checked_result(result, f"{type(self).__name__}.execute")


def checked_result(result: object, source: str) -> ToolResult:
    """A result as a session holds it; Python does not check what a tool of the user's returns. Raises ``TypeError``, which names the
    ``source``.
    """
    if not isinstance(result, ToolResult):
        raise TypeError(f"{source} returned a {type(result).__name__}, not a ToolResult")
    try:
        return decode_json(to_json(result), ToolResult)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{source} returned a ToolResult that JSON cannot hold: {error}") from error


def rename(arguments: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """The arguments under our names. If an argument is given under both names, ours counts."""
    under_aliases = {aliases[name]: value for name, value in arguments.items() if name in aliases}
    return under_aliases | {name: value for name, value in arguments.items() if name not in aliases}


def flat_schema(parameters: type[Parameters]) -> dict[str, Any]:
    """The JSON Schema of a struct in the form that small models read best: one object without references, titles, defaults or
    null.
    """
    schema = msgspec.json.schema(parameters)
    return _flatten(schema, schema["$defs"])


def _flatten(whole: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if reference := whole.get("$ref"):
        return _flatten(definitions[reference.rpartition("/")[2]], definitions)
    if choices := whole.get("anyOf"):
        option = next(choice for choice in choices if choice != {"type": "null"})
        whole = {**whole, **option}
    flat = {key: value for key, value in whole.items() if key not in {"title", "default", "anyOf"}}
    if "properties" in flat:
        flat["properties"] = {
            name: _flatten(value, definitions) for name, value in whole["properties"].items()
        }
    if "items" in flat:
        flat["items"] = _flatten(flat["items"], definitions)
    return flat


def _describe(problem: str) -> str:
    """An error of msgspec, rephrased to name the argument first."""
    if match := re.fullmatch(r"Object missing required field `(.+?)`(?: - at `\$\.(.+)`)?", problem):
        where = f" in `{match[2]}`" if match[2] else ""
        return f"missing required argument `{match[1]}`{where}"
    if match := re.fullmatch(r"Object contains unknown field `(.+?)`(?: - at `\$\.(.+)`)?", problem):
        where = f" in `{match[2]}`" if match[2] else ""
        return f"unknown argument `{match[1]}`{where}"
    if match := re.fullmatch(r"(.+) - at `\$\.(.+)`", problem):
        return f"argument `{match[2]}`: {match[1][0].lower()}{match[1][1:]}"
    return problem
