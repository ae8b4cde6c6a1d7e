"""The line of an error in a JSON text, from the path or byte that msgspec reports."""

from __future__ import annotations

import re

import msgspec

_PATH = re.compile(r"^(?P<reason>.*?)(?: - at `(?:key )?(?:in )?(?P<path>\$[^`]*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")
_SPACE = re.compile(r"[ \t\r\n]*")
_UNKNOWN_FIELD = re.compile(r"unknown field `(\w+)`")
_BYTE = re.compile(r" \(byte (\d+)\)")


def explain(error: msgspec.DecodeError, text: str) -> tuple[int, str]:
    """The line (from 1) and the reason of a decoding error in ``text``."""
    message = str(error)
    if not isinstance(error, msgspec.ValidationError):
        byte = _BYTE.search(message)
        if byte is None:
            return _line(text.rstrip(), len(text)), "the JSON ends too early"
        before = text.encode()[: int(byte[1])].decode(errors="replace")
        return _line(before, len(before)), message[: byte.start()]
    parts = _PATH.match(message)
    reason, path = (parts["reason"], parts["path"] or "$") if parts else (message, "$")
    unknown = _UNKNOWN_FIELD.search(reason)
    place = f"{path}.{unknown[1]}" if unknown else path
    where = path.removeprefix("$").removeprefix(".")
    return line_of(text, place), f"{where}: {reason}" if where else reason


def line_of(text: str, path: str) -> int:
    """The line (from 1) of the value at ``path``, such as ``$.scenarios[0].name``, in valid JSON. If the path does not exist, the
    line of its last existing value.
    """
    at = _skip_space(text, 0)
    for step in _STEP.finditer(path):
        child = _child(text, at, step["key"] if step["key"] is not None else int(step["index"]))
        if child is None:
            break
        at = child
    return _line(text, at)


def _child(text: str, at: int, wanted: str | int) -> int | None:
    import json

    skip_value = json.JSONDecoder().raw_decode
    closing = {"{": "}", "[": "]"}.get(text[at])
    at = _skip_space(text, at + 1)
    index = 0
    while closing and text[at] != closing:
        key: str | int = index
        if closing == "}":
            key, at = skip_value(text, at)
            at = _skip_space(text, _skip_space(text, at) + 1)
        if key == wanted:
            return at
        _, at = skip_value(text, at)
        at = _skip_space(text, at)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
        index += 1
    return None


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
