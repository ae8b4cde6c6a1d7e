r"""Text captured from the conversation, put into a scripted answer.

    {{ user }}                            the last user message
    {{ tool_result | exit code (\d+) }}    what a regular expression finds there: its first group, or all of it
    {{ 1 }}  {{ name }}                   a group of the scenario's trigger_regex

Braces around anything that is not a single word are left as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec

SOURCES = ("user", "tool_result", "system", "model")

_PLACE = re.compile(r"\{\{\s*(\w+)\s*(?:\|\s*(.+?))?\s*\}\}")


class TemplateError(ValueError):
    """A template that cannot be filled from this conversation."""


def has_template(text: str) -> bool:
    return _PLACE.search(text) is not None


def problem(text: str, groups: Collection[str]) -> str | None:
    """What is wrong with the templates in ``text``, or None.

    :param groups: the names and numbers of the groups that the scenario's trigger_regex captures.
    """
    for place in _PLACE.finditer(text):
        name, pattern = place[1], cast("str | None", place[2])
        if name not in SOURCES and name not in groups:
            known = ", ".join([*SOURCES, *groups])
            return f'{place[0]} names nothing known here ({known}); set "literal": true to keep such braces'
        try:
            re.compile(pattern or "")
        except re.error as error:
            return f"{place[0]} holds no valid regular expression: {error}"
    return None


def fill(text: str, values: Mapping[str, str]) -> str:
    """``text`` with each template replaced. Raises TemplateError where a template finds nothing."""

    def found(place: re.Match[str]) -> str:
        name, pattern = place[1], cast("str | None", place[2])
        value = values.get(name)
        if value is None:
            raise TemplateError(f"{place[0]}: this conversation has no {name}")
        if pattern is None:
            return value
        match = re.search(pattern, value)
        if match is None:
            raise TemplateError(f"{place[0]}: the expression matches nothing in the {name}")
        return (match[1] if match.re.groups else match[0]) or ""

    return _PLACE.sub(found, text)


def fill_arguments(arguments: str | dict[str, Any], values: Mapping[str, str]) -> str:
    """Tool call arguments as JSON text. Captured text is quoted as JSON where the arguments are JSON;
    arguments that are deliberately something else take it as it is.
    """
    if isinstance(arguments, str):
        if not has_template(arguments):
            return arguments
        try:
            decoded = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return fill(arguments, values)
    else:
        decoded = arguments
    return msgspec.json.encode(_fill_value(decoded, values)).decode()


def strings(value: Any) -> Iterator[str]:
    """Each string value inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from strings(item)


def _fill_value(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return fill(value, values)
    if isinstance(value, dict):
        return {key: _fill_value(item, values) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_fill_value(item, values) for item in cast("list[Any]", value)]
    return value
