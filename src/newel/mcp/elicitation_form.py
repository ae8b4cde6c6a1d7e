"""Forms of servers: the flat JSON Schema of an elicitation, as fields that the user fills in at a prompt.

Only the keywords in the MCP specification are checked: a `pattern` could take hours, and the server validates the
answer anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from newel.agent.errors import NewelError

Answer = str | int | float | bool | list[str]
Number = int | float

NONE: Final = "none"
"""Input that selects none of several choices."""

FORMATS: Final[dict[str | None, tuple[str, Any]]] = {
    "date": ("a date such as 2026-01-31", date),
    "date-time": ("a date and time such as 2026-01-31T09:30:00Z", Annotated[datetime, msgspec.Meta(tz=True)]),
    "email": ("an e-mail address", Annotated[str, msgspec.Meta(pattern=r"^[^@\s]+@[^@\s]+$")]),
    "uri": (
        "an address such as https://example.org",
        Annotated[str, msgspec.Meta(pattern=r"^[\w+.-]+:\S+$")],
    ),
}
"""The names of string formats for the user, and the functions that parse them."""


class BadForm(NewelError):
    """A form that cannot be filled in at a prompt."""


class FormChoice(NamedTuple):
    value: str
    title: str


class Field(NamedTuple):
    """One field, in the server's words. ``wants`` describes valid input; ``read`` converts input to a value, or
    raises ``ValueError``. ``default`` is None if there is none.
    """

    name: str
    title: str
    about: str
    required: bool
    default: Answer | None
    choices: Sequence[FormChoice]
    wants: str
    read: Callable[[str], Answer]

    def show(self, value: Answer) -> str:
        """A value as text for the user."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        titles = {choice.value: choice.title for choice in self.choices}
        if isinstance(value, list):
            return ", ".join(titles.get(item, item) for item in value) or NONE
        return titles.get(str(value), str(value))


def fields(schema: dict[str, Any]) -> list[Field]:
    """The fields of a form, in order. Raises ``BadForm``."""
    try:
        form = msgspec.convert(schema, _Form)
    except msgspec.ValidationError as error:
        raise BadForm(f"The form is not supported: {error}.") from None
    return [_field(name, asked, name in form.required) for name, asked in form.properties.items()]


def with_defaults(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """The values of a form, with the schema's defaults for omitted fields."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return content
    defaults: dict[str, Any] = {
        name: asked["default"]  # type: ignore[index]
        for name, asked in properties.items()  # pyright: ignore[reportUnknownVariableType] — JSON of a server
        if isinstance(asked, dict) and "default" in asked
    }
    return defaults | content


# -- the schema ---------------------------------------------------------------------------------------


class _Option(msgspec.Struct):
    const: str
    title: str | None = None


class _Items(msgspec.Struct, rename="camel"):
    enum: list[str] | None = None
    any_of: list[_Option] = []


class _FieldSchema(msgspec.Struct, rename="camel"):
    """The keywords of a field's schema, of any type."""

    type: Literal["string", "number", "integer", "boolean", "array"] = "string"
    title: str | None = None
    description: str | None = None
    default: Answer | None = None
    format: str | None = None
    enum: list[str] | None = None
    enum_names: list[str] = []
    one_of: list[_Option] | None = None
    items: _Items = msgspec.field(default_factory=_Items)
    minimum: Number | None = None
    maximum: Number | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None


class _Form(msgspec.Struct):
    properties: dict[str, _FieldSchema] = {}
    required: list[str] = []


def _field(name: str, asked: _FieldSchema, required: bool) -> Field:
    choices: list[FormChoice] = []
    match asked.type:
        case "boolean":
            wants, read = "y or n", _yes_or_no
        case "integer" | "number":
            kind = int if asked.type == "integer" else float
            bounds = Bounds(asked.minimum, asked.maximum)
            wants = f"a {'whole ' if kind is int else ''}number{bounds}"
            read = partial(_number, kind, bounds)
        case "array":
            items = asked.items
            choices = _choices(items.enum, [], items.any_of)
            bounds = Bounds(asked.min_items, asked.max_items)
            wants = f"some of these, with commas between them, or `{NONE}`{bounds}"
            read = partial(_several, choices, bounds)
        case "string" if asked.enum is not None or asked.one_of is not None:
            choices = _choices(asked.enum, asked.enum_names, asked.one_of or [])
            wants, read = "one of these", partial(_find_choice, choices)
        case "string":
            bounds = Bounds(asked.min_length, asked.max_length)
            noun, kind = FORMATS.get(asked.format, ("text", str))
            wants = f"{noun}{bounds}{' characters' if str(bounds) else ''}"
            read = partial(_text, kind, bounds)
    return Field(
        name=name,
        title=asked.title or name,
        about=asked.description or "",
        required=required,
        default=asked.default,
        choices=choices,
        wants=wants,
        read=read,
    )


def _choices(enum: list[str] | None, names: list[str], options: list[_Option]) -> list[FormChoice]:
    if not enum and not options:
        raise BadForm("The form is not supported: a choice has no options.")
    if enum is None:
        return [FormChoice(option.const, option.title or option.const) for option in options]
    return [FormChoice(value, names[at] if at < len(names) else value) for at, value in enumerate(enum)]


# -- what was typed -----------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """Limits of a number or a length; either may be missing."""

    least: Number | None
    most: Number | None

    def __str__(self) -> str:
        match self:
            case None, None:
                return ""
            case least, None:
                return f", at least {least}"
            case None, most:
                return f", at most {most}"
            case least, most:
                return f", {least} to {most}"

    def check(self, number: Number) -> None:
        """Raises ``ValueError``."""
        if not (self.least is None or number >= self.least) or not (self.most is None or number <= self.most):
            raise ValueError(number)


def _read_as(kind: Any, text: str) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(text) from error


def _yes_or_no(text: str) -> bool:
    answers = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
    if text.lower() not in answers:
        raise ValueError(text)
    return answers[text.lower()]


def _number(kind: type[int | float], bounds: Bounds, text: str) -> Number:
    number: Number = _read_as(kind, text)
    if not math.isfinite(number):
        raise ValueError(text)
    bounds.check(number)
    return number


def _text(kind: Any, bounds: Bounds, text: str) -> str:
    _read_as(kind, text)
    bounds.check(len(text))
    return text


def _find_choice(choices: Sequence[FormChoice], text: str) -> str:
    for choice in choices:
        if text in choice:
            return choice.value
    if not 1 <= int(text) <= len(choices):
        raise ValueError(text)
    return choices[int(text) - 1].value


def _several(choices: Sequence[FormChoice], bounds: Bounds, text: str) -> list[str]:
    none = text == NONE and not any(NONE in choice for choice in choices)
    parts = [] if none else [part.strip() for part in text.split(",")]
    picked = list(dict.fromkeys(_find_choice(choices, part) for part in parts))
    bounds.check(len(picked))
    return picked
