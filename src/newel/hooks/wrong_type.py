"""What is wrong with the type of a value in a file of hooks, in the terms of the file, not of its parser."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import msgspec

from newel.text.sanitize import escape_line

MAX_VALUE: Final = 60
"""Characters of a value in a message."""


class WrongType(msgspec.Struct, frozen=True):
    """``key`` is the one whose value has a wrong type; empty for the value itself."""

    key: str
    message: str

    @classmethod
    def of(
        cls, data: msgspec.Raw | bytes, name: str, expected: str, example: Any, *, key: str = ""
    ) -> WrongType:
        """``data`` is the value as it is written, ``name`` what a message calls it; no ``example`` is None."""
        such_as = "" if example is None else f", such as {json.dumps(example)}"
        shown = " ".join(bytes(data)[: MAX_VALUE * 4].decode(errors="replace").split())
        return cls(key, f"{name} is {escape_line(shown, MAX_VALUE)}, and has to be {expected}{such_as}")


def find_wrong_type(
    data: msgspec.Raw | bytes, kind: type[msgspec.Struct], name: str, example: Any
) -> WrongType:
    """The value in ``data`` that does not fit into a struct, whose fields have a description and an example of what they have to be. A
    message calls the struct itself ``name``.
    """
    if not _fits(data, dict[str, msgspec.Raw]):
        return WrongType.of(data, name, "an object", example)
    values = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    for field in msgspec.structs.fields(kind):
        key = field.encode_name
        if key in values and not _fits(values[key], field.type):
            meta = next(each for each in get_args(field.type) if isinstance(each, msgspec.Meta))
            of_field = meta.examples[0] if meta.examples else None
            return WrongType.of(values[key], f"`{key}`", meta.description or "", of_field, key=key)
    return WrongType("", f"{name} has a key twice, once with a value of a wrong type")


def _fits(data: msgspec.Raw | bytes, kind: Any) -> bool:
    try:
        msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        return False
    return True
