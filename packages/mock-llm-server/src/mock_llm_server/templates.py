r"""Templates, which insert text of the conversation into a scripted answer.

    {{ user }}                            the last user message
    {{ tool_result | exit code (\d+) }}    the match of a regular expression in it: the first group, or all
    {{ 1 }}  {{ name }}                   a group of the scenario's trigger_regex

Braces around anything but a single word are not templates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec

SOURCES = ("user", "tool_result", "system", "model")

_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*(?:\|\s*(.+?))?\s*\}\}")


class TemplateError(ValueError):
    """The conversation has no value for a template."""


def has_template(text: str) -> bool:
    return _TEMPLATE.search(text) is not None


def problem(text: str, groups: Collection[str]) -> str | None:
    """The error of the templates in ``text``, or None. ``groups`` are the names and numbers of the trigger_regex's groups."""
    for template in _TEMPLATE.finditer(text):
        name, pattern = template[1], cast("str | None", template[2])
        if name not in SOURCES and name not in groups:
            known = ", ".join([*SOURCES, *groups])
            return f'{template[0]} is not a known value ({known}); set "literal": true to send such braces'
        try:
            re.compile(pattern or "")
        except re.error as error:
            return f"{template[0]} is not a valid regular expression: {error}"
    return None


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill the templates of a text. Raises ``TemplateError``."""

    def replace(template: re.Match[str]) -> str:
        name, pattern = template[1], cast("str | None", template[2])
        value = values.get(name)
        if value is None:
            raise TemplateError(f"{template[0]}: this conversation has no {name}")
        if pattern is None:
            return value
        match = re.search(pattern, value)
        if match is None:
            raise TemplateError(f"{template[0]}: the expression does not match the {name}")
        return (match[1] if match.re.groups else match[0]) or ""

    return _TEMPLATE.sub(replace, text)


def fill_arguments(arguments: str | dict[str, Any], values: Mapping[str, str]) -> str:
    """Fill the templates of tool call arguments, and return JSON text. Captured text is quoted as JSON, unless the arguments are
    deliberately not JSON.
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
