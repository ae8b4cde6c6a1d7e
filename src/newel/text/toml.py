"""Texts of TOML: strings and tables as TOML writes them, and the lines of a text on which its keys and strings stand, which its parser does
not tell.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, cast

_STRING: Final = r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*'
"""A string on one line, or a comment, in which quotes mean nothing."""


def toml_string(text: str) -> str:
    """As JSON writes it, but with DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of strings, numbers, truth values, and further tables, as TOML."""
    return "\n".join([*_table_lines((), tables), ""])


def _table_lines(path: tuple[str, ...], table: Mapping[str, Any]) -> list[str]:
    """The header and values of a table, and then its tables."""
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"[{'.'.join(map(toml_string, path))}]"] if path and values else []
    lines += [
        f"{toml_string(key)} = {toml_string(value) if isinstance(value, str) else json.dumps(value)}"
        for key, value in values.items()
    ]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _table_lines((*path, key), cast("Mapping[str, Any]", value))
    return lines


def line_of_key(text: str, at: tuple[str, ...]) -> int:
    """The line of a key, or else of its table, or else 1. The tables of an array are numbered from 0: ``("checks", "2", "run")``."""
    table: tuple[str, ...] = ()
    seen: Counter[tuple[str, ...]] = Counter()
    best, found = 0, 1
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\s*+(\[++)([^\]]*)\]", line):
            path = table = _keys(header[2])
            if header[1] == "[[":
                table = (*path, str(seen[path]))
                seen[path] += 1
                path = table[: max(len(at), len(path))]  # without the number for who asks about the array
        elif (key := re.match(r"([^=#]++)=", line)) is not None:
            path = (*table, *_keys(key[1]))
        else:
            continue
        if len(path) > best and path == at[: len(path)]:
            best, found = len(path), number
    return found


def line_of_string(text: str, at: tuple[str, ...], value: str) -> int:
    """The line of a string in the list at a key, or else of the key."""
    first = line_of_key(text, at)
    start = sum(len(line) + 1 for line in text.split("\n")[: first - 1])
    for token in re.finditer(_STRING, text[start:]):
        if not token[0].startswith("#") and _value(token[0]) == value:
            return first + text.count("\n", start, start + token.start())
    return first


def _value(token: str) -> object:
    try:
        return tomllib.loads(f"x = {token}")["x"]
    except tomllib.TOMLDecodeError:
        return None


def _keys(dotted: str) -> tuple[str, ...]:
    """The parts of a key; dots in quotes do not separate."""
    return tuple(part.strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.\s]+", dotted))
