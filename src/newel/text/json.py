"""Reading what was written by others: nothing is what it should be until it has been looked at."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, cast

import msgspec


@cache
def regex(pattern: str) -> re.Pattern[str]:
    """The compiled expression: made on first use, for at import it would slow down every start."""
    return re.compile(pattern)


def parse(data: bytes | str, *, strict: bool = True) -> Any:
    """Decode JSON; also what msgspec refuses but servers write: NaN, lone surrogates, broken UTF-8, a BOM.
    Unless ``strict``, strings may hold raw line breaks and other control characters.

    Raises ``ValueError`` (which ``msgspec.DecodeError`` is) if it is not JSON or nested too deeply.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return without_surrogates(json.loads(text.removeprefix("\ufeff"), strict=strict))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def without_surrogates(value: Any) -> Any:
    """The same JSON value with a question mark for each lone surrogate, which no UTF-8 can hold."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def is_cut(error: ValueError) -> bool:
    """Whether ``parse`` failed because the text ended too early."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")


def as_dict(value: object) -> dict[str, Any]:
    """``value`` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_str(value: object) -> str:
    """``value`` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """``value`` as a count of something, 0 if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return 0
    return int(value)


def to_json(value: object) -> bytes:
    """Encode, with a question mark for what UTF-8 cannot hold."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(without_surrogates(msgspec.to_builtins(value)))
