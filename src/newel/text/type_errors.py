"""Errors of msgspec about wrong types, without the names that only Python has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

_WORDS: Final[Mapping[str, str]] = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_TYPES: Final = rf"`((?:(?:{'|'.join(_WORDS)}|null)(?: \| )?)+)`"
_BOUNDS: Final = {
    " of length >= ": " of a length of at least ",
    " >= ": " of at least ",
    " <= ": " of at most ",
    " > ": " above ",
    " matching regex ": " matching ",
}


def describe_type_error(problem: str, kind: Any = None, *, table: str = "an object") -> str:
    """``Expected `float | null`, got `str` `` is ``Expected a number, got a string``. After an invalid choice stand those of ``kind``, the
    expected type. ``table`` is what the format calls an object.
    """
    if (choices := choices_of(kind)) and (wrong := re.fullmatch(r"(?s)Invalid enum value '(.*)'", problem)):
        return f"Invalid value {wrong[1][:60]!r}; valid values are {', '.join(choices)}"
    if not problem.startswith("Expected"):
        return problem
    words = {**_WORDS, "object": table}
    problem = re.sub(
        _TYPES,
        lambda match: " or ".join(words[name] for name in match[1].split(" | ") if name in words) or "null",
        problem,
    )
    for sign, word in _BOUNDS.items():
        problem = problem.replace(sign, word)
    return re.sub(r"(\d)\.0\b", r"\1", problem)


def choices_of(kind: Any) -> list[str]:
    """The words that a type, or a list of it, consists of, but for None; empty if it has others."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    kinds = [each for each in get_args(kind) if each is not type(None)]
    return choices_of(kinds[0]) if len(kinds) == 1 and get_origin(kind) in {Union, UnionType, list} else []
