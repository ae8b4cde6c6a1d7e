"""Changes of one value in a TOML text. Everything else stays as it is, comments, order and line ends included.

A change is checked: the text after it has to mean what it meant before, but for that value. Where this does not hold, for
example in a table that is written on one line, it is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from newel.agent.errors import NewelError
from newel.text.toml import toml_string

_PART: Final = r"""(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_NAME: Final = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_KEY: Final = re.compile(rf"[ \t]*({_NAME})[ \t]*=[ \t]*")
_HEADER: Final = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_NAME})[ \t]*\]\]?[ \t]*(?:#.*)?\s*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class TomlEditError(NewelError):
    """A text that cannot be changed automatically."""


class _Statement(NamedTuple):
    """A key with its value, or the header of a table, on the lines ``first`` to ``last``. ``start`` is that of the value, ``end`` its end,
    in the text of these lines.
    """

    path: tuple[str, ...]
    is_header: bool
    first: int
    last: int
    start: int = 0
    end: int = 0


def split_name(name: str) -> tuple[str, ...] | None:
    """The parts of a dotted name, such as ``models."a.b".alias_of``; None for what is no name."""
    if not re.fullmatch(_NAME, name.strip()):
        return None
    return tuple(_plain(part) for part in re.findall(_PART, name))


def join_name(path: Sequence[str]) -> str:
    """The parts of a name as TOML writes them."""
    return ".".join(part if _BARE.fullmatch(part) else toml_string(part) for part in path)


def toml_value(value: object) -> str:
    """A value as TOML writes it, on one line."""
    match value:
        case str():
            return toml_string(value)
        case list():
            return f"[{', '.join(map(toml_value, cast('list[object]', value)))}]"
        case dict():
            items = cast("dict[str, object]", value).items()
            return f"{{{', '.join(f'{join_name([key])} = {toml_value(each)}' for key, each in items)}}}"
        case bool() | int() | float():
            return json.dumps(value)
        case _:
            return str(value)


def with_value(text: str, path: tuple[str, ...], value: object) -> str:
    """The text with another value for a key. Raises ``TomlEditError``."""
    wanted = tomllib.loads(text)
    _put(wanted, path, value)
    lines = _lines(text)
    statements = list(_statements(lines))
    end = "\r\n" if "\r\n" in text else "\n"
    written = toml_value(value)
    if found := next((each for each in statements if each.path == path and not each.is_header), None):
        whole = "".join(lines[found.first : found.last + 1])
        lines[found.first : found.last + 1] = [whole[: found.start] + written + whole[found.end :]]
    else:
        _insert(lines, statements, path, written, end)
    return _checked("".join(lines), wanted, path)


def without_value(text: str, path: tuple[str, ...]) -> str:
    """The text without a key, or without a table and all that it has. Raises ``TomlEditError``."""
    wanted = tomllib.loads(text)
    if not _drop(wanted, path):
        return text
    lines = _lines(text)
    statements = list(_statements(lines))
    for found in reversed([each for each in statements if each.path[: len(path)] == path]):
        del lines[found.first : found.last + 1]
    return _checked("".join(lines), wanted, path)


def _insert(
    lines: list[str], statements: Sequence[_Statement], path: tuple[str, ...], written: str, end: str
) -> None:
    """Add a key at the end of its table, or with a table of its own at the end of the text."""
    table = path[:-1]
    line = f"{join_name(path[-1:])} = {written}{end}"
    current: tuple[str, ...] = ()
    after = None if table else -1
    for each in statements:
        current = each.path if each.is_header else current
        if current == table and (each.is_header or each.path[:-1] == table or not table):
            after = each.last
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    if after is None:
        gap = [end] if lines and lines[-1].strip() else []
        lines += [*gap, f"[{join_name(table)}]{end}", line]
    elif after >= 0:
        lines.insert(after + 1, line)
    else:
        # Comments at the top are about the file or the first table.
        at = next((each.first for each in statements), len(lines))
        while 0 < at < len(lines) and lines[at - 1].lstrip().startswith("#"):
            at -= 1
        lines[at:at] = [line, end] if at < len(lines) else [line]


def _lines(text: str) -> list[str]:
    """The lines with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _statements(lines: Sequence[str]) -> Iterator[_Statement]:
    table: tuple[str, ...] = ()
    number = 0
    while number < len(lines):
        line = lines[number]
        if header := _HEADER.fullmatch(line):
            table = split_name(header[2]) or ()
            if header[1] == "[[":
                table = (*table, "[]")  # the entries of a list have no name here
            yield _Statement(table, True, number, number)
        elif key := _KEY.match(line):
            last = number
            text = line
            while not _is_toml(text) and last + 1 < len(lines):
                last += 1
                text += lines[last]
            path = (*table, *(split_name(key[1]) or ()))
            yield _Statement(path, False, number, last, key.end(), _end_of_value(text, key.end()))
            number = last
        number += 1


def _end_of_value(text: str, start: int) -> int:
    """Where a value ends: before the comment behind it, if there is one."""
    for comment in re.finditer("#", text):
        if comment.start() > start and _is_toml(text[: comment.start()]):
            return len(text[: comment.start()].rstrip())
    return len(text.rstrip())


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _checked(text: str, wanted: Mapping[str, Any], path: tuple[str, ...]) -> str:
    try:
        means = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        means = None
    if _without_empty(means) != _without_empty(wanted):
        raise TomlEditError(
            f"{join_name(path)} cannot be changed automatically, because of the way it is written. Edit the file."
        )
    return text


def _without_empty(value: object) -> object:
    """A value without its empty tables, which mean nothing in settings."""
    if not isinstance(value, dict):
        return value
    items = {key: _without_empty(each) for key, each in cast("dict[str, object]", value).items()}
    return {key: each for key, each in items.items() if each != {}}


def _put(table: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for part in path[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise TomlEditError(f"{join_name(path)} is not a setting: {join_name([part])} is a value.")
        table = cast("dict[str, Any]", inner)
    table[path[-1]] = value


def _drop(table: dict[str, Any], path: tuple[str, ...]) -> bool:
    for part in path[:-1]:
        inner = table.get(part)
        if not isinstance(inner, dict):
            return False
        table = cast("dict[str, Any]", inner)
    return table.pop(path[-1], None) is not None


def _plain(part: str) -> str:
    return next(iter(tomllib.loads(f"{part} = 1")))
