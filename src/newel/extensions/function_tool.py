"""A tool from a function with types: its signature gives the schema, its docstring the description."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast, get_type_hints

import msgspec

from newel.agent.errors import ToolError
from newel.agent.ports import OnOutput, ToolResult
from newel.extensions.errors import RegistrationError
from newel.extensions.recorded_tool import FOLDER
from newel.hooks.user_function import call_function
from newel.text.json import to_json
from newel.tools.base import Parameters, TypedTool

TIMEOUT_S: Final = 600.0
NO_OUTPUT: Final = "(no output)"


class ToolContext(msgspec.Struct, frozen=True):
    """Where a call works. ``folder`` is that of the agent, on this machine; in review mode it is the copy. ``report`` shows a text while
    the call runs.
    """

    folder: Path
    report: Callable[[str], Awaitable[None]]


class FunctionTool(TypedTool[Parameters]):
    """Calls ``function`` with the arguments. A parameter of the type ``ToolContext`` is not the model's."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        label: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        self.label = label or self.name.replace("_", " ").title()
        self.description = description or inspect.getdoc(function) or ""
        self.read_only = read_only
        self.timeout = timeout
        self.parameters, self._context = _parameters(function, self.name)
        if not self.description:
            raise RegistrationError(f"the tool {self.name} has no description; give the function a docstring")
        try:
            _ = self.spec
        except TypeError as error:
            reason = str(error).rpartition("\n")[2]
            raise RegistrationError(
                f"the tool {self.name} has a parameter that no model can give: {reason}; use str, int, float, bool, list or dict"
            ) from error

    async def serial_key(self, arguments: Parameters, /) -> str | None:
        del arguments
        return None

    async def preview(self, arguments: Parameters, /) -> str:
        given = {
            field.encode_name: getattr(arguments, field.name) for field in msgspec.structs.fields(arguments)
        }
        return f"{self.name} {to_json(given).decode(errors='replace')}"

    async def execute(self, arguments: Parameters, on_output: OnOutput, /) -> ToolResult:
        import anyio

        given = {field.name: getattr(arguments, field.name) for field in msgspec.structs.fields(arguments)}
        if self._context:
            given[self._context] = ToolContext(FOLDER.get(), on_output)
        with anyio.move_on_after(self.timeout):
            return _result(await call_function(self.function, **given))
        raise ToolError(
            f"{self.name} did not finish within {self.timeout:g} s, so Newel stopped waiting for it."
        )


def _result(answer: object) -> ToolResult:
    match answer:
        case ToolResult():
            return answer
        case None:
            return ToolResult(NO_OUTPUT)
        case str():
            return ToolResult(answer)
        case _:
            return ToolResult(to_json(answer).decode())


def _parameters(function: Callable[..., Any], name: str) -> tuple[type[Parameters], str]:
    """The struct of a function's parameters, and the name of the one that gets the context. Raises ``RegistrationError``."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    context = ""
    for parameter in inspect.signature(function).parameters.values():
        kind = hints.get(parameter.name)
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            raise RegistrationError(
                f"the tool {name} has the parameter {parameter}; a model can only give names"
            )
        if kind is None:
            raise RegistrationError(f"the parameter {parameter.name} of the tool {name} has no type")
        if kind is ToolContext:
            context = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    struct = msgspec.defstruct(
        f"{name.title()}Parameters", fields, bases=(Parameters,), frozen=True, kw_only=True
    )
    return cast("type[Parameters]", struct), context


def _default(value: object) -> object:
    """A default that calls do not share."""
    if isinstance(value, list | dict | set):
        kept = cast("list[object]", value)
        return msgspec.field(default_factory=kept.copy)
    return value
